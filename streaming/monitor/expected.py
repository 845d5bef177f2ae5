"""What Kafka's own assignor makes of what the members of an observed round declared, beside what they got.

Under the classic protocol the leader's record has all that it went by: subscriptions, what members owned by their
own word, their generation and racks, and their order. How many partitions topics had the log says; where a leader's
metadata was older or newer, what it gave out shows what it knew.

Under KIP-848 the coordinator starts from the target before. No record of the round has that, but a group at rest
has what its target says: members with all of the epoch before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import UNSET, UnsetType

from assignors import registry
from assignors.diff import diff
from assignors.errors import MonitorError
from assignors.invariants import check
from assignors.model import Assignment, Member, Share, Topic
from assignors.shares import held, union
from streaming.monitor.state import GroupState, TopicState
from streaming.wire.diffs import Expected
from streaming.wire.events import GroupObserved, Holding, ObservedMember

#: Nothing is said of rounds with more partitions, unless the settings do: it would cost more than the round itself.
MOST_PARTITIONS: Final = 1000
#: These leave no choice: a difference is one. Of the others a client in another language may break ties otherwise.
_STRICT: Final = frozenset({("classic", "range"), ("classic", "roundrobin")})
#: Why nothing is computed for groups of other kinds.
_OTHERS: Final = {
    "connect": "Connect's leader goes by what it remembers of rounds before, which no record has",
    "streams": "Kafka Streams assigns by the topology and by what its instances hold on disk, which no record has",
    "share": "members of share groups are assigned partitions by the coordinator's own rule, which is not computed",
}


def expected(state: GroupState, data: GroupObserved, most: int) -> Expected | UnsetType:
    """Whether members got what the assignor in use makes of what they declared.

    Args:
        state: the group before the round.
        data: the view that shows the round; of a number that ``state`` does not have.
        most: nothing is said of a round with more partitions.

    Returns:
        The verdict; UNSET where the round is no assignor's: nobody is left, the group was not known before, or the
        target of its epoch was computed earlier.
    """
    if not data.members or not _is_asked(state, data, most):
        return UNSET
    name = data.protocol or ""
    protocol = _protocol(data)
    if (custom := _custom(protocol, name, data)) is not None:
        return custom
    given = {one.member_id: _given(one, data) for one in data.members}
    lacking = _lacking(state, data, given, most)
    if lacking is not None:
        return Expected(verdict="unknown", why=lacking)
    return _compared(protocol, name, state, data, given)


def too_many(state: GroupState, data: GroupObserved, most: int) -> Expected | UnsetType:
    """As :func:`expected`, of a group that is known to read more partitions; ``data`` may be a part of its view."""
    if not _is_asked(state, data, most):
        return UNSET
    return _custom(_protocol(data), data.protocol or "", data) or Expected(
        verdict="unknown", why=_beyond(most)
    )


def _is_asked(state: GroupState, data: GroupObserved, most: int) -> bool:
    return most > 0 and state.observed and not _no_target(state, data)


def _protocol(data: GroupObserved) -> str:
    return "consumer" if data.group_protocol == "consumer" else "classic"


def _custom(protocol: str, name: str, data: GroupObserved) -> Expected | None:
    if data.kind not in (UNSET, "consumer") or name in registry.names(protocol):
        return None
    return Expected(verdict="custom", why=f"custom assignor: {name or 'not named'}")


def _beyond(most: int) -> str:
    return f"more than {most} partitions ([stream] expected_partitions)"


def _lacking(state: GroupState, data: GroupObserved, given: Mapping[str, Holding], most: int) -> str | None:
    """What would have to be known, or allowed, to compute the round again."""
    kind = "consumer" if data.kind is UNSET else data.kind
    if kind != "consumer":
        return _OTHERS[kind]
    if data.polled:
        return "polling does not see what members declared"
    read = {topic for one in data.members for topic in one.topics}
    there = sum(topic.partitions for name, topic in state.topics.items() if name in read)
    if there > most or sum(len(numbers) for share in given.values() for numbers in share.values()) > most:
        return _beyond(most)
    if data.group_protocol == "consumer" and (behind := _behind(state, data)):
        return f"the target before is not known: {behind} had not reached it"
    return None


def assigning(data: GroupObserved) -> bool:
    """Whether the target of the view's epoch is still to come (KIP-848)."""
    return data.counts_epochs and data.state == "Assigning"


def _no_target(state: GroupState, data: GroupObserved) -> bool:
    """Under KIP-848: this view shows a step towards a target, or none yet, and no new one."""
    if not data.counts_epochs:
        return False
    return assigning(data) or (data.group_epoch == state.generation and not state.assigning)


def _given(one: ObservedMember, data: GroupObserved) -> Holding:
    return (one.assigned if data.group_protocol == "classic" else one.target) or {}


def _behind(state: GroupState, data: GroupObserved) -> str:
    """Some member that was there before, and had not all of its last target; empty: there is none."""
    known = {one.member_id: one.owned for one in state.members}
    number = data.group_epoch or 0
    for one in data.members:
        owned = known.get(one.member_id)
        if owned is None:
            continue
        # What it gives up since it heard of this epoch it had until then.
        had = union(one.assigned, one.pending_revocation)
        if (one.member_epoch or 0) < number - 1 or (one.pending_revocation and had != owned):
            return one.member_id
    return "" if number - state.generation == (not state.assigning) else "the group"


def _compared(
    protocol: str, name: str, state: GroupState, data: GroupObserved, given: Mapping[str, Holding]
) -> Expected:
    members = [_member(one, state, classic=protocol == "classic") for one in data.members]
    told = {topic: _topic(topic, found) for topic, found in state.topics.items()}
    try:
        wanted = registry.find(protocol, name).assign(told, members)
    except MonitorError as problem:
        return Expected(verdict="unknown", why=str(problem))
    if _same(wanted, given):
        return Expected(verdict="equal")
    seen = _counts(told, members, given)
    if seen:
        topics = {**told, **{topic: _grown(topic, told.get(topic), count) for topic, count in seen.items()}}
        if _same(registry.find(protocol, name).assign(topics, members), given):
            return Expected(
                verdict="equal", why="with the partitions that the leader knew of", partitions=seen
            )
    if (protocol, name) not in _STRICT and not check(protocol, name, told, members, given):
        return Expected(verdict="tie", why=f"keeps every rule of {name}; ties were broken otherwise")
    missing, extra = _difference(wanted, given)
    return Expected(verdict="different", why=f"{name} gives out otherwise", missing=missing, extra=extra)


def _member(one: ObservedMember, state: GroupState, *, classic: bool) -> Member:
    if classic:
        owned, generation = one.owned, one.owned_generation
    else:
        before = state.member(one.member_id) or state.static_member(one.group_instance_id)
        owned, generation = (before.owned if before else {}), -1
    return Member(one.member_id, tuple(one.topics), one.group_instance_id, one.rack_id, owned, generation)


def _topic(name: str, found: TopicState) -> Topic:
    racks = None if found.racks is None else tuple(map(tuple, found.racks))
    return Topic(name, found.partitions, racks, found.topic_id)


def _grown(name: str, known: Topic | None, count: int) -> Topic:
    racks = known.racks if known else None
    if racks is not None:
        racks = (*racks, *[()] * count)[:count]
    return Topic(name, count, racks, known.topic_id if known else None)


def _counts(
    told: Mapping[str, Topic], members: Iterable[Member], given: Mapping[str, Holding]
) -> dict[str, int]:
    """The counts of subscribed topics that what was given out shows, where the log has others."""
    known = held(given.values())
    counts = {}
    for topic in sorted({name for one in members for name in one.topics}):
        numbers = known.get(topic, ())
        count = len(numbers)
        # Each partition once: numbers that nobody could have known of are no count.
        if count != (told[topic].partitions if topic in told else 0) and {*numbers} == {*range(count)}:
            counts[topic] = count
    return counts


def _same(wanted: Assignment, given: Mapping[str, Share]) -> bool:
    return all(_plain(wanted.get(one, {})) == _plain(given.get(one, {})) for one in {**wanted, **given})


def _plain(share: Share) -> Holding:
    return {topic: sorted(numbers) for topic, numbers in share.items() if numbers}


def _difference(
    wanted: Assignment, given: Mapping[str, Share]
) -> tuple[dict[str, Holding], dict[str, Holding]]:
    """What members should have and do not, and what they have and should not."""
    missing, extra = {}, {}
    for one in sorted({**wanted, **given}):
        change = diff(_plain(given.get(one, {})), _plain(wanted.get(one, {})))
        if change.assigned:
            missing[one] = change.assigned
        if change.revoked:
            extra[one] = change.revoked
    return missing, extra
