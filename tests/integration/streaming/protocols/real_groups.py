"""Runs a scenario with real consumers on a real broker, and reads the rounds from ``__consumer_offsets``.

Events are applied one at a time, each after the group has settled, so that rounds do not depend on timing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from assignors.model import Topic
from streaming.protocols.vocabulary import Setup, TimingModel
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import parse_scenario as parse
from streaming.simulation.scenario import Scenario, ScenarioEvent
from tests.integration.streaming.protocols.java_members import JavaMembers, java_config
from tests.integration.streaming.protocols.real_log import Log, topic_ids
from tests.support.kafka import Kafka, unique_name
from tests.support.members import Member, Share
from tests.support.wait import eventually

#: ``(generation or epoch, {name: assignment})``.
Rounds = list[tuple[int, dict[str, Share]]]
#: Session timeout that a member on a busy machine does not exceed.
SESSION_MS = 6000
QUIET_SECONDS = 0.5


@dataclass(frozen=True)
class Group:
    """A group to run: the protocol, the assignor, and the client library of each member."""

    protocol: str  # eager, cooperative, consumer
    assignor: str
    clients: Mapping[str, str]  # name → java, confluent, kafka-python


class ScenarioObserver(Protocol):
    """An observer that is called before and after each event of a scenario."""

    def before(self, event: ScenarioEvent) -> None:
        """Hook that is called before each event of the scenario, while the group is stable."""

    def after(self, event: ScenarioEvent) -> None:
        """Called after each event of the scenario, once the group is stable again."""


class BrokerScenario:
    """One scenario, run with real consumers on a broker."""

    def __init__(self, kafka: Kafka, java: JavaMembers, group: Group, document: dict[str, Any]) -> None:
        self.kafka, self.java, self.group = kafka, java, group
        self.group_id = unique_name(f"play-{group.protocol}")
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self.scenario = self._topics(parse(document))
        self.counts = {name: topic.partitions for name, topic in self.scenario.topics.items()}
        self.live: dict[str, tuple[str, ...]] = {}
        self.instances: dict[str, str] = {}
        self.group_protocols: dict[str, str] = {}
        self.starts: Counter[str] = Counter()
        self.python: dict[str, Member] = {}
        self.log = self._follow()

    def _topics(self, scenario: Scenario) -> Scenario:
        created = self.admin.create_topics(
            [NewTopic(name, topic.partitions, 1) for name, topic in scenario.topics.items()]
        )
        for future in created.values():
            future.result(30)
        ids = topic_ids(self.kafka, scenario.topics.keys())
        self.topic_names: dict[str, str] = {ids[name]: name for name in ids}
        return replace(
            scenario,
            topics={name: Topic(name, topic.partitions, None, ids[name]) for name, topic in scenario.topics.items()},
        )

    def _reader(self, **more: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "group.id": unique_name("reader"),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                **more,
            }
        )

    def _follow(self) -> Log:
        consumer = self._reader()
        ends = []
        for number in range(self._count()):
            _, high = consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", number), timeout=10)
            ends.append(TopicPartition("__consumer_offsets", number, high))
        consumer.assign(ends)
        return Log(self.group_id, consumer, self.topic_names)

    def _count(self) -> int:
        """Return the partition count of the offsets topic; the first group lookup in a cluster creates this topic."""
        first = self._reader(**({"group.protocol": "consumer"} if self.group.protocol == "consumer" else {}))

        def count() -> int:
            first.poll(0.05)
            if len(first.assignment()) < sum(topic.partitions for topic in self.scenario.topics.values()):
                return 0  # coordinators learn of new topics a little later than clients
            return len(first.list_topics("__consumer_offsets", timeout=10).topics["__consumer_offsets"].partitions)

        try:
            first.subscribe(list(self.scenario.topics))
            return int(str(eventually(count)))
        finally:
            first.close()

    # Methods that apply an event.

    def run(self, *observers: ScenarioObserver) -> None:
        """Apply every event of the scenario, each after the group has settled."""
        for scenario_event in self.scenario.events:
            for watcher in observers:
                watcher.before(scenario_event)
            getattr(self, f"_{scenario_event.kind}")(scenario_event)
            self.settle(str(scenario_event))
            for watcher in observers:
                watcher.after(scenario_event)

    def _join(self, event: ScenarioEvent) -> None:
        topics = event.topics or tuple(self.scenario.topics)
        if event.instance_id:
            self.instances[event.member] = event.instance_id
        self.live[event.member] = topics
        self.starts[event.member] += 1
        usual = "consumer" if self.group.protocol == "consumer" else "classic"
        self.group_protocols[event.member] = event.group_protocol or self.group_protocols.get(event.member, usual)
        if self.group.clients[event.member] == "java":
            self.java.start(event.member, self._java_config(event.member), list(topics))
        else:
            self.python[event.member] = Member(
                self.kafka.bootstrap_servers,
                self.group_id,
                event.member,
                topics,
                client=self.group.clients[event.member],
                protocol=self.group.protocol,
                session_timeout_ms=SESSION_MS,
                assignor=None if self.group.protocol == "consumer" else self.group.assignor,
                instance_id=self.instances.get(event.member),
            )

    def _java_config(self, name: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 200}
        assignor = "range" if self.group.assignor == "uniform" else self.group.assignor
        if self.group_protocols[name] == "consumer":
            settings, assignor = {"group_protocol": "consumer"}, self.group.assignor
        return java_config(
            self.kafka.bootstrap_servers,
            self.group_id,
            name,
            [assignor],
            instance_id=self.instances.get(name),
            enable_auto_commit=False,
            metadata_max_age_ms=300,
            max_poll_interval_ms=60_000,
            **settings,
        )

    def _end(self, name: str, how: str, *, crash: bool) -> None:
        if name in self.python:
            member = self.python.pop(name)
            (member.crash if crash else member.close)()
        else:
            self.java.close(name, how)

    def _leave(self, event: ScenarioEvent) -> None:
        self._end(event.member, "LEAVE_GROUP", crash=False)
        del self.live[event.member]

    def _crash(self, event: ScenarioEvent) -> None:
        self._end(event.member, "REMAIN_IN_GROUP", crash=True)
        del self.live[event.member]

    def _bounce(self, event: ScenarioEvent) -> None:
        topics = self.live.pop(event.member)
        static = event.member in self.instances
        self._end(event.member, "DEFAULT", crash=False)
        if not static:
            self.settle(f"{event}: down")
        self._join(replace(event, topics=event.topics or topics))

    def _subscribe(self, event: ScenarioEvent) -> None:
        assert event.topics
        self.live[event.member] = event.topics
        self.java.subscribe(event.member, list(event.topics))

    def _partitions(self, event: ScenarioEvent) -> None:
        for name, count in event.partitions.items():
            self.admin.create_partitions([NewPartitions(name, count)])[name].result(30)
            self.counts[name] = count

    # Methods that return a result.

    def settle(self, what: str) -> None:
        """Wait until all members have joined, every partition has one consumer, and the assignment is stable."""
        try:
            eventually(self._is_settled, timeout=120, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{self.group} after {what}: {self._state()}") from error

    def _is_settled(self) -> bool:
        assert not self.java.failures, self.java.failures
        self.log.read()
        if monotonic() < self.log.last + QUIET_SECONDS:
            return False
        if any(len(self.log.ids.get(name, ())) < self.starts[name] for name in self.live):
            return False  # a static member that rejoins may change only its member id
        if any(self.group_protocols[name] == "consumer" for name in self.live):
            self.log.complete()
            seen = self.log.seen
            if seen is None or seen.state != "Stable" or len(seen.members) != len(self.live):
                return False
        now = self.log.newest
        wanted = sorted((t, p) for t in set().union(*self.live.values()) for p in range(self.counts[t]))
        assigned = sorted((t, p) for share in now.values() for t, numbers in share.items() for p in numbers)
        return (
            sorted(now) == sorted(self.live)
            and {name: sorted(topics) for name, topics in self.live.items()} == self.log.subscriptions
            and assigned == wanted
            and self.owned() == {name: share for name, share in now.items() if share}
        )

    def owned(self) -> dict[str, Share]:
        """Return the partitions of each client, according to the client's callbacks."""
        owned = {name: self.java.owned.get(name) for name in self.live if name not in self.python}
        owned |= {name: member.owned for name, member in self.python.items()}
        return {name: dict(sorted(share.items())) for name, share in owned.items() if share}

    def _state(self) -> str:
        return (
            f"log {self.log.newest}, subscriptions {self.log.subscriptions}, clients {self.owned()}, live {self.live}, "
            f"failures {self.java.failures}"
        )

    def close(self) -> None:
        """Close all running clients."""
        for name in list(self.python):
            self.python.pop(name).crash()
        for name in self.live:
            if self.java.owned.get(name) is not None:
                self.java.close(name, "LEAVE_GROUP")
        self.log.consumer.close()

    def real_rounds(self) -> Rounds:
        """Return every generation, or target epoch, that has members."""
        return [(number, shares) for number, shares in sorted(self.log.generations.items()) if shares]

    def machine(self) -> Rounds:
        """Return the generations, or target epochs, that the simulation computes with the real member and topic ids."""

        def member_id(name: str, incarnation: int) -> str:
            return self.log.ids[name][incarnation - 1]

        timing = TimingModel(session_timeout_ms=SESSION_MS, heartbeat_ms=200, initial_rebalance_delay_ms=0)
        setup = Setup(timing, self.group.assignor, member_id)
        result = run_scenario(self.scenario, self.group.protocol, self.group.assignor, setup=setup)
        rounds: dict[int, dict[str, Share]] = {}
        for record in result.result.rounds:
            rounds[record.number] = {
                name: {topic: list(share[topic]) for topic in sorted(share)} for name, share in record.after.items()
            }
        return [(number, shares) for number, shares in sorted(rounds.items()) if shares]
