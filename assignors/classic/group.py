"""Input of the client-side assignors: a checked group in Java's orders, its racks, and the members' claims.

Claims are read as ``AbstractStickyAssignor.allSubscriptionsEqual`` does, in map order. A partition claimed twice
belongs to the claim of the higher generation. A partition with two claims of the same generation has no owner and is
*doubly claimed*, unless a third claim has a higher generation. A claim may contain partitions beyond the topic's
partition count if the topic was recreated with fewer partitions: Java does not check claims for that.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from assignors.errors import InvalidGroup
from assignors.java import hash_order, string_hash, string_key
from assignors.model import NO_GENERATION, Member, Topic, TopicPartitions, check_group, static_members_first


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """A validated group; ``counts``: the partition count of each topic that has subscribers and metadata."""

    members: Sequence[Member]
    topics: Mapping[str, Topic]
    counts: dict[str, int]

    @property
    def rack_aware(self) -> bool:
        """True if at least one member and one topic have racks."""
        return any(member.rack_id for member in self.members) and any(self.topics[name].racks for name in self.counts)


def read_group(topics: Mapping[str, Topic], members: Sequence[Member]) -> ClientGroup:
    """Validate the group and return it with the partition counts of its subscribed topics; ``owned`` is not checked."""
    check_group(topics, members)
    for name, topic in topics.items():
        if topic.racks is not None and len(topic.racks) != topic.partitions:
            raise InvalidGroup(
                f"topics.{name}.racks: {len(topic.racks)} entries for {topic.partitions} partitions; "
                "give one list of racks for each partition, [] where unknown"
            )
    subscribed = chain.from_iterable(dict.fromkeys(member.topics for member in members))
    counts = {name: topics[name].partitions for name in subscribed if name in topics and topics[name].partitions}
    return ClientGroup(members, topics, counts)


def map_order(ids: Sequence[str]) -> list[int]:
    """Return the positions of member ids in the iteration order of a ``HashMap`` to which they were added in order."""
    return hash_order(list(map(string_hash, ids)), keys=ids)


def in_map_order(members: Sequence[Member]) -> list[Member]:
    """Return the members in the iteration order of the leader's map of subscriptions."""
    return [members[place] for place in map_order([member.member_id for member in members])]


def id_keys(ids: Sequence[str]) -> Sequence[str] | Sequence[bytes]:
    """Return one sort key per member id, in the order of ``ids``, that sorts as Java sorts strings."""
    return ids if all(map(str.isascii, ids)) else list(map(string_key, ids))


def sorted_members(members: Sequence[Member]) -> list[Member]:
    """Return the members in the order of range and round robin: static ones by instance id, then others by member id.

    This is the order of ``AbstractPartitionAssignor.MemberInfo.compareTo``; equal members stay in map order.
    """
    instances = [member.instance_id for member in members if member.instance_id is not None]
    if len(set(instances)) != len(instances):  # brokers refuse duplicate instance ids; Java's classes handle them
        members = in_map_order(members)
    return sorted(members, key=static_members_first)


def subscribers_by_topic(members: Sequence[Member]) -> dict[str, list[int]]:
    """Return each topic's subscribers as ascending positions of members; equal sets of subscribers share one list."""
    places: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        for name in dict.fromkeys(member.topics):  # A subscription may list a topic twice.
            places.setdefault(name, []).append(place)
    shared: dict[tuple[int, ...], list[int]] = {}
    return {name: shared.setdefault(tuple(subscribed), subscribed) for name, subscribed in places.items()}


class Racks:
    """Racks of a group's members and of its partitions' replicas.

    ``rack_by_member``: each member's rack by its position, or None. ``by_topic``: replicas' racks by topic and
    partition, () if unknown; a rack may occur twice.
    """

    def __init__(self, group: ClientGroup, members: Sequence[Member]) -> None:
        self.rack_by_member = [member.rack_id or None for member in members]
        self.by_topic = {name: group.topics[name].racks or ((),) * count for name, count in group.counts.items()}

    def is_mismatched(self, place: int, name: str, partition: int) -> bool:
        """True if the member has a rack and the partition has no replica in it."""
        rack = self.rack_by_member[place]
        racks = self.by_topic[name]
        return rack is not None and (partition >= len(racks) or rack not in racks[partition])


def uses_racks(consumer_racks: Collection[str], partition_racks: Iterable[tuple[str, ...]]) -> bool:
    """Return True if Kafka assigns with regard to racks (``AbstractPartitionAssignor.useRackAwareAssignment``)."""
    rack_sets = {frozenset(racks) for racks in set(partition_racks)}
    all_racks = frozenset[str]().union(*rack_sets)
    return not all_racks.isdisjoint(consumer_racks) and rack_sets != {all_racks}


def can_use_racks(group: ClientGroup) -> bool:
    """Return True if racks can matter: a member shares a rack with a partition, and partitions are not in all racks."""
    if not group.rack_aware:
        return False
    racks_of_partitions = chain.from_iterable(group.topics[name].racks or ((),) for name in group.counts)
    return uses_racks({member.rack_id for member in group.members if member.rack_id}, racks_of_partitions)


@dataclass(slots=True)
class Holdings:
    """Owned partitions by member, each partition at most once.

    ``shares`` and their ``sizes``: by position of the member. ``partitions``: all owned ones. ``contested_claims``: the
    claimants of each partition with several claims. ``doubly_claimed``: partitions with two claims of one
    generation. ``large_topics``: topics with claims above the partition count. ``lost``: the member that must give up a
    partition, by topic and partition.
    """

    shares: list[TopicPartitions]
    sizes: list[int]
    partitions: dict[str, list[int]]
    contested_claims: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    doubly_claimed: dict[str, set[int]] = field(default_factory=dict)
    large_topics: set[str] = field(default_factory=set)
    lost: dict[str, dict[int, int]] = field(default_factory=dict)

    def remove_partitions(self, place: int, name: str, partitions: Container[int]) -> None:
        """Remove partitions of topic ``name`` from a member's share, without recording them as lost."""
        share = dict(self.shares[place])
        before = share.pop(name)
        remaining = [partition for partition in before if partition not in partitions]
        if remaining:
            share[name] = remaining
        self.shares[place] = share
        self.sizes[place] -= len(before) - len(remaining)

    def lose_partitions(self, place: int, name: str, partitions: Collection[int]) -> None:
        """Remove partitions of topic ``name`` from a member's share, and record these partitions as lost."""
        self.remove_partitions(place, name, partitions)
        self.lost.setdefault(name, {}).update(dict.fromkeys(partitions, place))


def read_owned(group: ClientGroup, members: Sequence[Member]) -> Holdings:
    """Return each member's owned partitions with conflicting claims resolved; ``members`` in map order; O(owned)."""
    partitions: dict[str, list[int]] = {name: [] for name in group.counts}
    shares: list[TopicPartitions] = []
    for member in members:
        share = {name: sorted(claimed) for name, claimed in member.owned.items() if claimed and name in partitions}
        for name, claimed in share.items():
            partitions[name] += claimed
        shares.append(share)
    owned = Holdings(shares, [sum(map(len, share.values())) for share in shares], partitions)
    for name, claims in partitions.items():
        if not claims:
            continue
        if min(claims) < 0:
            all_claims = ((member.member_id, p) for member in group.members for p in member.owned.get(name, ()))
            member_id, partition = next(claim for claim in all_claims if claim[1] < 0)
            raise InvalidGroup(f"members.{member_id}.owned.{name}: partition {partition} is negative")
        if max(claims) >= group.counts[name]:
            owned.large_topics.add(name)
        if len(set(claims)) != len(claims):
            _resolve_conflicts(owned, name, members)
    return owned


def _resolve_conflicts(owned: Holdings, name: str, members: Sequence[Member]) -> None:
    """Assign each partition of a topic with several claims to one of the claimants, or to no member."""
    claimants: dict[int, list[int]] = {}
    for place, share in enumerate(owned.shares):
        for partition in share.get(name, ()):
            claimants.setdefault(partition, []).append(place)
    owned.contested_claims[name] = {partition: places for partition, places in claimants.items() if len(places) > 1}
    lost_by_member: dict[int, set[int]] = {}
    for partition, places in owned.contested_claims[name].items():
        winner, has_winner = places[0], True
        for place in places[1:]:
            # Java reads the rival's generation from the rival's subscription, where a negative number means no
            # generation; it uses the claimant's generation as sent.
            generation, winner_generation = members[place].generation, max(members[winner].generation, NO_GENERATION)
            if generation == winner_generation:
                owned.doubly_claimed.setdefault(name, set()).add(partition)
                winner, has_winner = place, False
            elif generation > winner_generation:
                winner, has_winner = place, True
        if not has_winner:
            del claimants[partition]
        for place in places:
            if place != winner or not has_winner:
                lost_by_member.setdefault(place, set()).add(partition)
    for place, partitions in lost_by_member.items():
        owned.remove_partitions(place, name, partitions)
    owned.partitions[name] = list(claimants)
