"""Every part of a running monitor through every fault: it is told in time, and nothing is lost or doubled by id.

`make test-faults` (and `make test-long`) runs it and writes the table of `docs/explanation/trust.md`; with
`ARGS="-k serve-"` only what befalls one part. `make test` has some of it, with a page in a browser, in
`tests/acceptance/test_faults.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.kafka.broker import EmbeddedBroker
from tests.faults.cases import CASES
from tests.faults.site import TOPIC, Case, Site, run
from tests.faults.table import write
from tests.support.disks import block_disk
from tests.support.kafka import PROPERTIES, unique
from tests.support.monitor import running_monitor, views

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        disks = [
            stack.enter_context(block_disk(folder / name, size)) or folder / name
            for name, size in (("broker", 1024), ("checkpoint", 64), ("history", 32))
        ]
        broker = stack.enter_context(EmbeddedBroker(data_dir=disks[0] / "kafka", properties=PROPERTIES))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(20)
        monitor = stack.enter_context(
            running_monitor(
                broker, folder, f"{unique('faults')}.", history=disks[2], checkpoint=disks[1] / "checkpoint"
            )
        )
        site = Site(**vars(monitor))
        site.measured()
        for part in (site.collect, site.stream):
            part.kill()
            part.start()
        site.serve.start()
        yield site


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_told_in_time_and_nothing_is_lost_or_doubled(site: Site, case: Case) -> None:
    outcomes = run(site, case)
    if os.environ.get("WRITE_TRUST"):
        write(outcomes)
    assert [(one.lost, one.doubled) for one in outcomes] == [(0, 0)] * len(outcomes)


def test_the_membership_log_is_what_an_undisturbed_collector_gives(site: Site) -> None:
    site.change()
    site.complete()
    past = {event.id: event for log in site.past for event in log}
    now = {event.id: event for event in views(site.servers, site.membership)}
    undisturbed = {event.id: event for event in site.undisturbed_views()}
    assert {one: (past | now).get(one) for one in undisturbed} == undisturbed
