"""The coordinator of the protocols with JoinGroup requests (the classic part of ``GroupMetadataManager``, 4.3.1).

The join phase ends when every known member has sent JoinGroup, or when the rebalance timeout has passed, which removes
only dynamic members. Then the generation is increased, the assignor is chosen by vote, and the sync phase begins. It
ends with the leader's SyncGroup.
"""

from collections.abc import Container, Mapping, Sequence

from msgspec import structs

from assignors.assignment import normalize
from streaming.protocols import vocabulary, vote
from streaming.protocols.classic import step as classic
from streaming.protocols.vocabulary import GONE_STAGES, LIVE, NOTHING, Stage


def join_group(step: classic.ClassicStep, event: classic.JoinGroup) -> None:
    """Handle JoinGroup requests: new dynamic members first get their ids; other members wait or start a rebalance."""
    names = step.waiting(event, (Stage.STARTING, Stage.JOINING))
    step.send("JoinGroup", len(names))
    pending: list[str] = []
    accepted_names: list[str] = []
    taken: set[str] = set()
    for name in names:
        member = step.members[name]
        if member.member_id:
            accepted_names.append(name)
            continue
        taken = taken or {known_member.member_id for known_member in step.members.values()}
        member_id = step.unused_member_id(name, member.incarnation, taken)
        taken.add(member_id)
        needs_id = step.rules.member_id_required and not step.static(member)
        step.update(name, member_id=member_id, pending=needs_id, stage=Stage.JOINING, contact_at=step.at)
        (pending if needs_id else accepted_names).append(name)
    if pending:
        step.later(classic.JoinGroup(step.network(2), step.calls(pending)))
    if accepted_names:
        _accept_joins(step, accepted_names)


def _accept_joins(step: classic.ClassicStep, names: Sequence[str]) -> None:
    new: list[str] = []
    replaced: list[str] = []
    subscribed: list[str] = []
    members, rules = step.members, step.rules
    for name in names:
        member = members[name]
        topics = member.client.topics
        if not member.is_member:
            (new if _static_instance(step, name, member) is None else replaced).append(name)
            member = members[name]
        elif member.subscription != topics and rules.subscribes:
            subscribed.append(name)
        members[name] = structs.replace(
            member,
            stage=Stage.JOINING,
            pending=False,
            joined=True,
            contact_at=step.at,
            subscription=topics,
            assignors=rules.assignors(member),
            claim=member.owned,
            claim_generation=member.generation,
        )
    new_or_replaced_names = [name for name in names if name in new or name in replaced]
    if new_or_replaced_names:
        step.add_to_coordinator(new_or_replaced_names)
    if step.leader_is_gone():
        step.set_fields(leader=(new or list(names))[0])
    if new:
        step.add_reason("member.joined", new)
    if subscribed:
        step.add_reason("member.subscription_changed", subscribed)
    _handle_joins(step, names, new, replaced)


def _static_instance(step: classic.ClassicStep, name: str, member: classic.ClassicMember) -> str | None:
    """Replace the member that has the same instance id, fence its process if it runs, and return its name."""
    if not step.static(member):
        return None
    instance = member.client.instance_id
    for holder, record in step.members.items():
        if not record.is_member or record.client.instance_id != instance or holder == name:
            continue
        step.update(name, assigned=record.assigned, part=record.part)
        step.out.append(vocabulary.Handover(holder, name))
        step.renamed(holder, name)
        if record.stage in (Stage.CRASHED, Stage.AWAY) and vocabulary.process_name(holder) == name:
            del step.members[holder]
            return holder
        step.quiet([holder])
        step.consume({holder: NOTHING})
        del step.members[holder]
        if record.stage in (*LIVE, Stage.FROZEN):
            step.out.append(vocabulary.FatalErrors((holder,)))  # FENCED_INSTANCE_ID
        step.subscriptions()
        return holder
    return None


def _handle_joins(step: classic.ClassicStep, names: Sequence[str], new: Sequence[str], replaced: Sequence[str]) -> None:
    if step.group.phase is classic.ClassicPhase.EMPTY:
        delay, attempt = step.timing.initial_rebalance_delay_ms, step.group.attempt + 1
        step.set_fields(phase=classic.ClassicPhase.PREPARING, attempt=attempt, initial=True, newcomer=len(new) > 1)
        step.set_fields(remaining_ms=max(step.timing.rebalance_timeout_ms - delay, 0))
        step.later(classic.InitialDelayOver(step.at + delay, attempt))
    elif step.group.phase is classic.ClassicPhase.PREPARING:
        if step.group.initial and new:
            step.set_fields(newcomer=True)
        _maybe_complete_join_phase(step)
    elif (
        step.group.phase is classic.ClassicPhase.STABLE
        and len(replaced) == len(names)
        and _select_assignor(step.group_members()) == step.group.assignor
    ):
        # "Static member which joins during Stable stage … will not trigger a rebalance."
        for name in names:
            step.update(name, joined=False, stage=Stage.SYNCING)
        step.later(classic.SyncGroup(step.network(2), step.calls(names)))
    else:
        prepare(step)


def end_initial_delay(step: classic.ClassicStep, event: classic.InitialDelayOver) -> None:
    """Extend a group's initial delay if members joined, at most to the rebalance timeout; else end the join phase."""
    if event.attempt != step.group.attempt or not step.group.initial:
        return
    delay, remaining = step.timing.initial_rebalance_delay_ms, step.group.remaining_ms
    if step.group.newcomer and remaining:
        step.set_fields(newcomer=False, remaining_ms=max(remaining - delay, 0))
        step.later(classic.InitialDelayOver(step.at + min(delay, remaining), event.attempt))
        return
    step.set_fields(initial=False)
    complete(step)


def prepare(step: classic.ClassicStep) -> None:
    """Begin a rebalance (``prepareRebalance``): all members must rejoin; pending SyncGroups are answered at once."""
    step.set_fields(phase=classic.ClassicPhase.PREPARING, attempt=step.group.attempt + 1, initial=False)
    notified_at: dict[str, int] = {}
    network_ms, interval_ms = step.timing.network_ms, step.timing.heartbeat_ms
    for name, member in step.members.items():
        if not member.is_member or member.joined:
            continue
        if member.stage is Stage.SYNCING:
            notified_at[name] = step.network()
        elif member.stage is Stage.STABLE and member.beat_from is not None:
            beat_at = vocabulary.next_heartbeat(member.beat_from, step.at - network_ms, interval_ms)
            notified_at[name] = beat_at + 2 * network_ms + step.timing.busy_ms(name)
    step.schedule_each(classic.RebalanceInProgress, notified_at)
    if not _maybe_complete_join_phase(step):
        _set_timer(step, classic.JoinTimeout)


def _set_timer(step: classic.ClassicStep, timer: type[classic.RebalanceTimer]) -> None:
    step.later(timer(step.at + step.timing.rebalance_timeout_ms, step.group.attempt))


def _maybe_complete_join_phase(step: classic.ClassicStep) -> bool:
    """End the join phase if every member has joined (``maybeCompleteJoinPhase``)."""
    if step.group.phase is not classic.ClassicPhase.PREPARING or step.group.initial:
        return False
    if any((member.is_member and not member.joined) or member.pending for member in step.members.values()):
        return False
    complete(step)
    return True


def join_timeout(step: classic.ClassicStep, event: classic.JoinTimeout) -> None:
    """Remove the dynamic members that did not rejoin in time."""
    if event.attempt == step.group.attempt and step.group.phase is classic.ClassicPhase.PREPARING:
        complete(step)


def complete(step: classic.ClassicStep) -> None:
    """Begin the next generation with the members that have joined (``completeClassicGroupJoin``)."""
    awaited = {name: member for name, member in step.group_members().items() if not member.joined}
    if late := [name for name, member in awaited.items() if not step.static(member)]:
        _remove_members_with_reason(step, late, "member.fenced")
    members = step.group_members()
    if members and not any(member.joined for member in members.values()):
        _set_timer(step, classic.JoinTimeout)
        return
    generation = step.group.generation + 1
    if not members:
        step.set_fields(phase=classic.ClassicPhase.EMPTY, generation=generation, assignor="", leader="")
        notify_rejoin(step)
        return
    leader = step.group.leader
    if leader not in members or not members[leader].joined:
        leader = next(name for name in step.order(members) if members[name].joined)
    phase = classic.ClassicPhase.COMPLETING
    step.set_fields(phase=phase, generation=generation, leader=leader, assignor=_select_assignor(members))
    _answer_joins(step, members)


def _select_assignor(members: Mapping[str, classic.ClassicMember]) -> str:
    return vote.select({name: member.assignors for name, member in members.items()})


def _answer_joins(step: classic.ClassicStep, members: Mapping[str, classic.ClassicMember]) -> None:
    """Answer JoinGroup requests; members then send SyncGroup or, if the coordinator assigns, get their partitions."""
    ready: list[str] = []
    silent: list[str] = []
    for name, member in members.items():
        if not member.joined:
            continue
        alive = member.stage is Stage.JOINING
        (ready if alive else silent).append(name)
        stage = Stage.SYNCING if alive else member.stage
        step.members[name] = structs.replace(member, joined=False, stage=stage, contact_at=step.at)
    step.watch(silent)
    if step.rules.coordinator_assigns:
        assign(step)
        step.reply(ready)
        return
    step.later(classic.SyncGroup(step.network(2), step.calls(ready)))
    _set_timer(step, classic.SyncTimeout)


def sync_group(step: classic.ClassicStep, event: classic.SyncGroup) -> None:
    """Handle SyncGroup requests: each is answered with the member's partitions after the leader's SyncGroup."""
    names = step.waiting(event, (Stage.SYNCING,))
    step.send("SyncGroup", len(names))
    if step.group.phase is classic.ClassicPhase.STABLE:
        step.reply(names)
    elif step.group.phase is classic.ClassicPhase.COMPLETING:
        if step.group.leader not in names:
            for name in names:
                step.update(name, is_synced=True, contact_at=step.at)
            return
        now = set(names)
        waiting = [name for name, member in step.members.items() if member.is_synced or name in now]
        assign(step, now)
        step.reply(waiting)


def sync_timeout(step: classic.ClassicStep, event: classic.SyncTimeout) -> None:
    """Remove members that did not send SyncGroup in time, and start a rebalance (``expirePendingSync``)."""
    is_completing = step.group.phase is classic.ClassicPhase.COMPLETING
    if event.attempt != step.group.attempt or not (is_completing or step.group.phase is classic.ClassicPhase.STABLE):
        return
    silent = {name: member.stage for name, member in step.group_members().items() if not member.is_synced}
    late = [name for name, at in silent.items() if at is Stage.SYNCING or (is_completing and at is not Stage.STABLE)]
    if late:
        _remove_members_with_reason(step, late, "member.fenced")
        prepare(step)


def assign(step: classic.ClassicStep, synced_members: Container[str] = ()) -> None:
    """Assign partitions to every member, also to those without a SyncGroup request; the group becomes stable.

    ``synced_members``: members whose SyncGroup has just arrived.
    """
    members = step.group_members()
    shares = step.rules.assign(step, step.order(members))
    generation = step.group.generation
    for name, member in members.items():
        share = shares.get(name) or NOTHING
        share = member.assigned if share == member.assigned else normalize(share)
        at = step.at if name in synced_members else member.contact_at
        step.members[name] = structs.replace(member, assigned=share, is_synced=False, contact_at=at, part=generation)
    step.set_fields(phase=classic.ClassicPhase.STABLE, topics_at_assignment=step.group.topics)


def leave_group(step: classic.ClassicStep, event: classic.LeaveGroup) -> None:
    """Handle LeaveGroup requests: remove the members that sent them at once."""
    names = step.waiting(event, (Stage.LEAVING,))
    if names:
        _remove_members(step, names, "member.left")


def session_expired(step: classic.ClassicStep, event: classic.SessionExpired) -> None:
    """Remove members that sent no heartbeat during the session timeout."""
    names = step.waiting(event, (Stage.CRASHED, Stage.AWAY, Stage.FROZEN))
    names = [name for name in names if step.members[name].counted]
    if names:
        _remove_members(step, names, "member.fenced")


def _remove_members(step: classic.ClassicStep, names: Sequence[str], kind: str) -> None:
    were_members = any(step.members[name].is_member for name in names)
    _remove_members_with_reason(step, names, kind)
    if were_members and step.group.phase in (classic.ClassicPhase.STABLE, classic.ClassicPhase.COMPLETING):
        prepare(step)
    else:
        _maybe_complete_join_phase(step)  # The join phase no longer waits for the removed members.


def _remove_members_with_reason(step: classic.ClassicStep, names: Sequence[str], kind: str) -> None:
    """Remove members from the group; a process that runs or is frozen finds that out with its next request."""
    gone = [name for name in names if step.members[name].is_member]
    for name in names:
        member = step.members[name]
        if member.stage in GONE_STAGES:
            del step.members[name]
        else:
            step.members[name] = structs.replace(classic.without_membership(member), call=member.call + 1)
    if gone:
        step.add_reason(kind, gone)
    if step.leader_is_gone():
        remaining = step.group_members()
        step.set_fields(leader=step.order(remaining)[0] if remaining else "")


def notify_rejoin(step: classic.ClassicStep) -> None:
    """Output the rebalance round of a generation once the members have received their assignment."""
    generation = step.group.generation
    if generation == step.group.announced:
        return
    # Members that have joined since the generation began belong to the next one.
    after = {name: member.assigned for name, member in step.group_members().items() if member.part == generation}
    reasons = step.group.reasons
    reason = vocabulary.common_reason(reasons, step.group.reason)
    step.set_fields(announced=generation, reasons=(), reason=reason)
    step.out.append(vocabulary.NewRound(generation, bool(reasons), reason, after))
