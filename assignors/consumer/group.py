"""A consumer group as input of a server-side assignor (``GroupSpecImpl``, ``TopicIds``, KIP-848)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assignors.errors import BadInput, InvalidGroup
from assignors.java import hash_order, hash_set_copy_capacity, in_hash_order, uuid_bits, uuid_hash
from assignors.model import Member, Topic, TopicPartitions, check_group


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Validated input of a server-side assignor.

    ``members``: in the iteration order of ``TargetAssignmentBuilder``'s HashMap. ``topics``: the topics with metadata.
    ``ids``: the Uuid (most and least significant bits) of each topic that has a Uuid.
    """

    members: list[Member]
    topics: dict[str, Topic]
    ids: dict[str, tuple[int, int]]

    def in_topic_id_order(self, member: Member) -> list[str]:
        """Return the topics in the iteration order of ``new HashSet<>(member.subscribedTopicIds())``.

        Java reads the topic names from another HashSet; names without metadata count for the capacity of both sets.
        """
        names = list(dict.fromkeys(member.topics))
        by_name = in_hash_order(names, capacity=hash_set_copy_capacity(len(member.topics)))
        topics_with_partitions = [name for name in by_name if name in self.topics]
        return self.in_uuid_order(topics_with_partitions, hash_set_copy_capacity(len(names)))

    def in_uuid_order(self, names: Sequence[str], capacity: int = 16) -> list[str]:
        """Return topics in the iteration order of a HashMap by Uuid whose keys were put in the order of ``names``."""
        hashes = [uuid_hash(self.ids[name]) for name in names]
        return [names[at] for at in hash_order(hashes, capacity=capacity)]


def validated_group(topics: Mapping[str, Topic], members: Sequence[Member]) -> ServerGroup:
    """Validate topics and members, and return them as a group."""
    check_group(topics, members)
    ids = topic_ids(topics)
    member_by_id = {member.member_id: member for member in members}
    topics_with_partitions = {name: topic for name, topic in topics.items() if topic.partitions}
    return ServerGroup([member_by_id[name] for name in in_hash_order(list(member_by_id))], topics_with_partitions, ids)


def topic_ids(topics: Mapping[str, Topic]) -> dict[str, tuple[int, int]]:
    """Return the Uuid of each topic that has one; raise InvalidGroup if one is malformed, repeated or missing."""
    ids: dict[str, tuple[int, int]] = {}
    holder: dict[tuple[int, int], str] = {}
    for name, topic in topics.items():
        if topic.topic_id is not None:
            try:
                bits = uuid_bits(topic.topic_id)
            except BadInput as error:
                raise InvalidGroup(f"topics.{name}.{error}") from error
            if holder.setdefault(bits, name) != name:
                raise InvalidGroup(f"topics.{name}.topicId: {topic.topic_id} is also that of {holder[bits]}")
            ids[name] = bits
        elif topic.partitions:
            problem = "missing; the consumer protocol knows topics by their id (kafka-topics --describe prints it)"
            raise InvalidGroup(f"topics.{name}.topicId: {problem}")
    return ids


def audiences(group: ServerGroup, members: Sequence[Member]) -> list[tuple[list[int], list[str]]]:
    """Return the topics grouped by their subscribers, which are ascending positions in ``members``."""
    places: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        for name in dict.fromkeys(member.topics):
            if name in group.topics:
                places.setdefault(name, []).append(place)
    topics: dict[tuple[int, ...], list[str]] = {}
    for name, subscribers in places.items():
        topics.setdefault(tuple(subscribers), []).append(name)
    return [(list(subscribers), names) for subscribers, names in topics.items()]


def kept(owned: TopicPartitions, subscribed: Mapping[str, None]) -> dict[str, Sequence[int]]:
    """Return the owned partitions, ascending, of the topics that the member still subscribes to."""
    return {n: p if isinstance(p, range) else sorted(p) for n, p in owned.items() if p and n in subscribed}


def unowned(group: ServerGroup, subscribed: Sequence[Mapping[str, None]]) -> dict[str, list[range]]:
    """Return the partitions without an owner, as ascending ranges, of each topic with at least one owned partition.

    ``subscribed``: topics of each member in ``group.members``. A partition owned without a subscription counts as
    unowned.
    """
    owners: dict[str, dict[int, str]] = {}
    subscribers: dict[str, set[int]] = {}
    for member, member_topics in zip(group.members, subscribed, strict=True):
        for name, claimed in member.owned.items():
            if name not in group.topics:
                continue
            size = group.topics[name].partitions
            holders = owners.setdefault(name, {})
            for partition in claimed:
                if name not in member_topics and partition >= size:
                    continue  # Kafka ignores it.
                if 0 <= partition < size and partition not in holders:
                    holders[partition] = member.member_id
                    continue
                problem = f"does not exist; {name} has {size}; Kafka's assignor fails with it"
                if partition in holders:
                    problem = f"is owned by {holders[partition]}, too; a target assignment gives it to one member"
                raise InvalidGroup(f"members.{member.member_id}.owned.{name}: partition {partition} {problem}")
            if name in member_topics:
                subscribers.setdefault(name, set()).update(claimed)
    gaps: dict[str, list[range]] = {}
    for name in owners:
        ends = [-1, *sorted(subscribers.get(name, ())), group.topics[name].partitions]
        gaps[name] = [range(end + 1, start) for end, start in pairwise(ends) if end + 1 < start]
    return gaps
