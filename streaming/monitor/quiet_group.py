"""Incidents of quiet groups: stuck, unassigned partitions, idle members, skewed assignments, unfinished migrations."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil

from msgspec import structs

from assignors.assignment import collect_lists, size, unassigned
from streaming.episodes.incidents import StoredIncident
from streaming.episodes.story import count, member_list, partition_list
from streaming.monitor.state import GroupState, MemberState, names_of, subscribed
from streaming.records.episodes import IncidentKind, Waiting
from streaming.records.events import Evidence
from streaming.records.names import display_names


def detect_in_quiet_group(group: GroupState, waits: Sequence[Waiting], skew: float) -> Iterator[StoredIncident]:
    """Yield the incidents of a group that had no round for the quiet time.

    ``waits``: members and conditions that the group's last episode still waits for. A group without members has no
    incident.
    """
    if not group.members:
        return
    counts = {name: topic.partitions for name, topic in group.topics.items()}
    if group.holds_tasks:
        free = {name: sorted(owners) for name, owners in group.last_owners.items()}
    else:
        free = unassigned(subscribed(group.members), counts, collect_lists(member.owned for member in group.members))
    if named := [wait for wait in waits if wait.member_id is not None or not free]:
        yield _stuck_incident(group, named)
    if free:
        what = f"{partition_list(free)} without a consumer, though the group has {count(len(group.members), 'member')}"
        yield StoredIncident("partition-without-owner", what, partitions=free)
    if group.kind != "consumer":
        return
    total = sum(counts.get(topic, 0) for topic in subscribed(group.members))
    idle = [member for member in group.members if not size(member.owned)]
    if idle and len(group.members) > total > 0:
        sizes = f"{count(len(group.members), 'member')} share {count(total, 'partition')}"
        yield _make_incident("idle-members", group, idle, f"{sizes}: none left for {{who}}")
    yield from _skew_incidents(group, counts, skew)
    # In snapshots of a KIP-848 group only classic members have their own session timeout.
    classic = [
        member
        for member in group.members
        if (member.session_timeout_ms is not None if group.observed else member.group_protocol == "classic")
    ]
    if group.protocol == "consumer" and 0 < len(classic) < len(group.members):
        affected_text = f"{len(classic)} of {count(len(group.members), 'member')}"
        what = f"Half migrated: {affected_text} still use the classic protocol ({{who}})"
        yield _make_incident("half-migration", group, classic, what)


def _make_incident(kind: IncidentKind, group: GroupState, members: Sequence[MemberState], what: str) -> StoredIncident:
    """Return an incident about these members, with their names in place of ``{who}`` in ``what``."""
    ids = [member.member_id for member in members]
    what = what.replace("{who}", member_list(ids, display_names(names_of(group.members))))
    return StoredIncident(kind, what, ids, names_of(members))


def _stuck_incident(group: GroupState, waits: Sequence[Waiting]) -> StoredIncident:
    names = names_of(group.members)
    partitions = collect_lists(wait.partitions for wait in waits)
    ids = list(dict.fromkeys(wait.member_id for wait in waits if wait.member_id is not None))
    reasons = "; ".join(dict.fromkeys(wait.reason for wait in waits[:3]))
    return StoredIncident(
        "stuck",
        f"Rebalance is stuck: {f'waiting for {member_list(ids, display_names(names))} ' if ids else ''}{reasons}",
        ids,
        {member_id: names[member_id] for member_id in ids if member_id in names},
        {topic: sorted(set(numbers)) for topic, numbers in sorted(partitions.items())},
        evidence=[Evidence(source="episode", reason=wait.reason) for wait in waits[:3]],
    )


def _skew_incidents(group: GroupState, counts: dict[str, int], skew: float) -> Iterator[StoredIncident]:
    """Yield an incident about the member that exceeds its fair share the most, if any does by too much.

    A member's fair share is the number of partitions it would own if each topic were divided equally among its
    subscribers. It is at least the mean of all members.
    """
    subscribers = Counter(topic for member in group.members for topic in set(member.topics))
    mean_size = sum(size(member.owned) for member in group.members) / len(group.members)
    skewed_members: list[tuple[float, MemberState, int]] = []
    for member in group.members:
        share = sum(counts.get(topic, 0) / subscribers[topic] for topic in set(member.topics))
        fair_share, owned = ceil(max(share, mean_size)), size(member.owned)
        times = owned / fair_share if fair_share else 0.0
        if owned > fair_share + 1 and times > skew:
            skewed_members.append((times, member, fair_share))
    for _, member, fair_share in sorted(skewed_members, key=lambda item: -item[0])[:1]:
        what = f"{{who}} owns {count(size(member.owned), 'partition')}, its fair share is {fair_share}"
        why = Evidence(source="comparison", reason=f"{size(member.owned)} partitions, fair share {fair_share}")
        yield structs.replace(_make_incident("skew", group, [member], what), evidence=[why])
