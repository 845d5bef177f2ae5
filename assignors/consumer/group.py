"""A consumer group as the coordinator hands it to an assignor (``GroupSpecImpl``, ``TopicIds``, KIP-848)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignors.errors import InvalidGroup
from assignors.java import hash_order, hash_set_copy_capacity, in_hash_order, uuid_bits, uuid_hash
from assignors.model import Assignment, Member, Topic


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """What the builders see.

    ``members`` iterate as ``TargetAssignmentBuilder``'s HashMap of members does; ``topics`` are those with
    metadata; ``ids`` are the Uuids (most, least significant bits) of all topics that have one.
    """

    members: list[Member]
    topics: dict[str, Topic]
    ids: dict[str, tuple[int, int]]

    def in_topic_id_order(self, member: Member) -> list[str]:
        """``new HashSet<>(member.subscribedTopicIds())`` as it iterates.

        The names come from a HashSet too, and names without metadata count for the capacity of both.
        """
        names = list(dict.fromkeys(member.topics))
        by_name = in_hash_order(names, capacity=hash_set_copy_capacity(len(member.topics)))
        known = [name for name in by_name if name in self.topics]
        return self.in_uuid_order(known, hash_set_copy_capacity(len(names)))

    def in_uuid_order(self, names: Sequence[str], capacity: int = 16) -> list[str]:
        """Topics as a HashMap keyed by their Uuids iterates them that got them in this order."""
        hashes = [uuid_hash(self.ids[name]) for name in names]
        return [names[at] for at in hash_order(hashes, capacity=capacity)]


def resolve(topics: Mapping[str, Topic], members: Sequence[Member]) -> ServerGroup:
    """The group, checked.

    Raises:
        InvalidGroup: a topic without ``topicId`` or with another's, a negative number of partitions, a member
            listed twice.
        BadInput: a ``topicId`` that is no Uuid.
    """
    ids: dict[str, tuple[int, int]] = {}
    holder: dict[tuple[int, int], str] = {}
    for name, topic in topics.items():
        if topic.partitions < 0:
            raise InvalidGroup(f"topics.{name}.partitions: {topic.partitions} is below 0")
        if topic.topic_id is not None:
            bits = uuid_bits(topic.topic_id)
            if holder.setdefault(bits, name) != name:
                raise InvalidGroup(f"topics.{name}.topicId: {topic.topic_id} is that of {holder[bits]}, too")
            ids[name] = bits
        elif topic.partitions:
            raise InvalidGroup(
                f"topics.{name}.topicId: missing; the consumer protocol knows topics by their id "
                "(kafka-topics --describe prints it)"
            )
    by_id = {member.member_id: member for member in members}
    if len(by_id) != len(members):
        seen: set[str] = set()
        for position, member in enumerate(members):
            if member.member_id in seen:
                raise InvalidGroup(f"members[{position}].memberId: {member.member_id!r} is listed twice")
            seen.add(member.member_id)
    known = {name: topic for name, topic in topics.items() if topic.partitions}
    return ServerGroup([by_id[name] for name in in_hash_order(list(by_id))], known, ids)


def taken(group: ServerGroup, subscribed: Sequence[Container[str]]) -> dict[str, bytearray]:
    """Every topic's partitions that someone owns: 1 at their place. Topics that nobody owns are left out.

    ``subscribed`` are the topics of each of ``group.members``: what a member owns of others may go beyond a topic's
    count, as nobody looks at it.

    Raises:
        InvalidGroup: an owned partition does not exist, or two members own it: a target assignment has neither, and
            Kafka's assignor fails with either.
    """
    marks: dict[str, bytearray] = {}
    sizes: dict[str, int] = {}
    for member, wanted in zip(group.members, subscribed, strict=True):
        for name, claimed in member.owned.items():
            mark = marks.get(name)
            if mark is None:
                if name not in group.topics:
                    continue
                mark = marks[name] = bytearray(group.topics[name].partitions)
                sizes[name] = 0
            partitions = claimed if name in wanted else [p for p in claimed if p < len(mark)]
            sizes[name] += len(partitions)
            if isinstance(partitions, range) and partitions.step == 1:
                if partitions and (partitions.start < 0 or partitions.stop > len(mark)):
                    raise _missing(member, name, partitions, len(mark))
                mark[partitions.start : partitions.stop] = b"\x01" * len(partitions)
            else:
                for partition in partitions:
                    if not 0 <= partition < len(mark):
                        raise _missing(member, name, partitions, len(mark))
                    mark[partition] = 1
    for name, mark in marks.items():
        if mark.count(1) != sizes[name]:
            raise _claimed_twice(group.members, name)
    return marks


def _missing(member: Member, name: str, partitions: Sequence[int], size: int) -> InvalidGroup:
    wrong = next(partition for partition in partitions if not 0 <= partition < size)
    return InvalidGroup(
        f"members.{member.member_id}.owned.{name}: partition {wrong} does not exist; {name} has {size}; "
        "Kafka's assignor fails with it"
    )


def _claimed_twice(members: Iterable[Member], name: str) -> InvalidGroup:
    owner: dict[int, str] = {}
    for member in members:
        for partition in member.owned.get(name, ()):
            if partition in owner:
                return InvalidGroup(
                    f"members.{member.member_id}.owned.{name}: partition {partition} is owned by "
                    f"{owner[partition]}, too; a target assignment gives it to one member"
                )
            owner[partition] = member.member_id
    raise AssertionError(name)


def free(mark: bytearray) -> list[range]:
    """The partitions that nobody owns, ascending, as runs."""
    runs: list[range] = []
    start = mark.find(0)
    while start >= 0:
        end = mark.find(1, start)
        if end < 0:
            end = len(mark)
        runs.append(range(start, end))
        start = mark.find(0, end)
    return runs


def empty(members: Sequence[Member]) -> Assignment:
    """Every member with nothing, in the order of ``members``."""
    return {member.member_id: {} for member in members}
