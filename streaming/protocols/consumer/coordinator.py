"""The coordinator of the consumer protocol: epochs, targets, reconciliation (``GroupMetadataManager``, 4.3.1).

The group epoch is bumped when members join, leave or are fenced, and when subscriptions or metadata change. The next
heartbeat then computes the target, but not before ``group.consumer.assignment.interval.ms`` since the last target.
"""

from collections.abc import Iterable, Sequence

from assignors.assignment import common, select_topics, subtract
from streaming.protocols import vote
from streaming.protocols.consumer import step as consumer
from streaming.protocols.consumer.migration import downgrade, upgrade
from streaming.protocols.vocabulary import LIVE, NOTHING, FatalErrors, Handover, Stage, count_heartbeats, next_heartbeat


def heartbeat(step: consumer.ConsumerStep, event: consumer.Heartbeat) -> None:
    """Handle heartbeats that change the group: members join or report their state, and get answers.

    Heartbeats that change nothing are only counted (:func:`~streaming.protocols.vocabulary.count_heartbeats`).
    """
    upgrade(step, event)
    answered_members: list[str] = []
    sent = step.at - step.timing.network_ms
    before = step.group.group_epoch, step.group.outdated
    for name in step.waiting(event, (Stage.STARTING, Stage.JOINING, Stage.STABLE)):
        member = step.members[name]
        is_member = member.is_member
        if is_member and not event.is_full:
            kind, interval_ms = step.heartbeat(member)
            step.send(kind, count_heartbeats(member.beat_from, sent, interval_ms))
        elif not member.is_classic:
            step.send(consumer.HEARTBEAT)
        if not is_member and not _join(step, name):
            continue
        member = step.update(name, contact_at=step.at, due=False, beat_from=sent, stage=Stage.STABLE)
        if member.is_classic:
            if event.is_full or not is_member or _must_rejoin(step, member):
                _join_and_sync(step, name, joins=not is_member)
                answered_members.append(name)
            continue
        _subscription(step, name, member)
        if _report(step, name, is_full=event.is_full or not is_member, joins=not is_member):
            answered_members.append(name)
    _answer(step, [name for name in answered_members if step.members[name].is_classic], 5)
    _answer(step, [name for name in answered_members if not step.members[name].is_classic], 1)
    step.settle()
    is_unchanged = before == (step.group.group_epoch, step.group.outdated)
    _schedule_heartbeats(step, [name for name, _ in event.calls] if is_unchanged else None)


def _must_rejoin(step: consumer.ConsumerStep, member: consumer.ConsumerMember) -> bool:
    current = member.current
    is_unrevoked = current.state is consumer.Reconciliation.UNREVOKED
    if current.epoch < step.group.group_epoch or is_unrevoked or step.group.outdated:
        return True
    if current.state is not consumer.Reconciliation.UNRELEASED:
        return False
    name = member.client.name
    target = select_topics(step.group.targets.get(name, NOTHING), member.subscription)
    return not common(subtract(target, current.assigned), step.held_by_others(name, target))


def _join_and_sync(step: consumer.ConsumerStep, name: str, *, joins: bool) -> None:
    step.send("JoinGroup")
    step.send("SyncGroup")
    member = step.members[name]
    keeps = bool(member.client.assignors) and vote.cooperative(member.client.assignors)
    if member.owned and not keeps:
        step.consume({name: NOTHING})
        member = step.update(name, owned=NOTHING)
    _subscription(step, name, member)
    _report(step, name, is_full=True, joins=joins)


def _answer(step: consumer.ConsumerStep, names: Sequence[str], ways: int) -> None:
    # A member without partitions has no records to process, so it acts at once.
    busy = {name: step.timing.busy_ms(name) if step.members[name].owned else 0 for name in names}
    step.schedule_each(consumer.HeartbeatAnswered, {name: step.network(ways) + ms for name, ms in busy.items()})


def _join(step: consumer.ConsumerStep, name: str) -> bool:
    """Handle epoch 0 of a new or a rejoining static member (no new group epoch); return False if it is refused."""
    member = step.members[name]
    taken = {holder.member_id for holder in step.members.values()}
    member_id = member.member_id or step.unused_member_id(name, member.incarnation, taken)
    if member.client.instance_id is not None:
        for holder, record in step.group_members().items():
            if holder != name and record.client.instance_id == member.client.instance_id:
                if record.current.epoch != consumer.AWAY_EPOCH:
                    _refuse_join(step, name, record)
                    return False
                del step.members[holder]
                step.renamed(holder, name)
                if (first := step.group.first) is not None:
                    step.set_fields(first={name if key == holder else key: share for key, share in first.items()})
                step.out.append(Handover(holder, name))
                back = consumer.CurrentAssignment(consumer.Reconciliation.STABLE, 0, record.current.assigned)
                step.add_to_coordinator(name, member_id=member_id, subscription=record.subscription, current=back)
                return True
    step.add_to_coordinator(name, member_id=member_id, subscription=member.client.topics)
    step.add_reason("member.joined", [name])
    return True


def _refuse_join(step: consumer.ConsumerStep, name: str, holder: consumer.ConsumerMember) -> None:
    """End the client of a member whose instance id another member still uses (UNRELEASED_INSTANCE_ID).

    If the process with that instance id has crashed, the new process is assumed to be restarted until the old session
    ends.
    """
    if holder.stage in LIVE:
        del step.members[name]
        step.out.append(FatalErrors((name,)))
        step.subscriptions()
        return
    member = step.update(name, stage=Stage.JOINING)
    step.later(consumer.Heartbeat(step.at + step.heartbeat(member)[1], step.calls([name]), is_full=True))


def _subscription(step: consumer.ConsumerStep, name: str, member: consumer.ConsumerMember) -> None:
    if member.subscription != member.client.topics:
        step.update(name, subscription=member.client.topics)
        step.add_reason("member.subscription_changed", [name])
    if step.group.outdated:
        step.add_reason("topic.partitions_changed")


def _report(step: consumer.ConsumerStep, name: str, *, is_full: bool, joins: bool = False) -> bool:
    """Compute the target if it is due, and reconcile the member; return True if the heartbeat's answer has changes."""
    assign(step, name if joins else None)
    member = step.members[name]
    now = member.current
    target = select_topics(step.group.targets.get(name, NOTHING), member.subscription)
    held_elsewhere = step.held_by_others(name, target)
    after = consumer.advance(now, target, step.group.target_epoch, held_elsewhere, member.owned if is_full else None)
    if after is now or after == now:
        return is_full and now.assigned != member.owned
    if after.assigned is not now.assigned or now.revoking:
        step.update_holders(name, now, after)
    unrevoked_state = consumer.Reconciliation.UNREVOKED
    begins_to_revoke = after.state is unrevoked_state and now.state is not unrevoked_state
    step.update(name, current=after, unrevoked_at=step.at if begins_to_revoke else member.unrevoked_at)
    return after.assigned != now.assigned or after.revoking != now.revoking or is_full or member.is_classic


def assign(step: consumer.ConsumerStep, joins: str | None = None) -> None:
    """Compute the target of the newest group epoch if the interval has passed (``maybeUpdateTargetAssignment``)."""
    epoch = step.group.group_epoch
    if step.group.target_epoch >= epoch:
        return
    last = step.group.last_target_ms
    if last is not None and step.at < last + step.timing.assignment_interval_ms:
        return
    targets = step.group.targets
    members = {
        name: step.members[name].as_assignor_input(targets.get(name, NOTHING), step.group.target_epoch)
        for name in step.order(last=joins)
    }
    after = {}
    for name, share in step.shares("consumer", step.setup.assignor, members).items():
        before = targets.get(name)
        # Topics stay in the assignor's order: Java's map of the next assignment is filled in it.
        now = {topic: list(partitions) for topic, partitions in share.items() if partitions}
        after[name] = before if before == now else now
    first = consumer.first_round(step.group.held, after, after)
    step.set_fields(targets=after, target_epoch=epoch, last_target_ms=step.at, first=first, second=False)


def _schedule_heartbeats(step: consumer.ConsumerStep, names: Iterable[str] | None = None) -> None:
    """Schedule the next heartbeats that will change something; ``names``: only those of these members."""
    epoch, outdated = step.group.group_epoch, step.group.outdated
    due: dict[str, int] = {}
    network = step.timing.network_ms
    for name in step.members if names is None else names:
        member = step.members.get(name)
        if member is None or member.due or not member.is_member:
            continue
        if member.stage is not Stage.STABLE or member.beat_from is None:
            continue
        current = member.current
        if outdated or current.epoch != epoch or current.state is not consumer.Reconciliation.STABLE:
            _, interval_ms = step.heartbeat(member)
            beat_at = next_heartbeat(member.beat_from, step.at - network, interval_ms)
            due[name] = beat_at + network if beat_at + network > step.at else beat_at + network + interval_ms
    for name in due:
        step.update(name, due=True)
    step.schedule_each(consumer.Heartbeat, due)


def send_leave_requests(step: consumer.ConsumerStep, event: consumer.Goodbye) -> None:
    """Handle heartbeats with epoch −1 (remove the member) or −2 (keep the static member until its session expires)."""
    names = step.waiting(event, (Stage.LEAVING, Stage.AWAY))
    leaving_members = [name for name in names if step.members[name].stage is Stage.LEAVING]
    for name in names:
        if name not in leaving_members:
            step.away(name)
    remove(step, leaving_members, "member.left")


def fence_expired(step: consumer.ConsumerStep, event: consumer.Expired) -> None:
    """Fence members that sent no heartbeat during the session timeout."""
    remove(step, step.waiting(event, (Stage.CRASHED, Stage.AWAY, Stage.FROZEN)), "member.fenced")


def remove(step: consumer.ConsumerStep, names: Sequence[str], kind: str) -> None:
    """Remove members and bump the group epoch for each of them; their partitions are free for the next target."""
    gone = [name for name in names if step.members[name].is_member]
    # The coordinator's hash table never shrinks, so its largest size is recorded before the first removal.
    step.set_fields(most=max(step.group.most, len(step.group_members())))
    for name in names:
        if step.members[name].stage is Stage.FROZEN:
            step.update(name, is_member=False, owned=NOTHING, current=consumer.NO_ASSIGNMENT)
        else:
            del step.members[name]
    if not gone or downgrade(step, kind, gone):
        return
    for name in gone:
        step.add_reason(kind, [name])
    step.set_fields(targets={name: share for name, share in step.group.targets.items() if name not in gone})
    if not step.group_members():
        step.set_fields(targets={}, first=None, second=False, outdated=False)
        step.announce({})
    elif step.group.first is not None:
        step.set_fields(first={name: share for name, share in step.group.first.items() if name not in gone})
    _schedule_heartbeats(step)


def metadata_changed(step: consumer.ConsumerStep, event: consumer.MetadataChanged) -> None:
    """Record changed topics: the next heartbeat bumps the group epoch if a member subscribes to one of these topics."""
    if any(topic in member.subscription for member in step.group_members().values() for topic in event.topics):
        step.set_fields(outdated=True)
        _schedule_heartbeats(step)
