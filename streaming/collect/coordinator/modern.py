"""The state of groups that count epochs: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071).

A group's state is spread over many records: its epoch, the epoch of its target assignment, and each member's
subscription, target and current assignment. A record sets or removes one part in place, because copying a group of
thousands of members for each record would be slow.

Consumers and members of share groups hold partitions by topic id; several members of a share group may hold the
same partition. Members of streams groups hold tasks: a subtopology and a partition. The topology (type 23) lists the
topics that subtopologies read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET, UnsetType, structs

from streaming.records.events import GroupObserved, ObservedMember, Partitions

EpochGroupKind = Literal["consumer", "share", "streams"]
#: ``{topic id, or subtopology: partitions}``.
OwnedPartitionsByTopic = Mapping[str, tuple[int, ...]]
#: Returns the name of a topic id; a topic id that the cluster no longer has is returned unchanged.
TopicNames = Callable[[str], str]
#: The state of a member that owns its whole target assignment.
STABLE: Final = "STABLE"


class GroupRecordPart(NamedTuple):
    """A record that sets a part of a group's state, or removes it (value None); ``key``: a member id or a pattern."""

    group_id: str
    kind: EpochGroupKind
    part: str
    value: Any
    key: str | None = None


class MemberMetadata(NamedTuple):
    """A member without id and assignment, with its subscription pattern and requested assignor."""

    member: ObservedMember
    regex: str | None = None
    server_assignor: str | None = None


class CurrentMemberAssignment(NamedTuple):
    """A member's current assignment, epochs and state; the state is None before the first assignment."""

    member_epoch: int | None = None
    previous_member_epoch: int | None = None
    state: str | None = None
    active: Mapping[str, tuple[int, ...]] = {}
    pending_revocation: Mapping[str, tuple[int, ...]] = {}
    standby: OwnedPartitionsByTopic | UnsetType = UNSET
    warmup: OwnedPartitionsByTopic | UnsetType = UNSET


class StreamsEpoch(NamedTuple):
    """A streams group's epoch, and the topology epoch whose topics were complete (−1: none yet)."""

    number: int
    validated_topology: int = -1


class Topology(NamedTuple):
    """A streams group's topology: its epoch, and the topics that its subtopologies read."""

    epoch: int
    topics: tuple[str, ...]


@dataclass
class EpochGroup:
    """The state of a KIP-848 consumer, share or Streams group.

    Attributes:
        epoch: the group's epoch record, an int or a :class:`StreamsEpoch`; None while it is unknown.
        targets: the target partitions, or active tasks, of each member.
        regexes: the topics that each subscription pattern matches.
        changed: members whose subscription, target or assignment changed since a caller last cleared this set.
    """

    kind: EpochGroupKind
    epoch: Any = None
    target_epoch: int | None = None
    subscriptions: dict[str, MemberMetadata] = field(default_factory=dict)
    targets: dict[str, OwnedPartitionsByTopic] = field(default_factory=dict)
    assignments: dict[str, CurrentMemberAssignment] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    topology: Topology | None = None
    changed: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    #: The number of stable members at each epoch.
    _members_by_epoch: Counter[int | None] = field(default_factory=Counter, init=False, compare=False, repr=False)

    def put(self, part: str, key: str | None, value: Any) -> None:
        """Set a field of the group's state or, in a mapping, its entry ``key``; the value None removes the entry."""
        if part in ("epoch", "target_epoch", "topology"):
            setattr(self, part, value)
            return
        entries, key = getattr(self, part), key or ""
        if part == "assignments":
            self._count(entries.get(key), -1)
            self._count(value, 1)
        if part != "regexes":
            self.changed.add(key)
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value

    def _count(self, current: CurrentMemberAssignment | None, by: int) -> None:
        if current is not None and current.state == STABLE:
            self._members_by_epoch[current.member_epoch] += by

    @property
    def number(self) -> int | None:
        """The group's epoch; None while it is unknown."""
        return self.epoch.number if isinstance(self.epoch, StreamsEpoch) else self.epoch

    @property
    def state(self) -> str:
        """The group's state from its records, as Kafka's ConsumerGroup, ShareGroup and StreamsGroup compute it."""
        if not self.subscriptions:
            return "Empty"
        if self.kind == "share":
            return "Stable"
        if self.kind == "streams" and (self.topology is None or self.topology.epoch != self.epoch.validated_topology):
            return "NotReady"
        if self.target_epoch is None or (self.number or 0) > self.target_epoch:
            return "Assigning"
        stable = self._members_by_epoch[self.target_epoch]
        return "Stable" if stable == len(self.assignments) >= len(self.subscriptions) else "Reconciling"

    def snapshot(self, group_id: str, timestamp: int, names: TopicNames) -> GroupObserved | None:
        """Return a snapshot of the group; None before its first epoch."""
        if self.number is None:
            return None
        return GroupObserved(
            group_id=group_id,
            timestamp=timestamp,
            members=[self._member(member_id, names) for member_id in sorted(self.subscriptions)],
            group_epoch=self.number,
            group_protocol=self.kind,
            protocol_type=self.kind,
            protocol=self.assignor,
            state=self.state,
            kind=UNSET if self.kind == "consumer" else self.kind,
        )

    @property
    def assignor(self) -> str | None:
        """The assignor that most members request (``ModernGroup.preferredServerAssignor``); None without a request."""
        votes = Counter(member.server_assignor for member in self.subscriptions.values() if member.server_assignor)
        return min(votes, key=lambda name: (-votes[name], name), default=None)

    def _member(self, member_id: str, names: TopicNames) -> ObservedMember:
        subscription, target = self.subscriptions[member_id], self.targets.get(member_id)
        is_streams = self.kind == "streams"
        no_assignment: Any = {} if is_streams else UNSET
        current = self.assignments.get(member_id, CurrentMemberAssignment(standby=no_assignment, warmup=no_assignment))
        topics: Iterable[str] = (*subscription.member.topics, *self.regexes.get(subscription.regex or "", ()))
        if self.topology is not None:
            topics = self.topology.topics
        name = str if is_streams else names
        return structs.replace(
            subscription.member,
            member_id=member_id,
            topics=[*dict.fromkeys(topics)],
            assigned=named(current.active, name),
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_member_epoch,
            state=current.state,
            pending_revocation=named(current.pending_revocation, name),
            target=None if target is None else named(target, name),
            standby=UNSET if current.standby is UNSET else named(current.standby, name),
            warmup=UNSET if current.warmup is UNSET else named(current.warmup, name),
        )


def named(held: OwnedPartitionsByTopic, names: TopicNames) -> Partitions:
    """Return partitions by topic name, with topics and partitions ascending."""
    return {name: list(numbers) for name, numbers in sorted((names(key), held[key]) for key in held) if numbers}
