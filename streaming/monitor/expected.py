"""Comparison of an observed assignment with the one that Kafka's own assignor computes.

Classic protocol: the leader's record has all of the assignor's input: subscriptions, owned partitions, generations,
racks and the members' order. The membership log has the partition counts. Where the leader's metadata was older or
newer, the assignment shows the counts that it knew.

KIP-848: the coordinator starts from the previous target. No record of the round has it, but a group whose members
have all reached the last epoch owns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, UnsetType, structs

from assignors import registry
from assignors.assignment import collect_lists, diff, union
from assignors.errors import MonitorError
from assignors.invariants import check
from assignors.model import Assignment, Member, Topic, TopicPartitions
from streaming.monitor.derived import JoiningMember, topics_of
from streaming.monitor.state import GroupState
from streaming.records.diffs import Expected
from streaming.records.events import GroupObserved, Holding, ObservedMember

#: Larger rounds are not computed, unless the settings say so: it would cost more than the round itself.
MOST_PARTITIONS: Final = 1000
#: Java's assignors of these names leave no choice; those of other clients share out by rules of their own.
_STRICT: Final = frozenset({("classic", "range"), ("classic", "roundrobin")})
#: The order of ``group.consumer.assignors`` by default: the first one is the broker's default (KIP-848).
_BROKER_DEFAULTS: Final = ("uniform", "range")
#: Why nothing is computed for groups of other kinds.
_OTHER_KINDS: Final = {
    "connect": "Connect's leader goes by what it remembers of rounds before, which no record has",
    "streams": "Kafka Streams assigns by the topology and by what its instances hold on disk, which no record has",
    "share": "members of share groups are assigned partitions by the coordinator's own rule, which is not computed",
}


def expected(state: GroupState, data: GroupObserved, most: int) -> Expected | UnsetType:
    """Return the verdict of the comparison; UNSET if no assignor made the round.

    That is so if no member is left, the group was unknown before, or the target of the epoch was computed earlier.
    Rounds of more than ``most`` partitions are not computed.
    """
    if not data.members or most <= 0 or not state.observed or _no_target(state, data):
        return UNSET
    try:
        return _verdict(state, data, most)
    except Exception as error:  # noqa: BLE001 - a check that fails must not cost the round; the diff has the error
        return Expected(verdict="unknown", why=f"the check failed: {type(error).__name__}: {error}")


def _verdict(state: GroupState, data: GroupObserved, most: int) -> Expected:
    kind, name = "consumer" if data.kind is UNSET else data.kind, data.protocol
    protocol = "consumer" if data.group_protocol == "consumer" else "classic"
    if kind == "consumer" and name not in registry.names(protocol) and (name or protocol == "classic"):
        return Expected(verdict="custom", why=f"custom assignor: {name or 'not named'}")
    classic = data.group_protocol == "classic"
    given = {one.member_id: (one.assigned if classic else one.target) or {} for one in data.members}
    lacking = _OTHER_KINDS.get(kind) or _lacking(state, data, given, most)
    if lacking is not None:
        return Expected(verdict="unknown", why=lacking)
    if name:
        return _compared(protocol, name, state, data, given)
    return _by_default(protocol, state, data, given)


def _by_default(protocol: str, state: GroupState, data: GroupObserved, given: Mapping[str, Holding]) -> Expected:
    """Return the verdict if no member names an assignor: the broker's default is in use, which no record names."""
    verdicts = {name: _compared(protocol, name, state, data, given) for name in _BROKER_DEFAULTS}
    name = next((name for name in verdicts if verdicts[name].verdict == "equal"), _BROKER_DEFAULTS[0])
    why = f"no member names an assignor: {name} taken for the broker's default"
    found = verdicts[name]
    return structs.replace(found, why=f"{found.why}; {why}" if found.why else why)


def _lacking(state: GroupState, data: GroupObserved, given: Mapping[str, Holding], most: int) -> str | None:
    if data.polled:
        return "polling does not see what members declared"
    read = {topic for one in data.members for topic in one.topics}
    there = sum(topic.partitions for name, topic in state.topics.items() if name in read)
    if there > most or sum(len(numbers) for share in given.values() for numbers in share.values()) > most:
        return f"more than {most} partitions ([stream] expected_partitions)"
    if data.group_protocol == "consumer" and (behind := _behind(state, data)):
        return f"the target before is not known: {behind} had not reached it"
    return None


def _no_target(state: GroupState, data: GroupObserved) -> bool:
    """Return whether the view shows no new target (KIP-848): a step towards the last one, or none yet."""
    if data.group_protocol == "classic":
        return False
    return data.state == "Assigning" or (data.group_epoch == state.generation and not state.assigning)


def _behind(state: GroupState, data: GroupObserved) -> str:
    known = {one.member_id: one.owned for one in state.members}
    number = data.group_epoch or 0
    for one in data.members:
        owned = known.get(one.member_id)
        if owned is None:
            continue
        # It owned what it gives up for this epoch until then.
        had = union(one.assigned, one.pending_revocation)
        if (one.member_epoch or 0) < number - 1 or (one.pending_revocation and had != owned):
            return one.member_id
    return "" if number - state.generation == (not state.assigning) else "the group"


def _compared(
    protocol: str, name: str, state: GroupState, data: GroupObserved, given: Mapping[str, Holding]
) -> Expected:
    members = [_member(one, state, classic=protocol == "classic") for one in data.members]
    topics = topics_of(state)
    assign = registry.find(protocol, name).assign
    try:
        wanted = assign(topics, members)
        if _same(wanted, given):
            return Expected(verdict="equal")
        seen = _counts(topics, members, given)
        leaders = {**topics, **{topic: _grown(topic, topics.get(topic), count) for topic, count in seen.items()}}
        if seen and _same(assign(leaders, members), given):
            return Expected(verdict="equal", why="with the partitions that the leader knew of", partitions=seen)
    except MonitorError as problem:
        return Expected(verdict="unknown", why=str(problem))
    if (protocol, name) in _STRICT:
        if _is_shared_evenly(leaders, members, given, contiguous=name == "range"):
            return Expected(verdict="tie", why=f"shared out evenly by another client's rule of {name} than Java's")
    elif not check(protocol, name, topics, members, given):
        return Expected(verdict="tie", why=f"keeps every rule of {name}; ties were broken otherwise")
    missing, extra = _difference(wanted, given)
    return Expected(verdict="different", why=f"{name} gives out otherwise", missing=missing, extra=extra)


def _is_shared_evenly(
    topics: Mapping[str, Topic], members: Sequence[Member], given: Mapping[str, Holding], *, contiguous: bool
) -> bool:
    """True if the subscribers of each topic have all its partitions, as many each, give or take one.

    Every client's ``range`` and ``roundrobin`` does that, topic by topic, but in another order of members, or with
    the remainder elsewhere. kafka-go's ``range`` begins at i·n/m (``groupbalancer.go``); that of earlier Sarama
    rounds, and orders members by a hash (``balance_strategy.go``). ``contiguous``: shares are consecutive partitions.
    """
    for topic in {name for share in given.values() for name in share} | {
        name for one in members for name in one.topics
    }:
        shares = {one.member_id: sorted(given.get(one.member_id, {}).get(topic, ())) for one in members}
        subscribers = [one.member_id for one in members if topic in one.topics]
        count = topics[topic].partitions if topic in topics else 0
        numbers = sorted(number for share in shares.values() for number in share)
        sizes = [len(shares[one]) for one in subscribers]
        if numbers != list(range(count)) or sum(sizes) != count or max(sizes, default=0) - min(sizes, default=0) > 1:
            return False
        if contiguous and any(share and share[-1] - share[0] >= len(share) for share in shares.values()):
            return False
    return True


def _member(one: ObservedMember, state: GroupState, *, classic: bool) -> Any:
    if classic:
        owned, generation = one.owned, one.owned_generation
    else:
        before = state.member(one.member_id, one.group_instance_id)
        owned, generation = (before.owned if before else {}), -1
    return JoiningMember(one.member_id, tuple(one.topics), one.group_instance_id, one.rack_id, owned, generation)


def _grown(name: str, known: Topic | None, count: int) -> Topic:
    racks = known.racks if known else None
    if racks is not None:
        racks = (*racks, *[()] * count)[:count]
    return Topic(name, count, racks, known.topic_id if known else None)


def _counts(announced: Mapping[str, Topic], members: Iterable[Member], given: Mapping[str, Holding]) -> dict[str, int]:
    """Return the partition counts that the assignment shows, of topics for which the log has others."""
    known = collect_lists(given.values())
    counts = {}
    for topic in sorted({name for one in members for name in one.topics}):
        numbers = known.get(topic, ())
        count = len(numbers)
        # Only complete numbers, each once, are a count.
        if count != (announced[topic].partitions if topic in announced else 0) and {*numbers} == {*range(count)}:
            counts[topic] = count
    return counts


def _same(wanted: Assignment, given: Mapping[str, TopicPartitions]) -> bool:
    return all(_plain(wanted.get(one, {})) == _plain(given.get(one, {})) for one in {**wanted, **given})


def _plain(share: TopicPartitions) -> Holding:
    return {topic: sorted(numbers) for topic, numbers in share.items() if numbers}


def _difference(
    wanted: Assignment, given: Mapping[str, TopicPartitions]
) -> tuple[dict[str, Holding], dict[str, Holding]]:
    missing, extra = {}, {}
    for one in sorted({**wanted, **given}):
        change = diff(_plain(given.get(one, {})), _plain(wanted.get(one, {})))
        if change.assigned:
            missing[one] = change.assigned
        if change.revoked:
            extra[one] = change.revoked
    return missing, extra
