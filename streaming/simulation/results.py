"""Results of a simulation: rounds, requests, moved partitions, and the time that partitions had no consumer."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assignors.assignment import as_lists, diff_members, subtract
from assignors.model import Topic, TopicPartitions
from streaming.protocols.vocabulary import NOTHING, Handover, NewRound, OwnedNow, Reason, RequestCount, SubscribedTopics


class SimulatedRound(NamedTuple):
    """One round: the time at which members received the assignment, and each member's partitions before and after."""

    at: int
    number: int
    round: int
    reason: Reason
    before: Mapping[str, TopicPartitions]
    after: Mapping[str, TopicPartitions]


#: Marks a partition with a consumer; other partitions have the time since which they are without a consumer.
_OWNED_SINCE_ROUND = -1


class SimulationResult:
    """Result of a simulation: rounds, requests, moves and times without a consumer, collected from its outputs.

    A partition is without a consumer from its loss (or the first subscription) until the next consumer starts.
    """

    def __init__(self, topics: Mapping[str, Topic], *, rounds: bool = True) -> None:
        #: The simulated rounds; empty if rounds are only counted.
        self.rounds: list[SimulatedRound] = []
        self.round_count = 0
        self.rebalances = 0
        self._keeps_rounds = rounds
        self._round = 0
        self.requests: Counter[str] = Counter()
        self.moved = 0
        #: Each member's partitions after the last round, and the last owner of each partition.
        self.held: Mapping[str, TopicPartitions] = {}
        self._last: dict[str, dict[int, str]] = {}
        #: ``{topic: partition count}``; and for topics that were ever subscribed to, the ms without a consumer by
        #: partition.
        self.counts: dict[str, int] = {}
        self.unavailable_ms: dict[str, list[int]] = {}
        self.longest_gap_ms = 0
        self._unowned_since: dict[str, list[int]] = {}
        self._consumed_shares: dict[str, TopicPartitions] = {}
        self._subscribed_topics: frozenset[str] = frozenset()
        self.set_topics(topics, 0)

    def set_start(self, subscribed: frozenset[str], held: Mapping[str, TopicPartitions]) -> None:
        """Set the members' partitions at the start of the simulation, which do not count as a round."""
        self.add_output(SubscribedTopics(subscribed), 0)
        self._set_consumers(held, 0)
        self.held = held
        for name, share in held.items():
            self._set_last_owner(share, name)

    def set_topics(self, topics: Mapping[str, Topic], at: int) -> None:
        """Set the partition counts of topics that are new or changed."""
        for name, topic in topics.items():
            self.counts[name] = max(self.counts.get(name, 0), topic.partitions)
        self._subscribe(self._subscribed_topics, at)

    def add_output(self, output: object, at: int) -> None:
        """Add an output of the protocol's state machine to the results of the simulation."""
        match output:
            case RequestCount(kind, times):
                self.requests[kind] += times
            case OwnedNow(shares):
                self._set_consumers(shares, at)
            case SubscribedTopics(topics):
                self._subscribed_topics = topics
                self._subscribe(topics, at)
            case NewRound():
                self._record(output, at)
            case Handover(before, after):  # No partition moves.
                held = dict(self.held)
                share = held.pop(before, NOTHING)
                self.held = {**held, after: share}
                self._set_last_owner(share, after)

    def _subscribe(self, topics: Iterable[str], at: int) -> None:
        for name in topics:
            total = self.unavailable_ms.setdefault(name, [])
            more = self.counts.get(name, 0) - len(total)
            total += [0] * more
            self._unowned_since.setdefault(name, []).extend([at] * more)

    def _set_consumers(self, shares: Mapping[str, TopicPartitions], at: int) -> None:
        gained_shares: list[tuple[str, Sequence[int]]] = []
        for name, share in shares.items():
            before = self._consumed_shares.get(name, NOTHING)
            if before is share:
                continue
            for topic, partitions in subtract(before, share).items():
                since = self._unowned_since[topic]
                for partition in partitions:
                    since[partition] = at
            gained_shares += subtract(share, before).items()
            self._consumed_shares[name] = share
        for topic, partitions in gained_shares:
            if topic not in self._unowned_since:  # ``sticky`` may assign a topic to a member without a subscription.
                self._subscribe((topic,), at)
            since, total = self._unowned_since[topic], self.unavailable_ms[topic]
            for partition in partitions:
                if since[partition] != _OWNED_SINCE_ROUND:
                    gap = at - since[partition]
                    since[partition] = _OWNED_SINCE_ROUND
                    total[partition] += gap
                    self.longest_gap_ms = max(self.longest_gap_ms, gap)

    def _set_last_owner(self, share: TopicPartitions, name: str) -> None:
        for topic, partitions in share.items():
            self._last.setdefault(topic, {}).update(dict.fromkeys(partitions, name))

    def _record(self, announced: NewRound, at: int) -> None:
        before, after = self.held, announced.after
        for name, share in after.items():
            owned = before.get(name, NOTHING)
            if owned is not share:
                gained_shares = subtract(share, owned)
                for topic, partitions in gained_shares.items():
                    last = self._last.get(topic, {})
                    self.moved += sum(last.get(partition, name) != name for partition in partitions)
                self._set_last_owner(gained_shares, name)
        self._round = 1 if announced.first else self._round + 1
        self.held = after
        self.round_count += 1
        self.rebalances += announced.first
        if self._keeps_rounds:
            self.rounds.append(SimulatedRound(at, announced.number, self._round, announced.reason, before, after))


class Simulation(NamedTuple):
    """A scenario's simulation under one protocol: its result, and the time at which the group became stable (ms)."""

    protocol: str
    assignor: str
    result: SimulationResult
    end: int

    @property
    def unavailable_ms(self) -> int:
        """Return the time without a consumer, summed over all partitions, ms."""
        return sum(map(sum, self.result.unavailable_ms.values()))


def simulations_document(simulations: Iterable[Simulation]) -> dict[str, Any]:
    """Return the JSON document that ``simulate --json`` prints."""
    return {"protocols": {simulation.protocol: simulation_document(simulation) for simulation in simulations}}


def simulation_document(simulation: Simulation) -> dict[str, Any]:
    """Return a simulation under one protocol as JSON; times are in ms since the scenario's start."""
    result = simulation.result
    number = "groupEpoch" if simulation.protocol == "consumer" else "generation"
    return {
        "rounds": [_round_document(record, number) for record in result.rounds],
        "requests": dict(sorted(result.requests.items())),
        "rebalances": result.rebalances,
        "moved": result.moved,
        "unavailableMs": {
            topic: {str(partition): ms for partition, ms in enumerate(partitions)}
            for topic, partitions in sorted(result.unavailable_ms.items())
        },
        "longestGapMs": result.longest_gap_ms,
    }


def _round_document(record: SimulatedRound, number: str) -> dict[str, Any]:
    changes = diff_members(record.before, record.after)
    return {
        "at": record.at,
        number: record.number,
        "round": record.round,
        "cause": {"kind": record.reason.kind, "memberIds": list(record.reason.members)},
        "members": {
            name: {"owned": as_lists(record.before.get(name, NOTHING)), **changes[name]._asdict()}
            for name in dict.fromkeys([*record.after, *record.before])
        },
    }
