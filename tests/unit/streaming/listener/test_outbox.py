"""The listener's outbox is bounded and never blocks the application."""

import time
from collections.abc import Iterator

import pytest

from streaming.listener.listener import MAX_WAITING_EVENTS, EventOutbox, MembershipReporter
from streaming.listener.membership import ClockReading, join_template
from streaming.records.events import Event, MemberHeartbeat
from streaming.settings.config import load


def heartbeat_events(count: int) -> Iterator[Event]:
    for number in range(count):
        yield Event("listener/1", str(number), MemberHeartbeat(group_id="g", timestamp=number, member_id="m"))


@pytest.fixture
def outbox() -> Iterator[EventOutbox]:
    outbox = EventOutbox(load(bootstrap_servers="127.0.0.1:1"))
    yield outbox
    outbox.close(0)


def test_the_newest_events_are_kept_in_order(outbox: EventOutbox) -> None:
    outbox.put(heartbeat_events(MAX_WAITING_EVENTS + 5))
    assert [event.id for event in outbox._waiting_events] == [
        str(number) for number in range(5, MAX_WAITING_EVENTS + 5)
    ]


def test_unreachable_cluster_delays_nothing_else(outbox: EventOutbox, caplog: pytest.LogCaptureFixture) -> None:
    reporter = MembershipReporter(outbox, join_template("g"), lambda: ("m", 1))
    outbox.add(reporter)
    outbox.put(reporter.membership.assigned([("t", 0)], "m", 1, ClockReading(1, 1)))
    before = time.monotonic()
    outbox.put(heartbeat_events(10 * MAX_WAITING_EVENTS))
    outbox.close(0.2)
    assert time.monotonic() - before < 5
    assert len(outbox._waiting_events) == MAX_WAITING_EVENTS


def test_collected_consumer_is_forgotten(outbox: EventOutbox) -> None:
    outbox.add(MembershipReporter(outbox, join_template("g"), lambda: ("m", 1)))
    assert not outbox._consumers
