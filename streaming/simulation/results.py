"""Results of a simulation: rounds, requests, moved partitions and time without a consumer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assignors.assignment import as_lists, diff, minus
from assignors.model import Topic, TopicPartitions
from streaming.protocols.vocabulary import NOTHING, Announced, Handover, Owns, Reason, Sent, SubscribedTopics


class SimulatedRound(NamedTuple):
    """One round: when members received its assignment, and each member's partitions before and after."""

    at: int
    number: int
    round: int
    reason: Reason
    before: Mapping[str, TopicPartitions]
    after: Mapping[str, TopicPartitions]


#: Marks a partition with an owner, in place of the time since when it has had none.
_OWNED = -1


class _UnavailableTime:
    """Time without a consumer: from the loss of the consumer (or the first subscription) until the next one starts."""

    def __init__(self) -> None:
        #: ``{topic: partition count}``; for topics ever subscribed to, ms without an owner by partition.
        self.topics: dict[str, int] = {}
        self.total: dict[str, list[int]] = {}
        self.longest = 0
        self._since: dict[str, list[int]] = {}
        self._shares: dict[str, TopicPartitions] = {}

    def partitions(self, topics: Mapping[str, Topic], wanted: Iterable[str], at: int) -> None:
        for name, topic in topics.items():
            self.topics[name] = max(self.topics.get(name, 0), topic.partitions)
        self.want(wanted, at)

    def want(self, wanted: Iterable[str], at: int) -> None:
        for name in wanted:
            total = self.total.setdefault(name, [])
            more = self.topics.get(name, 0) - len(total)
            total += [0] * more
            self._since.setdefault(name, []).extend([at] * more)

    def own(self, shares: Mapping[str, TopicPartitions], at: int) -> None:
        gained = []
        for name, share in shares.items():
            had = self._shares.get(name, NOTHING)
            if had is share:
                continue
            for topic, partitions in minus(had, share).items():
                since = self._since[topic]
                for partition in partitions:
                    since[partition] = at
            gained.append(minus(share, had))
            self._shares[name] = share
        for more in gained:
            for topic, partitions in more.items():
                self._gained(topic, partitions, at)

    def _gained(self, topic: str, partitions: Sequence[int], at: int) -> None:
        if topic not in self._since:  # assigned without a subscription, as ``sticky`` may
            self.want((topic,), at)
        since, total = self._since[topic], self.total[topic]
        for partition in partitions:
            begun = since[partition]
            if begun != _OWNED:
                since[partition] = _OWNED
                gap = at - begun
                total[partition] += gap
                self.longest = max(self.longest, gap)


class SimulationResult:
    """Collects a machine's outputs: rounds, requests, moves and unavailable time."""

    def __init__(self, topics: Mapping[str, Topic], *, rounds: bool = True) -> None:
        #: Empty if rounds are only counted.
        self.rounds: list[SimulatedRound] = []
        self.round_count = 0
        self.rebalances = 0
        self._keeps = rounds
        self.requests: Counter[str] = Counter()
        self.moved = 0
        self.gaps = _UnavailableTime()
        self._wanted: frozenset[str] = frozenset()
        #: Each member's partitions after the last round.
        self.held: Mapping[str, TopicPartitions] = {}
        self._last: dict[str, dict[int, str]] = {}
        self._round = 0
        self.gaps.partitions(topics, (), 0)

    def begin(self, wanted: frozenset[str], held: Mapping[str, TopicPartitions]) -> None:
        """Set the group's partitions at the start, without a round."""
        self.take(SubscribedTopics(wanted), 0)
        self.gaps.own(held, 0)
        self.held = held
        for name, share in held.items():
            self._set_last(share, name)

    def topics(self, topics: Mapping[str, Topic], at: int) -> None:
        """Set changed topics."""
        self.gaps.partitions(topics, self._wanted, at)

    def take(self, output: object, at: int) -> None:
        """Record one output of the machine."""
        match output:
            case Sent(kind, times):
                self.requests[kind] += times
            case Owns(shares):
                self.gaps.own(shares, at)
            case SubscribedTopics(topics):
                self._wanted = topics
                self.gaps.want(topics, at)
            case Announced():
                self._record(output, at)
            case Handover(before, after):  # nothing moves
                held = dict(self.held)
                share = held.pop(before, NOTHING)
                self.held = {**held, after: share}
                self._set_last(share, after)

    def _set_last(self, share: TopicPartitions, name: str) -> None:
        for topic, partitions in share.items():
            self._last.setdefault(topic, {}).update(dict.fromkeys(partitions, name))

    def _record(self, announced: Announced, at: int) -> None:
        before, after = self.held, announced.after
        for name, share in after.items():
            owned = before.get(name, NOTHING)
            if owned is not share:
                self._move(name, minus(share, owned))
        self._round = 1 if announced.first else self._round + 1
        self.held = after
        self.round_count += 1
        self.rebalances += announced.first
        if self._keeps:
            self.rounds.append(SimulatedRound(at, announced.number, self._round, announced.reason, before, after))

    def _move(self, name: str, gained: TopicPartitions) -> None:
        for topic, partitions in gained.items():
            last = self._last.setdefault(topic, {})
            for partition in partitions:
                if last.get(partition, name) != name:
                    self.moved += 1
                last[partition] = name


class Simulation(NamedTuple):
    """Run under one protocol: its result, and when the group became stable (ms)."""

    protocol: str
    assignor: str
    result: SimulationResult
    end: int

    @property
    def unavailable_ms(self) -> int:
        """Return the total time without a consumer of all partitions."""
        return sum(map(sum, self.result.gaps.total.values()))


def simulations_document(simulations: Iterable[Simulation]) -> dict[str, Any]:
    """Return the document of ``simulate --json``."""
    return {"protocols": {simulation.protocol: simulation_document(simulation) for simulation in simulations}}


def simulation_document(simulation: Simulation) -> dict[str, Any]:
    """Return one protocol's part of the document; times in ms since the scenario's start."""
    result = simulation.result
    number = "groupEpoch" if simulation.protocol == "consumer" else "generation"
    return {
        "rounds": [_round_document(record, number) for record in result.rounds],
        "requests": dict(sorted(result.requests.items())),
        "rebalances": result.rebalances,
        "moved": result.moved,
        "unavailableMs": {
            topic: {str(partition): ms for partition, ms in enumerate(partitions)}
            for topic, partitions in sorted(result.gaps.total.items())
        },
        "longestGapMs": result.gaps.longest,
    }


def _round_document(record: SimulatedRound, number: str) -> dict[str, Any]:
    members = {}
    for name in dict.fromkeys([*record.after, *record.before]):
        owned = record.before.get(name, NOTHING)
        change = diff(owned, record.after.get(name, NOTHING))
        members[name] = {"owned": as_lists(owned), **change._asdict()}
    return {
        "at": record.at,
        number: record.number,
        "round": record.round,
        "cause": {"kind": record.reason.kind, "memberIds": list(record.reason.members)},
        "members": members,
    }
