"""The listener's reporter and its outbox, which is bounded and never blocks the application."""

import logging
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from streaming.listener.listener import MAX_WAITING_EVENTS, EventOutbox, MembershipReporter, reporter
from streaming.listener.membership import ClockReading, join_template
from streaming.records.events import Event, MemberHeartbeat, MemberJoined
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


def fail_to_read() -> tuple[str, int]:
    raise RuntimeError("the client is gone")


def test_unresponsive_client_is_logged(outbox: EventOutbox, caplog: pytest.LogCaptureFixture) -> None:
    reporter = MembershipReporter(outbox, join_template("g"), fail_to_read, fail_to_read)
    with caplog.at_level(logging.ERROR):
        reporter.assigned([SimpleNamespace(topic="t", partition=0)])
        reporter.revoked([])
        reporter.report_unchanged()
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


def test_poll_without_news_wakes_no_waiter(outbox: EventOutbox) -> None:
    """A poll without changes must not wake the thread of the outbox: that thread polls, so it would never sleep."""
    reporter = MembershipReporter(outbox, join_template("g"), fail_to_read, lambda: ("m", 1))
    reporter.report_unchanged()
    reporter.report_unchanged()
    waiting_events = list(outbox._waiting_events)
    assert waiting_events
    outbox._wake_event.clear()
    reporter.report_unchanged()
    assert (list(outbox._waiting_events), outbox._wake_event.is_set()) == (waiting_events, False)


def test_unreadable_configuration_gets_no_listener(outbox: EventOutbox) -> None:
    def read_configuration() -> MemberJoined:
        raise ValueError("session.timeout.ms")

    assert reporter(outbox, read_configuration, fail_to_read) is None
    assert reporter(outbox, lambda: None, fail_to_read) is None


def test_application_errors_pass_through_on_leave(outbox: EventOutbox) -> None:
    with pytest.raises(KeyError), MembershipReporter(outbox, join_template("g"), fail_to_read).leaving("closed"):
        raise KeyError
