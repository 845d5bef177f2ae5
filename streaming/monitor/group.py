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
``.assignment_acknowledged``     (reported group: see there)
``group.observed``               the group is observed from now on        a new generation is a round
``group.deleted``                diff for what was held, tombstone        the same
``group.quiet``,                 nothing: it is of the group's episode    nothing
``partitions.stopped``
===============================  =======================================  ==================================

A group with members that say themselves what they hold is :mod:`~streaming.monitor.reported`, until a collector
sees it.

A repeated ``(ce_source, ce_id)`` changes nothing. The order of the log is the truth: a timestamp that goes
back is passed on as it is and decides nothing.

:mod:`~streaming.monitor.derived` and :mod:`~streaming.monitor.observed` decide the rounds; they are played here,
once, whoever decided them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import structs

from assignors.assignment import minus_others
from assignors.errors import BadInput
from assignors.java import uuid_bits
from streaming.monitor import expected, liveness, observed, reported
from streaming.monitor.bucket_state import Heard
from streaming.monitor.derived import Claim, Occasion, rebalance
from streaming.monitor.outputs import AssignmentOutput, DiffOutput, Output, output_id
from streaming.monitor.rounds import Round, play
from streaming.monitor.state import (
    GroupState,
    MemberState,
    TopicState,
    contains,
    fingerprint,
    following,
    ownership,
    prune,
    remember,
    subscribed,
)
from streaming.records.diffs import Cause
from streaming.records.events import (
    MAX_PARTITIONS,
    AssignmentAcknowledged,
    Event,
    Evidence,
    GroupDeleted,
    GroupObserved,
    GroupProgress,
    GroupQuiet,
    GroupRebalancing,
    IncidentAcknowledged,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    MemberLeft,
    PartitionsChanged,
    PartitionsStopped,
    SubscriptionChanged,
)

#: The group after an event (None: forgotten), and what to write, in order.
Applied = tuple[GroupState | None, tuple[Output, ...]]

#: Topics that no member subscribes to and whose partition counts a group keeps.
MOST_UNREAD: Final = 64
#: Events that say nothing of a group's members.
_NOTHING: Final = (
    *(MemberHeartbeat, GroupQuiet, PartitionsStopped),
    *(GroupRebalancing, GroupProgress, IncidentAcknowledged),
)


class ContradictoryTopic(BadInput):
    """topic.partitions_changed: what it says of a topic does not fit together."""


def apply(
    state: GroupState | None,
    event: Event,
    heard: Mapping[str, Heard] | None = None,
    *,
    most: int = expected.MOST_PARTITIONS,
) -> Applied:
    """The group after one event, and what to write.

    Args:
        state: the group before; None when nothing is known of it.
        event: the next event of this group in the log.
        heard: the members that send heartbeats. A fence of the monitor's own timer counts only while the member
            has not been heard again; None: the caller takes no note of heartbeats, and every fence counts.
        most: observed rounds of more partitions are not computed again; 0: none is.

    Returns:
        The group after (``state`` itself when the event changes nothing), and diffs and latest assignments in the
        order of their rounds.

    Raises:
        BadInput: the event can't be applied, ``state`` stands: see :func:`streaming.monitor.derived.rebalance`
            and :func:`streaming.monitor.observed.observe`.
        ContradictoryTopic: racks or topic ids don't fit, or there are too many partitions.
    """
    data = event.data
    if isinstance(data, _NOTHING):
        return state, ()
    if isinstance(data, AssignmentAcknowledged):
        # Not remembered as applied: there are many, and to hear one again changes nothing.
        return _acknowledged(state, event)
    if isinstance(data, MemberFenced) and heard is not None and liveness.is_stale(heard, data):
        return state, ()
    mark = fingerprint(event.source, event.id)
    if state is not None and contains(state.applied, mark):
        return state, ()
    after, outputs = _dispatch(state or GroupState(), event, most)
    if after is not None:
        after = structs.replace(after, applied=remember(after.applied, mark))
    return after, outputs


def _dispatch(state: GroupState, event: Event, most: int) -> Applied:  # noqa: PLR0911 - one return an event type
    match event.data:
        case GroupObserved():
            known = state if state.reports is None else reported.overruled(state, event.data)
            return _observed(known, event, event.data, most)
        case GroupDeleted():
            return _deleted(state, event, event.data)
        case PartitionsChanged():
            return _partitions_changed(state, event, event.data)
        case _ if _is_reported(state, event):
            return _reported(state, event)
        case _ if state.observed:
            return observed.told(state, event), ()
        case MemberJoined():
            return _joined(state, event, event.data)
        case SubscriptionChanged():
            return _subscribed(state, event, event.data)
        case MemberLeft() | MemberFenced():
            return _removed(state, event, event.data)
        case _:
            return state, ()


def _is_reported(state: GroupState, event: Event) -> bool:
    """True if the group is a reported one, or becomes one with this event."""
    data = event.data
    begins = isinstance(data, MemberJoined) and data.acknowledges is True and not state.observed
    return begins or state.reports is not None


def _play(state: GroupState, event: Event, rounds: Sequence[Round]) -> tuple[GroupState, tuple[Output, ...]]:
    """The group after these rounds, their diffs and the latest assignment."""
    outputs: list[Output] = []
    for decided in rounds:
        past = state.members
        state, named, changed = play(state, event.data.timestamp, decided)
        outputs.append(DiffOutput(output_id(event, named.number), event, named, changed, past))
    return state, (*outputs, AssignmentOutput(event, state))


def _rebalance(state: GroupState, event: Event, occasion: Occasion) -> Applied:
    return _play(state, event, rebalance(state, occasion))


def _observed(state: GroupState, event: Event, data: GroupObserved, most: int) -> Applied:
    seen = observed.observe(state, data)
    if seen.round is None:
        return seen.state, ((AssignmentOutput(event, seen.state),) if seen.latest else ())
    decided = seen.round._replace(expected=expected.expected(state, data, most))
    state = structs.replace(seen.state, assigning=most > 0 and expected.assigning(data))
    return _play(state, event, [decided])


def _reported(state: GroupState, event: Event) -> Applied:
    """What members of the group have told with this event and before makes some rounds, or none yet."""
    after, outputs = reported.told(state, event), list[Output]()
    if after.members != state.members:  # a static member came back under a new id
        outputs.append(AssignmentOutput(event, after))
    while (ripe := reported.ripe(after, event)) is not None:
        given: tuple[Output, ...] = ()
        if ripe.seen.round is not None:
            after, given = _play(ripe.state, ripe.event, [ripe.seen.round])
        else:
            after = ripe.state
        outputs += given
    return (state if after == state else after), tuple(outputs)


def _acknowledged(state: GroupState | None, event: Event) -> Applied:
    if state is None or state.reports is None:
        return state, ()
    return _reported(state, event)


def _joined(state: GroupState, event: Event, data: MemberJoined) -> Applied:
    joining = MemberState.joining(data, state.members[0] if state.members else None)
    known = state.member(data.member_id)
    replaced = state.static_member(data.group_instance_id) if known is None else None
    claims = {data.member_id: Claim(data.owned, data.generation)} if known is None else {}
    if replaced is not None:
        state = state.rename({replaced.member_id: joining})
        known = state.member(data.member_id)
    before = ownership(state.members)
    if known is None:
        before[data.member_id] = minus_others(data.owned, data.member_id, before)
        members = (*state.members, joining)
    else:
        # What a repeated join leaves out is still known.
        joining = structs.replace(
            joining,
            owned=known.owned,
            client_id=joining.client_id or known.client_id,
            client_host=joining.client_host or known.client_host,
        )
        members = _with(state, known, joining)
        if _same_metadata(known, joining):
            state = structs.replace(state, members=members)
            same_names = (known.client_id, known.client_host) == (joining.client_id, joining.client_host)
            if replaced is None and same_names:
                return state, ()
            state = structs.replace(state, timestamp=data.timestamp)
            return state, (AssignmentOutput(event, state),)
    cause = Cause(kind=event.type, member_ids=[data.member_id])
    return _rebalance(state, event, Occasion(members, before, cause, claims))


def _with(state: GroupState, known: MemberState, changed: MemberState) -> tuple[MemberState, ...]:
    return tuple(changed if member is known else member for member in state.members)


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
    members = _with(state, known, structs.replace(known, topics=data.topics))
    cause = Cause(kind=event.type, member_ids=[data.member_id])
    return _rebalance(state, event, Occasion(members, ownership(state.members), cause))


def _removed(state: GroupState, event: Event, data: MemberLeft | MemberFenced) -> Applied:
    known = state.member(data.member_id) or state.static_member(data.group_instance_id)
    if known is None:
        return state, ()
    place = state.members.index(known)
    members = (*state.members[:place], *state.members[place + 1 :])
    cause = _cause(event, [known.member_id], data.reason, [known.member_id])
    return _rebalance(state, event, Occasion(members, ownership(state.members), cause))


def _cause(event: Event, member_ids: list[str], reason: str | None, of: list[str]) -> Cause:
    """The event as the cause, with its reason, which is that of the members ``of``, as evidence."""
    evidence = (
        [Evidence(source=event.source, reason=reason, member_ids=of, kind=event.type)] if reason else []
    )
    return Cause(kind=event.type, member_ids=member_ids, evidence=evidence)


def _partitions_changed(state: GroupState, event: Event, data: PartitionsChanged) -> Applied:
    old = state.topics
    announced = {
        name: TopicState(topic.partitions, topic.racks, topic.topic_id) for name, topic in data.topics.items()
    }
    topics = _without_forgotten(old | announced, subscribed(state.members) | announced.keys())
    _check_topics(announced, topics)
    state = structs.replace(state, topics=topics, last_owners=prune(state.last_owners, topics))
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
        # A count heard for the first time is the collector learning, not the group changing.
        return (observed.hint(state, event, reason) if changed.keys() & old.keys() else state), ()
    occasion = Occasion(state.members, ownership(state.members), _cause(event, [], reason, []))
    return _rebalance(state, event, occasion)


def _without_forgotten(topics: dict[str, TopicState], needed: AbstractSet[str]) -> dict[str, TopicState]:
    """Return the topics without the oldest of those that no member subscribes to, beyond :data:`MOST_UNREAD`."""
    unread = [name for name in topics if name not in needed]
    for name in unread[: max(0, len(unread) - MOST_UNREAD)]:
        del topics[name]
    return topics


def _check_topics(announced: Mapping[str, TopicState], topics: Mapping[str, TopicState]) -> None:
    """Refuse here what would make an assignor refuse every later event of the group.

    Raises:
        ContradictoryTopic: racks or the topic id don't fit, or there are too many partitions.
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


def _deleted(state: GroupState, event: Event, data: GroupDeleted) -> Applied:
    """What was held is revoked; the memory of applied events stays until the group is forgotten."""
    tombstone = AssignmentOutput(event, None)
    if data.forget:
        # The timer wrote it from what it knew: members that came since keep the group.
        return (state, ()) if state.members else (None, (tombstone,))
    empty = GroupState(
        observed=state.observed and state.reports is None,
        topics=state.topics,
        applied=state.applied,
        timestamp=data.timestamp,
    )
    if not state.members:
        return empty, (tombstone,)
    before = ownership(state.members)
    cause = _cause(event, list(before), data.reason, [])
    last = Round(
        *(1, following(state.generation), state.protocol, state.assignor, cause, (), before),
        kind=state.kind,
    )
    _, (diff, _) = _play(structs.replace(state, standby={}, warmup={}), event, [last])
    return empty, (diff, tombstone)
