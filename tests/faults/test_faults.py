"""Every component of a running monitor under every fault: the fault is reported in time; no id is lost or repeated.

`make test-faults` (and `make test-long`) runs it; with `ARGS="-k serve-"` only the faults of one component. Each run
ends with a comparison of the membership log with that of an undisturbed collector. With `WRITE_TRUST` set, a run in
which all cases pass writes the table of `docs/explanation/trust.md`. `make test` runs some of these faults, with a page
in a browser, in `tests/acceptance/test_faults.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.kafka.broker import EmbeddedBroker
from streaming.records.events import GroupObserved
from tests.faults.case import Case, Outcome, run
from tests.faults.cases.order import CASES
from tests.faults.host import Host, library
from tests.faults.site import TOPIC, Site
from tests.faults.table import add
from tests.support.disks import block_disk
from tests.support.kafka import PROPERTIES, unique
from tests.support.monitor import generations, running_monitor, snapshots

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    return {}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, outcomes: dict[str, list[Outcome]]) -> Iterator[Site]:
    folder, began = tmp_path_factory.mktemp("faults"), time.time()
    with ExitStack() as stack:
        disks = [
            stack.enter_context(block_disk(folder / name, size)) or folder / name
            for name, size in (("broker", 1024), ("checkpoint", 64), ("history", 32))
        ]
        hosts = _hosts(folder)
        if hosts:  # a broker takes this process's environment
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in hosts["broker"].environment.items():
                patch.setenv(name, value)
        broker = stack.enter_context(EmbeddedBroker(data_dir=disks[0] / "kafka", properties=PROPERTIES))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(20)
        monitor = stack.enter_context(
            running_monitor(
                broker, folder, f"{unique('faults')}.", history=disks[2], checkpoint=disks[1] / "checkpoint"
            )
        )
        site = Site(**vars(monitor), hosts=hosts)
        site.prepare()
        yield site
        if outcomes:
            compare(site)
            if os.environ.get("WRITE_TRUST"):
                base = tmp_path_factory.getbasetemp()
                run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
                add(run, began, outcomes, map(str, CASES))


def _hosts(folder: Path) -> dict[str, Host]:
    """Return a simulated host for each component and for the broker."""
    built = library(folder)
    names = ("collect", "stream", "serve", "broker")
    return {} if built is None else {name: Host(built, folder / f"{name}.host") for name in names}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_fault_is_reported_in_time_and_no_diff_lost_or_doubled(
    site: Site, case: Case, outcomes: dict[str, list[Outcome]]
) -> None:
    results = run(site, case)
    assert [(outcome.lost, outcome.doubled) for outcome in results] == [(0, 0)] * len(results)
    outcomes[str(case)] = results


def compare(site: Site) -> None:
    """Compare the snapshots of all groups, including deleted groups, with those of an undisturbed collector."""
    site.start_missing()
    site.change()
    site.complete()
    observed = [event for log in site.past for event in log if isinstance(event.data, GroupObserved)]
    seen = {event.id: event for event in (*observed, *snapshots(site.servers, site.membership))}
    undisturbed = {event.id: event for event in site.undisturbed_snapshots()}
    assert seen == undisturbed
    assert {*site.confirmed} <= generations(undisturbed.values())
