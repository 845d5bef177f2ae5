"""What each membership event means for its group: ``apply(state, event) -> (state, outputs)``.

===============================  =======================================  ==================================
event                            derived group                            observed group
===============================  =======================================  ==================================
``member.joined``                new member: rebalance. Known member:     evidence
                                 rebalance if its metadata changed.
                                 Known instance id under a new member
                                 id, same metadata: takes its place, no
                                 diff
``member.left``, ``.fenced``     rebalance without the member; unknown    evidence
                                 member: nothing
``member.subscription_changed``  rebalance if the set of topics changed   evidence
``topic.partitions_changed``     rebalance if the count of a subscribed   evidence
                                 topic changed
``member.heartbeat``,            nothing                                  nothing
``.assignment_acknowledged``
``group.observed``               the group is observed from now on        a new generation is a round
``group.deleted``                diff for what was held, tombstone        the same
===============================  =======================================  ==================================

A repeated ``(ce_source, ce_id)`` changes nothing. The order of the log is the truth: a timestamp that goes
back is passed on as it is and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from assignors.errors import BadInput
from assignors.java import uuid_bits
from streaming.monitor import applied
from streaming.monitor.derived import Change, rebalance
from streaming.monitor.joining import Claim
from streaming.monitor.observed import hint, observe, rename
from streaming.monitor.rounds import following, latest, minus_others, play, prune, subscribed, tombstone
from streaming.monitor.state import Applied, GroupState, MemberState, TopicState
from streaming.wire.events import (
    MAX_PARTITIONS,
    AssignmentAcknowledged,
    Cause,
    Event,
    Evidence,
    GroupDeleted,
    GroupObserved,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    MemberLeft,
    Partitions,
    PartitionsChanged,
    SubscriptionChanged,
)


class ContradictoryTopic(BadInput):
    """topic.partitions_changed: what it says of a topic does not fit together."""


def apply(state: GroupState | None, event: Event) -> Applied:
    """The group after one event, and what to write.

    Args:
        state: the group before; None when nothing is known of it.
        event: the next event of this group in the log.

    Returns:
        The group after (None: forgotten), and diffs and latest assignments in the order of their rounds.

    Raises:
        BadInput: the event can't be applied, ``state`` stands: see :func:`streaming.monitor.derived.rebalance`
            and :func:`streaming.monitor.observed.observe`.
        ContradictoryTopic: racks or topic ids don't fit.
    """
    data = event.data
    if isinstance(data, MemberHeartbeat | AssignmentAcknowledged):
        return state, ()
    mark = applied.fingerprint(event.source, event.id)
    if state is None:
        state = GroupState()
    elif applied.contains(state.applied, mark):
        return state, ()
    after, outputs = _dispatch(state, event)
    if after is not None:
        after = structs.replace(after, applied=applied.remember(after.applied, mark))
    return after, outputs


def _dispatch(state: GroupState, event: Event) -> Applied:  # noqa: PLR0911 - one return an event type
    match event.data:
        case GroupObserved():
            return observe(state, event, event.data)
        case GroupDeleted():
            return _deleted(state, event, event.data)
        case PartitionsChanged():
            return _partitions_changed(state, event, event.data)
        case _ if state.observed:
            return _evidence(state, event), ()
        case MemberJoined():
            return _joined(state, event, event.data)
        case SubscriptionChanged():
            return _subscribed(state, event, event.data)
        case MemberLeft() | MemberFenced():
            return _removed(state, event, event.data)
        case _:
            return state, ()


def _rebalance(state: GroupState, event: Event, change: Change) -> Applied:
    state, diffs = rebalance(state, event, change)
    return state, (*diffs, latest(state, event))


def _ownership(state: GroupState) -> dict[str, Partitions]:
    return {member.member_id: member.owned for member in state.members}


def _joined(state: GroupState, event: Event, data: MemberJoined) -> Applied:
    joining = MemberState(
        member_id=data.member_id,
        topics=data.topics,
        assignors=data.assignors,
        instance_id=data.group_instance_id,
        rack_id=data.rack_id,
        group_protocol=data.group_protocol,
        session_timeout_ms=data.session_timeout_ms,
    )
    known = state.member(data.member_id)
    claims = {data.member_id: Claim(data.owned, data.generation)}
    if known is None:
        replaced = state.static_member(data.group_instance_id)
        if replaced is not None:
            state = rename(state, {replaced.member_id: data.member_id})
            known = state.member(data.member_id)
    else:
        replaced = None
        claims = {}
    before = _ownership(state)
    if known is None:
        before[data.member_id] = minus_others(data.owned, data.member_id, before)
        members = (*state.members, joining)
    else:
        joining = structs.replace(joining, owned=known.owned)
        members = tuple(joining if member is known else member for member in state.members)
        if _same_metadata(known, joining):
            state = structs.replace(state, members=members)
            if replaced is None:
                return state, ()
            state = structs.replace(state, timestamp=data.timestamp)
            return state, (latest(state, event),)
    cause = Cause(kind=event.type, member_ids=[data.member_id])
    return _rebalance(state, event, Change(members, before, cause, claims))


def _same_metadata(known: MemberState, joining: MemberState) -> bool:
    """Whether the coordinator would see the same member: timeouts and what it owns are no metadata."""
    return (
        known.assignors == joining.assignors
        and known.rack_id == joining.rack_id
        and known.instance_id == joining.instance_id
        and known.group_protocol == joining.group_protocol
        and (known.topics == joining.topics or set(known.topics) == set(joining.topics))
    )


def _subscribed(state: GroupState, event: Event, data: SubscriptionChanged) -> Applied:
    known = state.member(data.member_id)
    if known is None or set(known.topics) == set(data.topics):
        return state, ()
    changed = structs.replace(known, topics=data.topics)
    members = tuple(changed if member is known else member for member in state.members)
    cause = Cause(kind=event.type, member_ids=[data.member_id])
    return _rebalance(state, event, Change(members, _ownership(state), cause))


def _removed(state: GroupState, event: Event, data: MemberLeft | MemberFenced) -> Applied:
    known = state.member(data.member_id) or state.static_member(data.group_instance_id)
    if known is None:
        return state, ()
    members = tuple(member for member in state.members if member is not known)
    cause = Cause(
        kind=event.type, member_ids=[known.member_id], evidence=_reason(event, data, known.member_id)
    )
    return _rebalance(state, event, Change(members, _ownership(state), cause))


def _reason(event: Event, data: MemberLeft | MemberFenced, member_id: str) -> list[Evidence]:
    if not data.reason:
        return []
    return [Evidence(source=event.source, reason=data.reason, member_ids=[member_id], kind=event.type)]


def _partitions_changed(state: GroupState, event: Event, data: PartitionsChanged) -> Applied:
    old = state.topics
    announced = {
        name: TopicState(topic.partitions, topic.racks, topic.topic_id) for name, topic in data.topics.items()
    }
    state = structs.replace(state, topics=old | announced)
    _check_topics(announced, state.topics)
    state = structs.replace(state, last_owners=prune(state.last_owners, state.topics))
    wanted = subscribed(state.members)
    counts = {
        name: (old[name].partitions if name in old else 0, topic.partitions)
        for name, topic in announced.items()
        if name in wanted
    }
    changed = {name: count for name, count in counts.items() if count[0] != count[1]}
    if not changed:
        return state, ()
    reason = ", ".join(f"{name}: {was} → {now} partitions" for name, (was, now) in sorted(changed.items()))
    if state.observed:
        known = {name: count for name, count in changed.items() if name in old}
        # A count heard for the first time is the collector learning, not the group changing.
        return (hint(state, event.type, reason, [], event.source) if known else state), ()
    evidence = [Evidence(source=event.source, reason=reason, kind=event.type)]
    return _rebalance(
        state, event, Change(state.members, _ownership(state), Cause(kind=event.type, evidence=evidence))
    )


def _check_topics(announced: Mapping[str, TopicState], topics: Mapping[str, TopicState]) -> None:
    """Refuse here what would make an assignor refuse every later event of the group.

    Raises:
        ContradictoryTopic: racks or the topic id don't fit.
        BadInput: a topic id is no Uuid.
    """
    total = sum(topic.partitions for topic in topics.values())
    if total > MAX_PARTITIONS:
        raise ContradictoryTopic(
            f"topics: {total} partitions of the group's topics together; no more than {MAX_PARTITIONS} are followed"
        )
    for name, topic in announced.items():
        if topic.racks is not None and len(topic.racks) != topic.partitions:
            raise ContradictoryTopic(
                f"topics.{name}.racks: {len(topic.racks)} entries for {topic.partitions} partitions; give one list "
                "of racks a partition, [] where unknown"
            )
        if topic.topic_id is None:
            continue
        uuid_bits(topic.topic_id)
        for other, known in topics.items():
            if other != name and known.topic_id == topic.topic_id:
                raise ContradictoryTopic(f"topics.{name}.topicId: {topic.topic_id} is that of {other}, too")


def _evidence(state: GroupState, event: Event) -> GroupState:
    """A member event of an observed group: kept until the next generation asks why."""
    data = event.data
    if isinstance(data, MemberLeft | MemberFenced):
        reason, member_id = data.reason or "", data.member_id
    elif isinstance(data, MemberJoined | SubscriptionChanged):
        reason, member_id = "", data.member_id
    else:
        return state
    return hint(state, event.type, reason, [member_id], event.source)


def _deleted(state: GroupState, event: Event, data: GroupDeleted) -> Applied:
    """What was held is revoked; the memory of applied events stays until the group is forgotten."""
    if data.forget:
        # Written by the timer on what it knew: members that came since keep the group.
        return (state, ()) if state.members else (None, (tombstone(event),))
    before = _ownership(state)
    evidence = [Evidence(source=event.source, reason=data.reason, kind=event.type)] if data.reason else []
    gone = structs.replace(
        state,
        members=(),
        round=1,
        timestamp=data.timestamp,
        cause=Cause(kind=event.type, member_ids=list(before), evidence=evidence),
        generation=following(state.generation) if before else state.generation,
        hints=(),
    )
    empty = GroupState(
        observed=state.observed, topics=state.topics, applied=state.applied, timestamp=data.timestamp
    )
    if not before:
        return empty, (tombstone(event),)
    _, output = play(gone, event, before)
    return empty, (output, tombstone(event))
