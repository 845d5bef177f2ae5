"""Application of one event to its group: ``apply(state, event) -> (state, outputs)``.

===============================  ========================================================  ==========================
event                            derived group                                             observed group
===============================  ========================================================  ==========================
``member.joined``                new member: rebalance. Known member: rebalance if its     evidence
                                 metadata changed. Known instance id under a new member
                                 id, same metadata: takes its place, no diff
``member.left``, ``.fenced``     rebalance without the member; unknown member: nothing     evidence
``member.subscription_changed``  rebalance if the set of topics changed                    evidence
``topic.partitions_changed``     rebalance if the count of a subscribed topic changed      evidence
``member.heartbeat``,            nothing                                                   nothing
``.assignment_acknowledged``     (reported group: see there)
``group.observed``               the group is observed from now on                         a new generation is a round
``group.deleted``                diff of what was owned, tombstone                         the same
``group.quiet``,                 nothing: for the group's episode                          nothing
``partitions.stopped``
===============================  ========================================================  ==========================

A group whose members report their own assignments is handled by :mod:`~streaming.monitor.reported` until a collector
observes it. An event whose ``(ce_source, ce_id)`` was already applied changes nothing. Events are applied in the
order of the log, not by timestamp.
:mod:`~streaming.monitor.derived` and :mod:`~streaming.monitor.observed` decide the rounds; this module applies them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from assignors.assignment import subtract_other_owners
from assignors.errors import BadInput
from assignors.java import uuid_bits
from streaming.monitor import expected, heartbeats, observed, reported
from streaming.monitor.bucket_state import LastHeartbeat
from streaming.monitor.derived import OwnershipClaim, rebalance
from streaming.monitor.outputs import AssignmentOutput, DiffOutput, Output, output_id
from streaming.monitor.rounds import Round, apply_round
from streaming.monitor.state import (
    NOTHING,
    GroupState,
    MemberState,
    TopicState,
    add_fingerprint,
    existing_last_owners,
    next_generation,
    ownership,
    subscribed,
)
from streaming.records import events
from streaming.records.diffs import Cause
from streaming.records.events import Event, Evidence

#: The group after an event (None: forgotten), and the outputs to write, in order.
ApplyResult = tuple[GroupState | None, tuple[Output, ...]]
#: The most topics without a subscriber whose partition counts a group keeps; the oldest are dropped.
MAX_UNREAD_TOPICS: Final = 64
#: Event types that never change a group.
_EVENTS_WITHOUT_EFFECT: Final = (
    events.MemberHeartbeat,
    events.GroupQuiet,
    events.PartitionsStopped,
    events.GroupRebalancing,
    events.GroupProgress,
    events.IncidentAcknowledged,
)


class ContradictoryTopic(BadInput):
    """The data of topic.partitions_changed contradicts itself or the group's other topics."""


def apply(
    state: GroupState | None,
    event: Event,
    last_heartbeats: Mapping[str, LastHeartbeat] | None = None,
    *,
    most: int = expected.MAX_COMPARED_PARTITIONS,
) -> ApplyResult:
    """Return the group after one event (``state`` itself if the group does not change), and the outputs to write.

    ``last_heartbeats``: by member id. A fence that the timer wrote is ignored if the member has a later heartbeat.
    If None, no fence is ignored. ``most``: rounds with more partitions are not compared with their assignor.
    An event that can't be applied raises BadInput.
    """
    data = event.data
    if isinstance(data, _EVENTS_WITHOUT_EFFECT):
        return state, ()
    if isinstance(data, events.AssignmentAcknowledged):  # frequent, and harmless if repeated: not remembered
        return (state, ()) if state is None or state.reports is None else _apply_report(state, event)
    if isinstance(data, events.MemberFenced) and heartbeats.is_stale(last_heartbeats, data):
        return state, ()
    current = state or GroupState()
    fingerprints = add_fingerprint(current.applied, event.source, event.id)
    if fingerprints is None:
        return state, ()
    after, outputs = _dispatch(current, event, most)
    return None if after is None else structs.replace(after, applied=fingerprints), outputs


def _dispatch(state: GroupState, event: Event, most: int) -> ApplyResult:  # noqa: PLR0911 - one return per event type
    match event.data:
        case events.GroupObserved():
            current = state if state.reports is None else reported.switch_to_observed(state, event.data)
            return _apply_snapshot(current, event, event.data, most)
        case events.GroupDeleted():
            return _apply_deletion(state, event, event.data)
        case events.PartitionsChanged():
            return _apply_partitions(state, event, event.data)
        case events.MemberJoined(acknowledges=True) if not state.observed:
            return _apply_report(state, event)
        case _ if state.reports is not None:
            return _apply_report(state, event)
        case _ if state.observed:
            return observed.add_evidence(state, event), ()
        case events.MemberJoined():
            return _apply_join(state, event, event.data)
        case events.SubscriptionChanged():
            return _apply_subscription(state, event, event.data)
        case events.MemberLeft() | events.MemberFenced():
            return _apply_removal(state, event, event.data)
        case _:
            return state, ()


def _apply_rounds(state: GroupState, event: Event, rounds: Sequence[Round]) -> tuple[GroupState, tuple[Output, ...]]:
    outputs: list[Output] = []
    for next_round in rounds:
        past = state.members
        state, diff, moves = apply_round(state, event.data, next_round)
        outputs.append(DiffOutput(output_id(event, next_round.number), event, next_round, diff, moves, past))
    return state, (*outputs, AssignmentOutput(event, state))


def _apply_snapshot(state: GroupState, event: Event, data: events.GroupObserved, most: int) -> ApplyResult:
    seen = observed.observe(state, data)
    if seen.round is None:
        return seen.state, ((AssignmentOutput(event, seen.state),) if seen.latest else ())
    next_round = seen.round._replace(expected=expected.expected(state, data, most))
    is_assigning = most > 0 and data.group_protocol != "classic" and data.state == "Assigning"
    state = structs.replace(seen.state, assigning=is_assigning) if is_assigning != seen.state.assigning else seen.state
    return _apply_rounds(state, event, [next_round])


def _apply_report(state: GroupState, event: Event) -> ApplyResult:
    after, outputs = reported.add_report(state, event), list[Output]()
    if after.members != state.members:  # a static member rejoined under a new id
        outputs.append(AssignmentOutput(event, after))
    while (ready := reported.next_ready_round(after, event)) is not None:
        after = ready.state
        if ready.round is not None:
            after, outputs_of_round = _apply_rounds(ready.state, ready.event, [ready.round])
            outputs += outputs_of_round
    return (state if after == state else after), tuple(outputs)


def _apply_join(state: GroupState, event: Event, data: events.MemberJoined) -> ApplyResult:
    joining = MemberState.joining(data, state.members[0] if state.members else None)
    present, claims = state.member(data.member_id, data.group_instance_id), dict[str, OwnershipClaim]()
    is_replacement = present is not None and present.member_id != data.member_id
    if present is None or is_replacement:
        claims[data.member_id] = data.owned, data.generation
    if present is not None and is_replacement:
        state = state.rename({present.member_id: joining})
        present = state.member(data.member_id)
    before = {member.member_id: member.owned for member in state.members}
    if present is None:
        before[data.member_id] = subtract_other_owners(data.owned, data.member_id, before) if data.owned else NOTHING
        members = (*state.members, joining)
    else:
        # A field that a repeated join leaves out keeps its value.
        joining = structs.replace(
            joining,
            owned=present.owned,
            client_id=joining.client_id or present.client_id,
            client_host=joining.client_host or present.client_host,
        )
        members = _replace_member(state, present, joining)
        if _has_same_metadata(present, joining):
            state = structs.replace(state, members=members)
            has_same_names = (present.client_id, present.client_host) == (joining.client_id, joining.client_host)
            if not is_replacement and has_same_names:
                return state, ()
            state = structs.replace(state, timestamp=data.timestamp)
            return state, (AssignmentOutput(event, state),)
    cause = Cause(kind="member.joined", member_ids=[data.member_id])
    return _apply_rounds(state, event, rebalance(state, members, cause, before, claims))


def _replace_member(state: GroupState, present: MemberState, changed: MemberState) -> tuple[MemberState, ...]:
    return tuple(changed if member is present else member for member in state.members)


def _has_same_metadata(present: MemberState, joining: MemberState) -> bool:
    """Return whether a rejoin has the same metadata; like the coordinator, ignore timeouts and owned partitions."""
    return (
        present.assignors == joining.assignors
        and present.rack_id == joining.rack_id
        and present.instance_id == joining.instance_id
        and present.group_protocol == joining.group_protocol
        and (present.topics == joining.topics or set(present.topics) == set(joining.topics))
    )


def _apply_subscription(state: GroupState, event: Event, data: events.SubscriptionChanged) -> ApplyResult:
    present = state.member(data.member_id)
    if present is None or set(present.topics) == set(data.topics):
        return state, ()
    members = _replace_member(state, present, structs.replace(present, topics=data.topics))
    return _apply_rounds(state, event, rebalance(state, members, _make_cause(event, [data.member_id], None)))


def _apply_removal(state: GroupState, event: Event, data: events.MemberLeft | events.MemberFenced) -> ApplyResult:
    present = state.member(data.member_id, data.group_instance_id)
    if present is None:
        return state, ()
    members = tuple(member for member in state.members if member is not present)
    return _apply_rounds(state, event, rebalance(state, members, _make_cause(event, [present.member_id], data.reason)))


def _make_cause(event: Event, member_ids: list[str], reason: str | None) -> Cause:
    evidence = [Evidence(source=event.source, reason=reason, member_ids=member_ids, kind=event.type)] if reason else []
    return Cause(kind=event.type, member_ids=member_ids, evidence=evidence)


def _apply_partitions(state: GroupState, event: Event, data: events.PartitionsChanged) -> ApplyResult:
    old = state.topics
    announced = {name: TopicState(topic.partitions, topic.racks, topic.topic_id) for name, topic in data.topics.items()}
    topics, read = old | announced, subscribed(state.members)
    unread_topics = [name for name in topics if name not in read and name not in announced]
    for name in unread_topics[: max(0, len(unread_topics) - MAX_UNREAD_TOPICS)]:
        del topics[name]
    _check_topics(announced, topics)
    state = structs.replace(state, topics=topics, last_owners=existing_last_owners(state.last_owners, topics))
    now = {name: topic.partitions for name, topic in announced.items() if name in read}
    counts = {name: (old[name].partitions if name in old else 0, count) for name, count in now.items()}
    changed = {name: (before, now) for name, (before, now) in counts.items() if before != now}
    if not changed:
        return state, ()
    reason = ", ".join(f"{name}: {before} → {now} partitions" for name, (before, now) in sorted(changed.items()))
    if state.observed:
        # The first known count of a topic is not a change.
        return (observed.add_hint(state, event, reason) if changed.keys() & old.keys() else state), ()
    return _apply_rounds(state, event, rebalance(state, state.members, _make_cause(event, [], reason)))


def _check_topics(announced: Mapping[str, TopicState], topics: Mapping[str, TopicState]) -> None:
    """Raise ContradictoryTopic for topics that an assignor would refuse at every later event of the group."""
    total = sum(topic.partitions for topic in topics.values())
    if total > events.MAX_PARTITIONS:
        raise ContradictoryTopic(
            f"topics: {total} partitions of the group's topics together; at most {events.MAX_PARTITIONS} are followed"
        )
    for name, topic in announced.items():
        if topic.racks is not None and len(topic.racks) != topic.partitions:
            raise ContradictoryTopic(
                f"topics.{name}.racks: {len(topic.racks)} entries for {topic.partitions} partitions; give one list "
                "of racks per partition, [] where unknown"
            )
        if topic.topic_id is None:
            continue
        uuid_bits(topic.topic_id)
        for second in topics:
            if second != name and topics[second].topic_id == topic.topic_id:
                raise ContradictoryTopic(f"topics.{name}.topicId: {topic.topic_id} is also that of {second}")


def _apply_deletion(state: GroupState, event: Event, data: events.GroupDeleted) -> ApplyResult:
    """Revoke all partitions of a deleted group; keep the applied events' fingerprints until the group is forgotten."""
    deleted_assignment = AssignmentOutput(event, None)
    if data.forget:
        # The timer wrote the event from an older state. If members have joined since, the group is kept.
        return (state, ()) if state.members else (None, (deleted_assignment,))
    empty = GroupState(
        observed=state.observed and state.reports is None,
        topics=state.topics,
        applied=state.applied,
        timestamp=data.timestamp,
    )
    if not state.members:
        return empty, (deleted_assignment,)
    before = ownership(state.members)
    cause = structs.replace(_make_cause(event, [], data.reason), member_ids=list(before))
    number = next_generation(state.generation)
    last = Round(1, number, state.protocol, state.assignor, cause, (), before, kind=state.kind)
    _, (diff, _) = _apply_rounds(structs.replace(state, standby={}, warmup={}), event, [last])
    return empty, (diff, deleted_assignment)
