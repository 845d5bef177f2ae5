"""A group as the client assignors see it: checked, in Java's orders, with subscribers and racks by topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from assignors.errors import InvalidGroup
from assignors.java import hash_order, string_hash, string_key
from assignors.model import Member, Topic, check_group


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """``members`` as given; ``counts[topic]`` of each topic that is subscribed to and has metadata."""

    members: Sequence[Member]
    topics: Mapping[str, Topic]
    counts: dict[str, int]

    @property
    def rack_aware(self) -> bool:
        """True if racks can matter at all: some member and some topic has them."""
        return any(member.rack_id for member in self.members) and any(self.topics[name].racks for name in self.counts)


def read_group(topics: Mapping[str, Topic], members: Sequence[Member]) -> ClientGroup:
    """Return the group with the partition counts of its subscribed topics; ``owned`` is checked where it is read."""
    check_group(topics, members)
    for name, topic in topics.items():
        if topic.racks is not None and len(topic.racks) != topic.partitions:
            raise InvalidGroup(
                f"topics.{name}.racks: {len(topic.racks)} entries for {topic.partitions} partitions; "
                "give one list of racks for each partition, [] where unknown"
            )
    counts: dict[str, int] = {}
    for subscription in dict.fromkeys(member.topics for member in members):
        for name in subscription:
            if name in topics and topics[name].partitions:
                counts[name] = topics[name].partitions
    return ClientGroup(members, topics, counts)


def map_order(ids: Sequence[str]) -> list[int]:
    """Places of member ids as a ``HashMap<memberId, …>``, filled in the given order, iterates."""
    return hash_order(list(map(string_hash, ids)), keys=ids)


def in_map_order(members: Sequence[Member]) -> list[Member]:
    """The members as the leader's map of subscriptions iterates."""
    return [members[place] for place in map_order([member.member_id for member in members])]


def id_keys(ids: Sequence[str]) -> Sequence[str] | Sequence[bytes]:
    """Return sort keys of member ids in Java's order, by place."""
    return ids if all(map(str.isascii, ids)) else list(map(string_key, ids))


def sorted_members(members: Sequence[Member]) -> list[Member]:
    """Return the members in the order of range and round robin: static ones by instance id, then by member id.

    ``AbstractPartitionAssignor.MemberInfo.compareTo``, stable over the map order as in Java.
    """
    instances = [member.instance_id for member in members if member.instance_id is not None]
    if len(set(instances)) != len(instances):  # no broker lets this happen, but the classes have an answer
        members = in_map_order(members)
    return sorted(members, key=_order_key)


def _order_key(member: Member) -> tuple[bool, bytes]:
    instance = member.instance_id
    return instance is None, string_key(member.member_id if instance is None else instance)


def subscribers_by_topic(members: Sequence[Member]) -> dict[str, list[int]]:
    """Return each topic's subscribers as ascending places; topics with the same subscribers share one list."""
    places: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        for name in dict.fromkeys(member.topics):  # a topic may be listed twice
            places.setdefault(name, []).append(place)
    shared: dict[tuple[int, ...], list[int]] = {}
    return {name: shared.setdefault(tuple(subscribed), subscribed) for name, subscribed in places.items()}


class Racks:
    """Which member is in the racks of which partition; ``of_member``: rack by place, or None."""

    def __init__(self, group: ClientGroup, members: Sequence[Member]) -> None:
        self.of_member = [member.rack_id or None for member in members]
        self._members_in = Counter(rack for rack in self.of_member if rack is not None)
        self._of_topic = {name: group.topics[name].racks or ((),) * count for name, count in group.counts.items()}

    def of_topic(self, name: str) -> Sequence[tuple[str, ...]]:
        """The racks of each partition's replicas, () when unknown; a rack may be there twice."""
        return self._of_topic[name]

    def mismatch(self, place: int, name: str, partition: int) -> bool:
        """True if the member has a rack and the partition, if there is one, is not in it."""
        rack = self.of_member[place]
        racks = self._of_topic[name]
        return rack is not None and (partition >= len(racks) or rack not in racks[partition])

    def members_near(self, racks: Sequence[str]) -> int:
        """Return the number of members in these racks."""
        return sum(self._members_in[rack] for rack in set(racks))


def uses_racks(consumer_racks: Collection[str], partition_racks: Iterable[tuple[str, ...]]) -> bool:
    """``AbstractPartitionAssignor.useRackAwareAssignment``."""
    distinct = {frozenset(racks) for racks in set(partition_racks)}
    everywhere = frozenset[str]().union(*distinct)
    return not everywhere.isdisjoint(consumer_racks) and distinct != {everywhere}


def racks_matter(group: ClientGroup) -> bool:
    """True if some member is in a rack of some partition, and not every partition in all racks."""
    if not group.rack_aware:
        return False
    unknown = ((),)
    everywhere = chain.from_iterable(group.topics[name].racks or unknown for name in group.counts)
    return uses_racks({member.rack_id for member in group.members if member.rack_id}, everywhere)
