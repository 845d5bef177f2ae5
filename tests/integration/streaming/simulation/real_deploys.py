"""Restarts the members of real groups of six Java consumers one by one, and compares each restart with its forecast.

The forecast starts from the group's records in ``__consumer_offsets`` before the restart, without later ones.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic, sleep
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from streaming.records.events import Event, PartitionsChanged, TopicMetadata
from streaming.simulation import forecast
from streaming.simulation.changes import BEGIN_MS, Deploy, baseline_of, request_change, rolling_restart
from streaming.simulation.live_group import MembershipLog
from streaming.simulation.parse import parse_scenario
from tests.integration.streaming.protocols.java_members import JavaMembers, MemberCallback, java_config
from tests.integration.streaming.protocols.real_log import Log, topic_ids
from tests.support.kafka import PROPERTIES, Kafka, unique_name
from tests.support.members import Share
from tests.support.topics import create_topic
from tests.support.wait import eventually

PARTITIONS = 12
MEMBERS = 6
SESSION_MS = 30_000
#: Seconds without new records after which a group counts as stable.
_QUIET_SECONDS = 6


@dataclass
class Restart:
    """A group of one kind, and the schedule by which its members are restarted."""

    kind: str  # eager, cooperative, static, consumer
    down_ms: int
    between_ms: int
    restarted_members: int = MEMBERS
    heartbeat_ms: int = 3000
    group: str = field(default_factory=lambda: unique_name("restart"))

    @property
    def names(self) -> list[str]:
        """Return the client ids of the group's members."""
        return [f"{self.group}-m{number}" for number in range(1, MEMBERS + 1)]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the restarts of members as events in a scenario's format."""
        return rolling_restart(
            self.names[: self.restarted_members], parallel=1, down_ms=self.down_ms, between_ms=self.between_ms
        )

    def config(self, servers: str, name: str) -> dict[str, Any]:
        """Return the consumer settings of a member."""
        settings: dict[str, Any] = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": self.heartbeat_ms}
        assignor = "cooperative-sticky" if self.kind == "cooperative" else "range"
        if self.kind == "consumer":
            settings, assignor = {"group_protocol": "consumer"}, "uniform"
        instance_id = name if self.kind == "static" else None
        return java_config(
            servers, self.group, name, [assignor], instance_id=instance_id, enable_auto_commit=False, **settings
        )


@dataclass
class Outcome:
    """Measured or forecast result of a restart; ``total_ms``: downtime in ms, summed over all partitions.

    ``undelivered_rounds``: generations that a member took part in and never received. In a cooperative group another
    member may have rejoined before its SyncGroup arrived: its revocation waits for the next round, and the rebalance
    takes one round more. A forecast can't predict which of the two requests arrives first.
    """

    rounds: int
    moved: int
    total_ms: int
    worst_ms: int
    undelivered_rounds: int = 0


def play(kafka: Kafka, java: JavaMembers, restarts: Sequence[Restart]) -> list[tuple[Outcome, Outcome]]:
    """Run all rolling restarts at the same time; return the forecast and the measured outcome of each."""
    for restart in restarts:
        create_topic(kafka.bootstrap_servers, restart.group, PARTITIONS)
    ids = topic_ids(kafka, [restart.group for restart in restarts])
    for restart in restarts:
        for name in restart.names:
            java.start(name, restart.config(kafka.bootstrap_servers, name), [restart.group])
    _await_stable_group(java, restarts)
    before = {restart.group: _log(kafka, restart.group, ids) for restart in restarts}
    starts = {name: dict(java.owned[name] or {}) for restart in restarts for name in restart.names}
    forecasts = [_forecast(restart, before[restart.group], ids) for restart in restarts]
    since = len(java.callbacks)
    _restart(kafka, java, restarts)
    _await_stable_group(java, restarts)
    callbacks = java.callbacks[since:]
    after = {restart.group: _log(kafka, restart.group, ids) for restart in restarts}
    for restart in restarts:
        for name in restart.names:
            java.begin_close(name, "LEAVE_GROUP")
    eventually(lambda: all(java.owned[name] is None for restart in restarts for name in restart.names))
    assert not java.failures, java.failures
    return [
        (
            expected,
            _restart_outcome(
                restart, starts, callbacks, *_rounds(before[restart.group], after[restart.group], callbacks)
            ),
        )
        for restart, expected in zip(restarts, forecasts, strict=True)
    ]


def _await_stable_group(java: JavaMembers, restarts: Sequence[Restart]) -> None:
    """Wait until every group consumes all partitions of its topic and has had no new record for a while."""

    def owns_every_partition(restart: Restart) -> bool:
        owned = [java.owned[name] or {} for name in restart.names]
        return all(owned) and sorted(p for share in owned for p in share.get(restart.group, [])) == list(
            range(PARTITIONS)
        )

    callback_count, since = len(java.callbacks), monotonic()

    def quiet() -> bool:
        nonlocal callback_count, since
        assert not java.failures, java.failures
        if len(java.callbacks) != callback_count or not all(owns_every_partition(restart) for restart in restarts):
            callback_count, since = len(java.callbacks), monotonic()
        return monotonic() - since > _QUIET_SECONDS

    eventually(quiet)


def _log(kafka: Kafka, group: str, ids: Mapping[str, str]) -> Log:
    """Return the group's records in the offsets topic up to now."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": unique_name("reader"),
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    topic = "__consumer_offsets"
    numbers = list(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    marks = {number: consumer.get_watermark_offsets(TopicPartition(topic, number)) for number in numbers}
    ends = {number: high for number, (low, high) in marks.items() if high > low}
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
    log = Log(group, consumer, {topic_id: name for name, topic_id in ids.items()})

    def read() -> bool:
        log.read()
        return all(place.offset >= ends[place.partition] for place in consumer.position(consumer.assignment()))

    eventually(read)
    log.complete()
    consumer.close()
    return log


def _forecast(restart: Restart, log: Log, ids: Mapping[str, str]) -> Outcome:
    """Return the forecast of the restart under the group's own protocol."""
    assert log.seen is not None
    membership = MembershipLog(restart.group)
    metadata = TopicMetadata(partitions=PARTITIONS, topic_id=ids[restart.group])
    for number, data in enumerate(
        (PartitionsChanged(group_id=restart.group, timestamp=0, topics={restart.group: metadata}), log.seen)
    ):
        membership.feed(Event("test", str(number), data))
    begun = baseline_of(membership.group(None))
    assert begun.way == restart.kind
    times = {
        "heartbeat_ms": restart.heartbeat_ms,
        "consumer_heartbeat_ms": int(PROPERTIES["group.consumer.heartbeat.interval.ms"]),
        "processing_ms": 20,  # the time until its members next poll
    }
    change = request_change(begun, times, Deploy({"events": restart.events}))
    way = next(way for way in forecast.ways(begun.protocol, begun.assignor) if way.name == restart.kind)
    cost = forecast.simulate_cost(parse_scenario(change.document), way)
    result = cost.simulation.result
    return Outcome(result.round_count, result.moved, cost.total_ms, cost.worst_ms)


def _restart(kafka: Kafka, java: JavaMembers, restarts: Sequence[Restart]) -> None:
    """Stop and start the members of these restarts, each at its scheduled time."""
    actions = sorted(
        (event["at"] - BEGIN_MS + later, number, event["bounce"], what)
        for number, restart in enumerate(restarts)
        for event in restart.events
        for what, later in (("stop", 0), ("start", restart.down_ms))
    )
    begun = monotonic()
    for at, number, name, what in actions:
        sleep(max(begun + at / 1000 - monotonic(), 0))  # the pace of the restart
        if what == "stop":
            java.begin_close(name, "DEFAULT")
        else:
            eventually(lambda name=name: java.owned[name] is None)
            restart = restarts[number]
            java.start(name, restart.config(kafka.bootstrap_servers, name), [restart.group])


def _rounds(before: Log, after: Log, callbacks: Sequence[MemberCallback]) -> tuple[int, int]:
    """Return the number of rounds during the restart, and the number of those that a member never received.

    A generation counts as one round. The target of an epoch counts as two rounds if a partition moves between two
    members.
    """
    numbers = sorted(after.generations)
    last = max(before.generations)
    since = [number for number in numbers if number > last]
    if after.seen is not None and after.seen.generation is not None:
        received = Counter(callback.name for callback in callbacks if callback.event == "assigned")
        generation_counts = Counter(name for number in since for name in after.generations[number])
        return len(since), sum((generation_counts - received).values())
    return sum(
        1 + _moves_between_members(after.generations[previous_number], after.generations[number])
        for previous_number, number in pairwise(numbers)
        if number > last
    ), 0


def _moves_between_members(before: Mapping[str, Share], after: Mapping[str, Share]) -> bool:
    owner = {partition: name for name, share in before.items() for partition in _topic_partitions(share)}
    return any(
        owner.get(partition, name) != name and owner[partition] in after
        for name, share in after.items()
        for partition in _topic_partitions(share)
    )


def _topic_partitions(share: Share) -> Iterator[tuple[str, int]]:
    return ((topic, partition) for topic, partitions in share.items() for partition in partitions)


def _restart_outcome(
    restart: Restart,
    starts: Mapping[str, Share],
    callbacks: Sequence[MemberCallback],
    rounds: int,
    undelivered_rounds: int,
) -> Outcome:
    """Return the measured outcome of a rolling restart, from the members' callbacks."""
    shares = {name: set(starts[name].get(restart.group, [])) for name in restart.names}
    last = {partition: name for name, share in shares.items() for partition in share}
    stopped: dict[int, int] = {}
    downtime = dict.fromkeys(range(PARTITIONS), 0)
    moved = 0
    for name, at, _, owned, *_ in callbacks:
        if name not in shares:
            continue
        now = set(owned.get(restart.group, []))
        for partition in shares[name] - now:
            stopped[partition] = at
        for partition in now - shares[name]:
            downtime[partition] += at - stopped.pop(partition, at)
            moved += last[partition] != name
            last[partition] = name
        shares[name] = now
    return Outcome(rounds, moved, sum(downtime.values()), max(downtime.values()), undelivered_rounds)
