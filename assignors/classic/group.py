"""Input of the client-side assignors: a checked group in Java's orders, with subscribers and racks by topic."""

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
    """A checked group; ``counts``: partition count of each topic that has subscribers and metadata."""

    members: Sequence[Member]
    topics: Mapping[str, Topic]
    counts: dict[str, int]

    @property
    def rack_aware(self) -> bool:
        """True if at least one member and one topic have racks."""
        return any(member.rack_id for member in self.members) and any(self.topics[name].racks for name in self.counts)


def read_group(topics: Mapping[str, Topic], members: Sequence[Member]) -> ClientGroup:
    """Return the group with partition counts of its subscribed topics; does not check ``owned``."""
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
    """Return positions of member ids in the iteration order of a ``HashMap<memberId, …>`` filled in this order."""
    return hash_order(list(map(string_hash, ids)), keys=ids)


def in_map_order(members: Sequence[Member]) -> list[Member]:
    """Return the members in the iteration order of the leader's map of subscriptions."""
    return [members[place] for place in map_order([member.member_id for member in members])]


def id_keys(ids: Sequence[str]) -> Sequence[str] | Sequence[bytes]:
    """Return sort keys of member ids for Java's order, by position."""
    return ids if all(map(str.isascii, ids)) else list(map(string_key, ids))


def sorted_members(members: Sequence[Member]) -> list[Member]:
    """Return the members in the order of range and round robin: static ones by instance id, then by member id.

    As ``AbstractPartitionAssignor.MemberInfo.compareTo`` does, in a stable sort of the map order.
    """
    instances = [member.instance_id for member in members if member.instance_id is not None]
    if len(set(instances)) != len(instances):  # brokers prevent this, but the Java classes handle it
        members = in_map_order(members)
    return sorted(members, key=_order_key)


def _order_key(member: Member) -> tuple[bool, bytes]:
    instance = member.instance_id
    return instance is None, string_key(member.member_id if instance is None else instance)


def subscribers_by_topic(members: Sequence[Member]) -> dict[str, list[int]]:
    """Return each topic's subscribers as ascending positions; topics with the same subscribers share one list."""
    places: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        for name in dict.fromkeys(member.topics):  # a topic may be listed twice
            places.setdefault(name, []).append(place)
    shared: dict[tuple[int, ...], list[int]] = {}
    return {name: shared.setdefault(tuple(subscribed), subscribed) for name, subscribed in places.items()}


class Racks:
    """Racks of members and partitions; ``of_member``: rack of each member by position, or None."""

    def __init__(self, group: ClientGroup, members: Sequence[Member]) -> None:
        self.of_member = [member.rack_id or None for member in members]
        self._members_in = Counter(rack for rack in self.of_member if rack is not None)
        self._of_topic = {name: group.topics[name].racks or ((),) * count for name, count in group.counts.items()}

    def of_topic(self, name: str) -> Sequence[tuple[str, ...]]:
        """Return the racks of each partition's replicas, () if unknown; a rack may occur twice."""
        return self._of_topic[name]

    def mismatch(self, place: int, name: str, partition: int) -> bool:
        """True if the member has a rack and the partition has no replica in it."""
        rack = self.of_member[place]
        racks = self._of_topic[name]
        return rack is not None and (partition >= len(racks) or rack not in racks[partition])

    def members_near(self, racks: Sequence[str]) -> int:
        """Return the number of members in these racks."""
        return sum(self._members_in[rack] for rack in set(racks))


def uses_racks(consumer_racks: Collection[str], partition_racks: Iterable[tuple[str, ...]]) -> bool:
    """Return whether assignment is rack-aware (``AbstractPartitionAssignor.useRackAwareAssignment``)."""
    distinct = {frozenset(racks) for racks in set(partition_racks)}
    everywhere = frozenset[str]().union(*distinct)
    return not everywhere.isdisjoint(consumer_racks) and distinct != {everywhere}


def racks_matter(group: ClientGroup) -> bool:
    """True if a member is in a rack of a partition, and not every partition has replicas in all racks."""
    if not group.rack_aware:
        return False
    unknown = ((),)
    everywhere = chain.from_iterable(group.topics[name].racks or unknown for name in group.counts)
    return uses_racks({member.rack_id for member in group.members if member.rack_id}, everywhere)
