"""A group as the client assignors see it: checked, with the topics that count and who subscribes to what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignors.errors import InvalidGroup
from assignors.java import hash_order, string_hash, string_key
from assignors.model import Member, Topic


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """``members`` as given; ``counts[topic]`` of each topic that is subscribed to and has metadata.

    ``ids`` and ``subscriptions``, every one once, are read from the members here alone: in a small group, reading
    is half of the work.
    """

    members: Sequence[Member]
    topics: Mapping[str, Topic]
    counts: dict[str, int]
    ids: list[str]
    subscriptions: Collection[tuple[str, ...]]

    @property
    def rack_aware(self) -> bool:
        """Whether racks can matter at all: some member and some topic has them."""
        return any([member.rack_id for member in self.members]) and any(  # noqa: C419 - three times as fast
            self.topics[name].racks for name in self.counts
        )


def checked(topics: Mapping[str, Topic], members: Sequence[Member]) -> ClientGroup:
    """The group, once it is known not to contradict itself (``owned`` is checked where it is read).

    Raises:
        InvalidGroup: a member is listed twice, a partition count is negative, racks don't match partitions.
    """
    ids = [member.member_id for member in members]
    if len(set(ids)) != len(ids):
        first: dict[str, int] = {}
        twice = next(one for place, one in enumerate(ids) if first.setdefault(one, place) != place)
        raise InvalidGroup(f"members: memberId {twice!r} is listed twice; give every member its own")
    for name, topic in topics.items():
        if topic.partitions < 0:
            raise InvalidGroup(
                f"topics.{name}.partitions: {topic.partitions} is negative; 0 means without metadata"
            )
        if topic.racks is not None and len(topic.racks) != topic.partitions:
            raise InvalidGroup(
                f"topics.{name}.racks: {len(topic.racks)} entries for {topic.partitions} partitions; "
                "give one list of racks for each partition, [] where unknown"
            )
    counts: dict[str, int] = {}
    subscriptions = _distinct_subscriptions(members)
    for subscription in subscriptions:
        for name in subscription:
            if name not in counts and name in topics and topics[name].partitions:
                counts[name] = topics[name].partitions
    return ClientGroup(members, topics, counts, ids, subscriptions)


def _distinct_subscriptions(members: Iterable[Member]) -> Collection[tuple[str, ...]]:
    """Every subscription once; members of large groups mostly share a few."""
    lists = [member.topics for member in members]
    if not lists or (lists[0] == lists[-1] and lists.count(lists[0]) == len(lists)):
        return lists[:1]
    return dict.fromkeys({id(subscription): subscription for subscription in lists}.values())


def map_order(ids: Sequence[str]) -> list[int]:
    """Places of member ids as a ``HashMap<memberId, …>``, filled in the given order, iterates."""
    return hash_order(list(map(string_hash, ids)), keys=ids)


def in_map_order(members: Sequence[Member]) -> list[Member]:
    """The members as the leader's map of subscriptions iterates."""
    return [members[place] for place in map_order([member.member_id for member in members])]


def id_keys(ids: Sequence[str]) -> Sequence[str] | Sequence[bytes]:
    """What sorts member ids as Java does, by place."""
    return ids if all(map(str.isascii, ids)) else list(map(string_key, ids))
