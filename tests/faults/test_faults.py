"""Injects every fault into each component of a monitor: it is reported in time; no id is lost or repeated.

`make test-faults` (and `make test-long`) runs it; with `ARGS="-k serve-"` only the faults of one component. Each run
ends with a comparison of the membership log with that of an undisturbed collector. With `WRITE_TRUST` set, a run in
which all cases pass writes the table of `docs/explanation/trust.md`. `make test` runs some of these faults, with a page
in a browser, in `tests/acceptance/test_faults.py`.
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streaming.kafka.broker import EmbeddedBroker
from streaming.records.events import GroupObserved
from tests.faults.case import Case, Outcome, run
from tests.faults.cases.order import CASES
from tests.faults.host import SimulatedHost, library
from tests.faults.site import TOPIC, TestedMonitor
from tests.faults.table import add
from tests.support.disks import block_disk
from tests.support.kafka import PROPERTIES, unique_name
from tests.support.monitor import generations, running_monitor, snapshots
from tests.support.topics import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    return {}


@pytest.fixture(scope="module")
def tested_monitor(
    tmp_path_factory: pytest.TempPathFactory, outcomes: dict[str, list[Outcome]]
) -> Iterator[TestedMonitor]:
    folder, began = tmp_path_factory.mktemp("faults"), time.time()
    with ExitStack() as stack:
        disks = [
            stack.enter_context(block_disk(folder / name, size)) or folder / name
            for name, size in (("broker", 1024), ("checkpoint", 64), ("history", 32))
        ]
        hosts = _hosts(folder)
        if hosts:  # a broker takes this process's environment
            monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in hosts["broker"].environment.items():
                monkeypatch.setenv(name, value)
        broker = stack.enter_context(EmbeddedBroker(data_dir=disks[0] / "kafka", properties=PROPERTIES))
        create_topic(broker.bootstrap_servers, TOPIC, 3)
        monitor = stack.enter_context(
            running_monitor(
                broker, folder, f"{unique_name('faults')}.", history=disks[2], checkpoint=disks[1] / "checkpoint"
            )
        )
        tested_monitor = TestedMonitor(**vars(monitor), hosts=hosts)
        tested_monitor.prepare()
        yield tested_monitor
        if outcomes:
            compare(tested_monitor)
            if os.environ.get("WRITE_TRUST"):
                base = tmp_path_factory.getbasetemp()
                run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
                add(run, began, outcomes, map(str, CASES))


def _hosts(folder: Path) -> dict[str, SimulatedHost]:
    """Return a simulated host for each component and for the broker."""
    built = library(folder)
    names = ("collect", "stream", "serve", "broker")
    return {} if built is None else {name: SimulatedHost(built, folder / f"{name}.host") for name in names}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_fault_is_reported_in_time_and_no_diff_lost_or_doubled(
    tested_monitor: TestedMonitor, case: Case, outcomes: dict[str, list[Outcome]]
) -> None:
    results = run(tested_monitor, case)
    assert [(outcome.lost, outcome.doubled_diffs) for outcome in results] == [(0, 0)] * len(results)
    outcomes[str(case)] = results


def compare(tested_monitor: TestedMonitor) -> None:
    """Compare the snapshots of all groups, including deleted groups, with those of an undisturbed collector."""
    tested_monitor.start_stopped_components()
    tested_monitor.change()
    tested_monitor.complete()
    observed = [event for log in tested_monitor.past for event in log if isinstance(event.data, GroupObserved)]
    snapshots_by_id = {
        event.id: event for event in (*observed, *snapshots(tested_monitor.servers, tested_monitor.membership))
    }
    undisturbed_events = {event.id: event for event in tested_monitor.undisturbed_snapshots()}
    assert snapshots_by_id == undisturbed_events
    assert {*tested_monitor.confirmed_writes} <= generations(undisturbed_events.values())
