"""Set operations on ``{topic: partitions}``, and the diff between two assignments.

Partitions are lists or ranges, ascending unless a docstring states another order. Neither arguments nor results have
topics without partitions; :func:`normalize` removes such topics. No function changes its arguments. A result may
contain parts of an argument, so treat both as frozen.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from assignors.model import TopicPartitions

#: ``{topic: ascending partitions}`` in lists, ready for JSON. A topic without partitions is left out.
Lists = dict[str, list[int]]
#: ``{topic: {partition: the member that owned it last}}``.
LastOwners = dict[str, dict[int, str]]


def even_ranges(count: int, members: int) -> list[range]:
    """Divide ``count`` partitions into one contiguous range per member; return non-empty ranges, larger ones first."""
    base, larger_count = divmod(count, members)
    larger_ranges_end = larger_count * (base + 1)
    bounds = [*range(0, larger_ranges_end, base + 1), *(range(larger_ranges_end, count, base) if base else ()), count]
    return [range(start, end) for start, end in pairwise(bounds)]


def subtract(owned: TopicPartitions, excluded: TopicPartitions) -> TopicPartitions:
    """Return the partitions in ``owned`` that are not in ``excluded``."""
    if not owned or not excluded:
        return owned
    difference = {}
    for topic, partitions in owned.items():
        excluded_of_topic = excluded.get(topic)
        if not excluded_of_topic:
            difference[topic] = partitions
        elif partitions != excluded_of_topic:
            excluded_partitions = set(excluded_of_topic)
            if remaining := [p for p in partitions if p not in excluded_partitions]:
                difference[topic] = remaining
    return difference


def common(first: TopicPartitions, second: TopicPartitions) -> TopicPartitions:
    """Return the partitions that are in both ``first`` and ``second``."""
    shared = {}
    for topic, partitions in first.items():
        if partitions == second.get(topic):
            shared[topic] = partitions
        elif topic in second:
            second_partitions = set(second[topic])
            if common_partitions := [p for p in partitions if p in second_partitions]:
                shared[topic] = common_partitions
    return shared


def union(left: TopicPartitions, right: TopicPartitions) -> TopicPartitions:
    """Return the union of two sets of partitions."""
    if not left or not right:
        return right or left
    merged_lists = dict(left)
    for topic, partitions in right.items():
        merged_lists[topic] = sorted({*merged_lists.get(topic, ()), *partitions})
    return merged_lists


def select_topics(owned: TopicPartitions, topics: Sequence[str]) -> TopicPartitions:
    """Return the partitions in ``owned`` that belong to ``topics``; the object ``owned`` if all of them do."""
    topic_names = set(topics)
    if topic_names.issuperset(owned):
        return owned
    return {topic: partitions for topic, partitions in owned.items() if topic in topic_names}


def normalize(owned: TopicPartitions) -> Lists:
    """Return the partitions as lists in ascending order of topics, without empty topics, for comparisons by ``==``."""
    return {topic: list(owned[topic]) for topic in sorted(owned) if owned[topic]}


def normalize_members(assignment: Mapping[str, TopicPartitions]) -> dict[str, Lists]:
    """Return an assignment with lists of partitions, sorted topics and no empty topics, for comparisons by ``==``."""
    return {member: normalize(owned) for member, owned in assignment.items()}


def collect_partition_sets(assignment: Mapping[str, TopicPartitions]) -> dict[str, set[int]]:
    """Return the partitions of all members as one set per topic."""
    partition_sets: dict[str, set[int]] = {}
    for owned in assignment.values():
        for topic, partitions in owned.items():
            partition_sets.setdefault(topic, set()).update(partitions)
    return partition_sets


def collect_lists(members: Iterable[TopicPartitions]) -> Lists:
    """Return the partitions of all members as one list per topic; a partition with two owners is listed twice."""
    lists: Lists = {}
    for owned in members:
        for topic, partitions in owned.items():
            lists.setdefault(topic, []).extend(partitions)
    return lists


def subtract_other_owners(claim: TopicPartitions, member: str, assignment: Mapping[str, TopicPartitions]) -> Lists:
    """Return the claimed partitions that no other member owns, ascending; ``claim`` may list a partition twice."""
    other_sets = collect_partition_sets({owner: owned for owner, owned in assignment.items() if owner != member})
    free = {topic: sorted({*partitions}.difference(other_sets.get(topic, ()))) for topic, partitions in claim.items()}
    return {topic: partitions for topic, partitions in free.items() if partitions}


def unassigned(topics: Iterable[str], counts: Mapping[str, int], owned: TopicPartitions) -> Lists:
    """Return the partitions of ``topics`` that are not in ``owned``; topics missing from ``counts`` have none."""
    free: Lists = {}
    for topic in sorted(topics):
        all_partitions = range(counts.get(topic, 0))
        owned_partitions = set(owned.get(topic, ()))
        if not owned_partitions.issuperset(all_partitions):
            free[topic] = [p for p in all_partitions if p not in owned_partitions]
    return free


def as_lists(owned: TopicPartitions) -> Lists:
    """Return the partitions in ``owned`` as lists, without empty topics; existing lists are reused, not copied."""
    return {topic: p if isinstance(p, list) else list(p) for topic, p in owned.items() if p}


def size(owned: Mapping[str, Collection[int]]) -> int:
    """Return the number of partitions in ``owned``."""
    return sum(map(len, owned.values()))


class AssignmentDiff(NamedTuple):
    """One member's change: ``kept = owned − revoked``, ``after = kept + assigned``, ``revoked ∩ assigned = ∅``."""

    revoked: Lists
    assigned: Lists
    kept: Lists


def diff(owned: TopicPartitions, after: TopicPartitions) -> AssignmentDiff:
    """Return the change of one member's partitions from ``owned`` to ``after``."""
    if owned == after:
        return AssignmentDiff({}, {}, as_lists(owned))
    change = AssignmentDiff({}, {}, {})
    # Topics that the member owned come first: the order of a diff's JSON depends on it.
    for topic in {**owned, **after}:
        partitions_before, partitions_after = owned.get(topic, ()), after.get(topic, ())
        kept = list(partitions_before)
        if partitions_before != partitions_after:
            set_before, set_after = set(partitions_before), set(partitions_after)
            kept = [p for p in partitions_before if p in set_after]
            if revoked := [p for p in partitions_before if p not in set_after]:
                change.revoked[topic] = revoked
            if assigned := [p for p in partitions_after if p not in set_before]:
                change.assigned[topic] = assigned
        if kept:
            change.kept[topic] = kept
    return change


def diff_members(
    before: Mapping[str, TopicPartitions], after: Mapping[str, TopicPartitions]
) -> dict[str, AssignmentDiff]:
    """Return the change of each member of both assignments; a missing member counts as one without partitions."""
    no_partitions: TopicPartitions = {}
    members = dict.fromkeys([*before, *after])
    return {member: diff(before.get(member, no_partitions), after.get(member, no_partitions)) for member in members}


def owners(assignment: Mapping[str, TopicPartitions]) -> dict[str, dict[int, str]]:
    """Return each partition's owner as ``{topic: {partition: member}}``; the last one if it has several owners."""
    by_topic: dict[str, dict[int, str]] = {}
    for member, owned in assignment.items():
        for topic, partitions in owned.items():
            by_topic.setdefault(topic, {}).update(dict.fromkeys(partitions, member))
    return by_topic


def count_moved(before: Mapping[str, TopicPartitions], after: Mapping[str, TopicPartitions]) -> int:
    """Return the number of partitions whose owner differs between the two assignments."""
    owners_before = owners(before)
    now = ((topic, p, member) for member, owned in after.items() for topic, share in owned.items() for p in share)
    return sum(owners_before.get(topic, {}).get(p, member) != member for topic, p, member in now)


def track_owners(last_owners: Mapping[str, Mapping[int, str]], members: Mapping[str, Any]) -> tuple[LastOwners, Lists]:
    """Return the last owners of unassigned partitions after a round, and the partitions that moved to another member.

    ``members``: each member's change in the round; ``revoked`` has its lost partitions, ``assigned`` its received ones.
    """
    freed = {topic: dict(owners) for topic, owners in last_owners.items()}
    for member_id, change in members.items():
        for topic, partitions in change.revoked.items():
            freed.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    moved: Lists = {}
    for member_id, change in members.items():
        for topic, partitions in change.assigned.items():
            freed_of_topic = freed.get(topic, {})
            # Only `members` can contain a partition with two owners, which is reported as a violation.
            if received_partitions := [p for p in partitions if freed_of_topic.pop(p, member_id) != member_id]:
                moved.setdefault(topic, []).extend(received_partitions)
    return {topic: owners for topic, owners in freed.items() if owners}, moved
