"""Comparison of an observed assignment with the assignment that Kafka's own assignor computes.

Classic protocol: the leader's record has all of the assignor's input: subscriptions, owned partitions, generations,
racks and the members' order. The membership log has the partition counts. If the leader's metadata was older or
newer, its partition counts are taken from the assignment.

KIP-848: the coordinator starts from the previous target. No record of the round contains it, but if all members have
reached the last epoch, the previous target is what they own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, UnsetType, structs

from assignors import registry
from assignors.assignment import collect_lists, diff_members, union
from assignors.errors import MonitorError
from assignors.invariants import check
from assignors.model import Member, Topic, TopicPartitions
from streaming.monitor.derived import JoiningMember, topics_of
from streaming.monitor.state import GroupState, ownership
from streaming.records.diffs import Expected
from streaming.records.events import GroupObserved, Holding

#: ``{member: partitions}``.
_MemberShares = Mapping[str, TopicPartitions]
#: Default limit, partitions: larger rounds are not compared, as the comparison would cost more than the round itself.
MAX_COMPARED_PARTITIONS: Final = 1000
#: Assignors with exactly one valid result in Java. Other clients' assignors of these names break ties differently.
_EVEN_ASSIGNORS: Final = frozenset({("classic", "range"), ("classic", "roundrobin")})
#: The default of ``group.consumer.assignors``, in order: the first assignor is the broker's default (KIP-848).
_DEFAULT_ASSIGNORS: Final = ("uniform", "range")
#: Reasons why groups of these kinds are not compared.
_REASONS_NOT_COMPARED: Final = {
    "connect": "Connect's leader uses its memory of earlier rounds, which no record contains",
    "streams": "Kafka Streams assigns by its topology and the state on its instances' disks, which no record contains",
    "share": "the coordinator assigns the partitions of share groups by a rule that is not computed here",
}


def expected(state: GroupState, data: GroupObserved, most: int) -> Expected | UnsetType:
    """Return the comparison of a round with its assignor's result; UNSET if no assignor computed this round.

    The result is UNSET if no member is left, if the group was unknown before, or if the epoch's target was computed
    earlier. Rounds of more than ``most`` partitions are not compared.
    """
    is_last_epoch = data.group_epoch == state.generation and not state.assigning
    has_no_target = data.group_protocol != "classic" and (data.state == "Assigning" or is_last_epoch)
    if not data.members or most <= 0 or not state.observed or has_no_target:
        return UNSET
    try:
        return _compare_with_expected(state, data, most)
    except Exception as error:  # noqa: BLE001 - a failed check must not lose the round; the diff has the error
        return Expected(verdict="unknown", why=f"the check failed: {type(error).__name__}: {error}")


def _compare_with_expected(state: GroupState, data: GroupObserved, most: int) -> Expected:
    kind, name = "consumer" if data.kind is UNSET else data.kind, data.protocol
    protocol = "consumer" if data.group_protocol == "consumer" else "classic"
    if kind == "consumer" and name not in registry.names(protocol) and (name or protocol == "classic"):
        return Expected(verdict="custom", why=f"custom assignor: {name or 'not named'}")
    classic = data.group_protocol == "classic"
    assigned = {member.member_id: (member.assigned if classic else member.target) or {} for member in data.members}
    missing_input = _REASONS_NOT_COMPARED.get(kind) or _missing_input(state, data, assigned, most)
    if missing_input is not None:
        return Expected(verdict="unknown", why=missing_input)
    if name:
        return _compare_with_assignor(protocol, name, state, data, assigned)
    # The broker uses its default, which no record contains.
    verdicts = {name: _compare_with_assignor(protocol, name, state, data, assigned) for name in _DEFAULT_ASSIGNORS}
    name = (*[name for name, verdict in verdicts.items() if verdict.verdict == "equal"], *_DEFAULT_ASSIGNORS)[0]
    why, verdict = f"no member names an assignor: {name} is assumed, the broker's default", verdicts[name]
    return structs.replace(verdict, why=f"{verdict.why}; {why}" if verdict.why else why)


def _missing_input(state: GroupState, data: GroupObserved, assigned: Mapping[str, Holding], most: int) -> str | None:
    if data.polled:
        return "polling does not show subscriptions and owned partitions of members"
    read = {topic for member in data.members for topic in member.topics}
    partition_count = sum(topic.partitions for name, topic in state.topics.items() if name in read)
    if partition_count > most or sum(len(numbers) for share in assigned.values() for numbers in share.values()) > most:
        return f"more than {most} partitions ([stream] expected_partitions)"
    if data.group_protocol == "consumer" and (behind := _find_lagging_member(state, data)):
        return f"the previous target is unknown: {behind} had not reached it"
    return None


def _find_lagging_member(state: GroupState, data: GroupObserved) -> str:
    last_owned = ownership(state.members)
    number = data.group_epoch or 0
    for member in data.members:
        owned = last_owned.get(member.member_id)
        if owned is None:
            continue
        # Before this epoch the member also owned the partitions that it is giving up now.
        consumed = union(member.assigned, member.pending_revocation)
        if (member.member_epoch or 0) < number - 1 or (member.pending_revocation and consumed != owned):
            return member.member_id
    return "" if number - state.generation == (not state.assigning) else "the group"


def _compare_with_assignor(
    protocol: str, name: str, state: GroupState, data: GroupObserved, assigned: Mapping[str, Holding]
) -> Expected:
    members: list[Any] = []
    for member in data.members:
        owned, generation = member.owned, member.owned_generation
        if protocol != "classic":
            before = state.member(member.member_id, member.group_instance_id)
            owned, generation = (before.owned if before else {}), -1
        identity = member.member_id, tuple(member.topics), member.group_instance_id, member.rack_id
        members.append(JoiningMember(*identity, owned, generation))
    topics, result = topics_of(state), _sorted_shares(assigned)
    assign = registry.find(protocol, name).assign
    try:
        computed_shares = _sorted_shares(assign(topics, members))
        if computed_shares == result:
            return Expected(verdict="equal")
        seen, leaders = _counts_of_assigned(topics, members, assigned), {**topics}
        for topic, count in seen.items():
            metadata = topics.get(topic) or Topic(topic, 0)
            racks = None if metadata.racks is None else (*metadata.racks, *[()] * count)[:count]
            leaders[topic] = Topic(topic, count, racks, metadata.topic_id)
        if seen and _sorted_shares(assign(leaders, members)) == result:
            return Expected(verdict="equal", why="with the partition counts in the leader's metadata", partitions=seen)
    except MonitorError as problem:
        return Expected(verdict="unknown", why=str(problem))
    if (protocol, name) in _EVEN_ASSIGNORS:
        if _is_shared_evenly(leaders, members, assigned, is_contiguous=name == "range"):
            return Expected(verdict="tie", why=f"distributed evenly by another client's rule for {name}, not Java's")
    elif not check(protocol, name, topics, members, assigned):
        return Expected(verdict="tie", why=f"follows every rule of {name}, with other tie-breaks")
    changes = sorted(diff_members(result, computed_shares).items())
    missing = {member_id: change.assigned for member_id, change in changes if change.assigned}
    extra = {member_id: change.revoked for member_id, change in changes if change.revoked}
    return Expected(verdict="different", why=f"{name} computes another assignment", missing=missing, extra=extra)


def _is_shared_evenly(
    topics: Mapping[str, Topic], members: Sequence[Member], assigned: Mapping[str, Holding], *, is_contiguous: bool
) -> bool:
    """True if each topic is assigned completely and evenly: its subscribers' partition counts differ by at most one.

    ``range`` and ``roundrobin`` of all clients assign evenly, but may order members differently or give the remainder
    to other members. kafka-go's ``range`` begins at i·n/m (``groupbalancer.go``). ``range`` of earlier Sarama versions
    rounds, and orders members by a hash (``balance_strategy.go``). ``is_contiguous``: require consecutive partitions.
    """
    for topic in {name for share in assigned.values() for name in share} | {
        name for member in members for name in member.topics
    }:
        shares = {member.member_id: sorted(assigned.get(member.member_id, {}).get(topic, ())) for member in members}
        subscribers = [member.member_id for member in members if topic in member.topics]
        count = topics[topic].partitions if topic in topics else 0
        numbers = sorted(number for share in shares.values() for number in share)
        sizes = [len(shares[member_id]) for member_id in subscribers]
        if numbers != list(range(count)) or sum(sizes) != count or max(sizes, default=0) - min(sizes, default=0) > 1:
            return False
        if is_contiguous and any(share and share[-1] - share[0] >= len(share) for share in shares.values()):
            return False
    return True


def _counts_of_assigned(
    known_topics: Mapping[str, Topic], members: Iterable[Member], assigned: Mapping[str, Holding]
) -> dict[str, int]:
    """Return partition counts derived from the assignment, where the counts in the membership log differ."""
    by_topic = collect_lists(assigned.values())
    counts = {}
    for topic in sorted({name for member in members for name in member.topics}):
        numbers = by_topic.get(topic, ())
        count = len(numbers)
        # The count n follows only if the assignment has the partitions 0 … n − 1, each once.
        if count != (known_topics[topic].partitions if topic in known_topics else 0) and {*numbers} == {*range(count)}:
            counts[topic] = count
    return counts


def _sorted_shares(assignment: _MemberShares) -> dict[str, Holding]:
    """Return the sorted partitions of each member that has at least one."""
    shares = {
        member_id: {topic: sorted(numbers) for topic, numbers in share.items() if numbers}
        for member_id, share in assignment.items()
    }
    return {member_id: share for member_id, share in shares.items() if share}
