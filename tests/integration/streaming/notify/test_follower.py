"""Notifications from a real topic: none is lost when the receiver is down or the sender is restarted."""

import time
from contextlib import AbstractContextManager

import msgspec
import pytest

from streaming.kafka.producer import EventProducer
from streaming.kafka.topics import ensure_topics
from streaming.notify.follower import NotifyMetrics, notify
from streaming.records.codec import encode
from streaming.records.episodes import Incident, key
from streaming.settings.config import Settings, load
from streaming.settings.notify import NotifyTarget
from tests.support.background import run_in_background
from tests.support.incidents import incident
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.receiver import Receiver, receiver

pytestmark = pytest.mark.broker


def notify_settings(broker: Kafka, url: str) -> Settings:
    settings = load(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"{unique_name('notify')}.")
    settings.notify = [NotifyTarget(name="ops", type="webhook", url=url, allow_private=True)]
    ensure_topics(settings, settings.topics.made)
    return settings


def write(settings: Settings, *updates: Incident) -> None:
    with EventProducer(settings) as producer:
        for update in updates:
            headers = [("ce_type", b"rebalance.incident"), ("ce_id", b"x")]
            name = key(update.group_id, update.incident)
            producer.send_record(settings.topics.incidents, name, encode(update), headers)


def run_notifier(settings: Settings) -> AbstractContextManager[None]:
    """Run the sender of notifications until the end of the block."""
    return run_in_background(lambda stop: notify(settings, stop, NotifyMetrics()))


def accepted(received: Receiver, *ids: str) -> None:
    eventually(lambda: sorted(received.ids()) == sorted(ids))


def check_first_start(settings: Settings, received: Receiver) -> None:
    """Start the sender of notifications without committed offsets; assert that it sends only later incidents."""
    write(settings, incident("old"))
    with run_notifier(settings):
        number = 0

        def has_received_next() -> bool:
            nonlocal number
            number += 1
            write(settings, incident("ready", number))
            return bool(received.accepted)

        eventually(has_received_next, every=0.5)
        eventually(lambda: f"ready/incident/{number}/1/open" in received.ids())
    assert not any(ce_id.startswith("old/") for ce_id in received.ids())
    received.accepted.clear()


def test_no_notification_is_lost_while_the_receiver_is_down(broker: Kafka) -> None:
    with receiver() as received:
        settings = notify_settings(broker, received.url)
        check_first_start(settings, received)
        received.down.set()
        opened = [incident("g"), incident("h")]
        closed = [incident("g", closed_at=200), msgspec.structs.replace(incident("h"), updated_at=150)]
        with run_notifier(settings):
            write(settings, *opened)
            eventually(lambda: len(received.requests) > 3)
        write(settings, *closed)
        assert received.accepted == []
        received.down.clear()
        with run_notifier(settings):
            wanted = ["g/incident/1/1/open", "g/incident/1/1/close", "h/incident/1/1/open"]
            accepted(received, *wanted)
        assert received.ids().index(wanted[0]) < received.ids().index(wanted[1])
        with run_notifier(settings):
            write(settings, incident("h", closed_at=300))
            accepted(received, *wanted, "h/incident/1/1/close")


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_receiver_down_for_five_minutes_misses_nothing(broker: Kafka) -> None:
    with receiver() as received:
        settings = notify_settings(broker, received.url)
        check_first_start(settings, received)
        received.down.set()
        begin = time.monotonic()
        with run_notifier(settings):
            write(settings, incident("g"), incident("h"))
            eventually(lambda: time.monotonic() - begin > 150, timeout=200, every=1)
            write(settings, incident("g", closed_at=200))
            eventually(lambda: time.monotonic() - begin > 300, timeout=200, every=1)
            assert received.accepted == []
            received.down.clear()
            wanted = ["g/incident/1/1/open", "g/incident/1/1/close", "h/incident/1/1/open"]
            eventually(lambda: sorted(received.ids()) == sorted(wanted), timeout=120)
            write(settings, incident("h", closed_at=300))
            accepted(received, *wanted, "h/incident/1/1/close")
