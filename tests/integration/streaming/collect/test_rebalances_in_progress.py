"""Reports of rebalances in progress on a real broker, for clients with default settings."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from streaming.records.events import GroupObserved, GroupRebalancing
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.protocols.java_members import JavaMembers
from tests.support.kafka import EmbeddedKafka, Kafka, eventually, unique_name

pytestmark = [pytest.mark.broker]

_REBALANCE_TIMEOUT_MS = 180_000
_HANG_SECONDS = 30


class MemberWithoutPolls:
    def __init__(self, servers: str, group: str, topic: str, **properties: Any) -> None:
        config = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
        self.consumer = Consumer(config | {name.replace("_", "."): value for name, value in properties.items()})
        self.consumer.subscribe([topic])

    def poll_until_assigned(self) -> None:
        eventually(lambda: (self.consumer.poll(0.1), self.consumer.assignment())[1])

    @property
    def member_id(self) -> str:
        return str(self.consumer.memberid())


@contextmanager
def start_idle_poller(servers: str, group: str, topic: str, **properties: Any) -> Iterator[MemberWithoutPolls]:
    member = MemberWithoutPolls(servers, group, topic, **properties)
    try:
        yield member
    finally:
        member.consumer.close()


def rebalances(collecting: CollectorProcess, group: str) -> list[GroupRebalancing]:
    return [event.data for event in collecting.events(group) if isinstance(event.data, GroupRebalancing)]


def _has_rebalance_ended(collecting: CollectorProcess, group: str) -> bool:
    """Return true if the group's last rebalance has ended: a snapshot followed it, or its last event has ``ended``."""
    events = [event.data for event in collecting.events(group)]
    last = next(event for event in reversed(events) if isinstance(event, GroupObserved | GroupRebalancing))
    return isinstance(last, GroupObserved) or last.ended


@pytest.mark.parametrize("by", ["offsets", "log", "polling"])
def test_a_member_that_hangs_is_awaited(broker: Kafka, topic: str, by: str) -> None:
    """If a member of a classic group stops polling and another one joins, the report says that the group waits."""
    group, servers = unique_name("group"), broker.bootstrap_servers
    options = ["--by", "polling"] if by == "polling" else []
    if by == "log":
        if not isinstance(broker, EmbeddedKafka):
            pytest.skip("the container's log is no file here")
        options = ["--coordinator-log", str(broker.broker.log_path)]
    with CollectorProcess(servers, group, *options) as collecting, start_idle_poller(servers, group, topic) as slow:
        slow.poll_until_assigned()
        eventually(lambda: collecting.views(group))
        began = time.time()
        with start_idle_poller(servers, group, topic) as new:
            new.consumer.poll(0)
            eventually(lambda: any(rebalance.awaited for rebalance in rebalances(collecting, group)))
            first = next(rebalance for rebalance in rebalances(collecting, group) if rebalance.awaited)
            assert first.awaited == [slow.member_id]
            assert began - 1 <= first.since / 1000 <= first.timestamp / 1000
            assert (first.state, first.ended) == ("PreparingRebalance", False)
            if by != "polling":
                assert first.source == ("coordinator-log" if by == "log" else "admin")
                assert first.until == {slow.member_id: first.since + 300_000}
                assert (first.reason is not None) == (by == "log")
            before = len(collecting.views(group))

            def both_have_polled() -> bool:
                slow.consumer.poll(0.1)
                new.consumer.poll(0.1)
                return bool(new.consumer.assignment())

            eventually(both_have_polled)
            eventually(lambda: len(collecting.views(group)) > before)
            eventually(lambda: _has_rebalance_ended(collecting, group))


class JavaMember:
    """A Java consumer that stops polling for a time."""

    def __init__(self, members: JavaMembers, name: str, config: dict[str, Any], topic: str) -> None:
        self._members, self._name = members, name
        members.start(name, config, [topic])

    def member_id(self) -> str:
        eventually(lambda: self._members.owned[self._name])
        return next(c.member for c in reversed(self._members.callbacks) if c.name == self._name)

    def sleep_without_polls(self, seconds: float) -> None:
        self._members.pause_polling(self._name, int(1000 * seconds))

    def poll(self) -> bool:
        return bool(self._members.owned[self._name])


class PythonMember:
    """A kafka-python consumer that polls only when :meth:`poll` is called, so that it can hang."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        settings = {"group_id": group, "max_poll_interval_ms": _REBALANCE_TIMEOUT_MS}
        self._consumer = KafkaConsumer(topic, bootstrap_servers=servers, **settings)

    def member_id(self) -> str:
        eventually(self.poll)
        return str(self._consumer.group_metadata().member_id)

    def sleep_without_polls(self, seconds: float) -> None:
        """Do nothing, as the consumer polls only when :meth:`poll` is called."""

    def poll(self) -> bool:
        self._consumer.poll(timeout_ms=100)
        return bool(self._consumer.assignment())


@pytest.mark.full
@pytest.mark.parametrize("client", ["kafka-python", "java", "java-consumer"])
def test_hanging_members_of_other_libraries_are_awaited(
    broker: Kafka, topic: str, client: str, record_property: Callable[[str, object], None]
) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    with CollectorProcess(servers, group) as collecting, JavaMembers() as members:

        def start(name: str) -> JavaMember | PythonMember:
            if client == "kafka-python":
                return PythonMember(servers, group, topic)
            config = {"bootstrap.servers": servers, "group.id": group}
            config["max.poll.interval.ms"] = str(_REBALANCE_TIMEOUT_MS)
            config |= {"group.protocol": "consumer"} if client == "java-consumer" else {}
            return JavaMember(members, name, config, topic)

        slow = start("slow")
        slow_member_id = slow.member_id()
        eventually(lambda: collecting.views(group) and collecting.views(group)[-1].members)
        slow.sleep_without_polls(_HANG_SECONDS)
        began = time.time()
        new = start("new")
        eventually(lambda: (new.poll(), any(event.awaited for event in rebalances(collecting, group)))[1])
        first = next(event for event in rebalances(collecting, group) if event.awaited)
        record_property("seconds from the new member's start to the event", round(first.timestamp / 1000 - began, 1))
        assert first.awaited == [slow_member_id]
        eventually(lambda: (slow.poll(), new.poll())[1])
        eventually(lambda: (slow.poll(), new.poll(), _has_rebalance_ended(collecting, group))[2])


def test_a_consumer_group_awaits_the_member_that_does_not_revoke(broker: Kafka, topic: str) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    with (
        CollectorProcess(servers, group) as collecting,
        start_idle_poller(servers, group, topic, group_protocol="consumer") as slow,
    ):
        slow.poll_until_assigned()
        eventually(lambda: collecting.views(group))
        with start_idle_poller(servers, group, topic, group_protocol="consumer") as new:
            new.consumer.poll(0)
            eventually(lambda: any(rebalance.until for rebalance in rebalances(collecting, group)))
            first = next(rebalance for rebalance in rebalances(collecting, group) if rebalance.until)
            assert (first.awaited, first.joined) == ([slow.member_id], [new.member_id])
            assert (first.state, first.source, first.ended) == ("Reconciling", "records", False)
            assert first.until[slow.member_id] - first.timestamp <= 300_000

            def both_have_polled() -> bool:
                slow.consumer.poll(0.1)
                new.consumer.poll(0.1)
                return rebalances(collecting, group)[-1].ended

            eventually(both_have_polled)


def test_rebalance_that_empties_the_group_is_reported_as_ended(broker: Kafka, topic: str) -> None:
    """If the only member that had joined leaves during the rebalance, the group is empty and an event reports it."""
    group, servers = unique_name("group"), broker.bootstrap_servers
    with CollectorProcess(servers, group) as collecting:
        with start_idle_poller(servers, group, topic) as slow:
            slow.poll_until_assigned()
            eventually(lambda: collecting.views(group))
            with start_idle_poller(servers, group, topic) as new:
                new.consumer.poll(0)
                eventually(lambda: rebalances(collecting, group))
        eventually(lambda: not collecting.views(group)[-1].members)
