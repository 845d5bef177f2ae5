import logging
from types import SimpleNamespace

import pytest

from streaming.listener.listener import EventOutbox, MembershipReporter, reporter
from streaming.listener.membership import join_template
from streaming.records.events import MemberJoined
from streaming.settings.config import load


def outbox() -> EventOutbox:
    return EventOutbox(load(bootstrap_servers="127.0.0.1:1"))


def fail_to_read() -> tuple[str, int]:
    raise RuntimeError("the client is gone")


def test_unresponsive_client_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    reporter = MembershipReporter(outbox(), join_template("g"), fail_to_read, fail_to_read)
    with caplog.at_level(logging.ERROR):
        reporter.assigned([SimpleNamespace(topic="t", partition=0)])
        reporter.revoked([])
        reporter.report_unchanged()
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


def test_poll_without_news_wakes_no_waiter() -> None:
    """A poll without changes must not wake the thread of the outbox: that thread polls, so it would never sleep."""
    event_outbox = outbox()
    reporter = MembershipReporter(event_outbox, join_template("g"), fail_to_read, lambda: ("m", 1))
    reporter.report_unchanged()
    reporter.report_unchanged()
    waiting_events = list(event_outbox._waiting_events)
    assert waiting_events
    event_outbox._wake_event.clear()
    reporter.report_unchanged()
    assert (list(event_outbox._waiting_events), event_outbox._wake_event.is_set()) == (waiting_events, False)


def test_unreadable_configuration_gets_no_listener() -> None:
    def read_configuration() -> MemberJoined:
        raise ValueError("session.timeout.ms")

    assert reporter(outbox(), read_configuration, fail_to_read) is None
    assert reporter(outbox(), lambda: None, fail_to_read) is None


def test_application_errors_pass_through_on_leave() -> None:
    with pytest.raises(KeyError), MembershipReporter(outbox(), join_template("g"), fail_to_read).leaving("closed"):
        raise KeyError
