"""The coordinator of the consumer protocol: epochs, targets, reconciliation (``GroupMetadataManager``, 4.3.1).

The group epoch is bumped by joins, leaves, fences, other subscriptions and other metadata. The target follows
with the next heartbeat, though no sooner than ``group.consumer.assignment.interval.ms`` after the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from assignors import registry
from assignors.model import Member as AssignorMember
from assignors.model import Share
from assignors.shares import common, minus, only, tidy, union
from streaming.protocols import vote
from streaming.protocols.classic_coordinator import own_id
from streaming.protocols.classic_state import LIVE, Stage
from streaming.protocols.consumer_state import (
    AWAY_EPOCH,
    Answer,
    Expired,
    Goodbye,
    Heartbeat,
    Member,
    MetadataChanged,
)
from streaming.protocols.consumer_step import Step
from streaming.protocols.migration import downgrade
from streaming.protocols.reconcile import Current, MemberState, advance, first_round
from streaming.protocols.vocabulary import (
    NOTHING,
    Cause,
    Ended,
    Handover,
    Round,
    next_beat,
)


def heartbeat(step: Step, event: Heartbeat) -> None:
    """Heartbeats: join, report, and be told. One that is no different is not simulated but counted."""
    answered: list[str] = []
    before = step.get("group_epoch"), step.get("outdated")
    for name in step.waiting(event, (Stage.STARTING, Stage.JOINING, Stage.STABLE)):
        member = step.members[name]
        known = member.known
        if known and not event.full:
            step.count([name], step.at - step.timing.network_ms)
        elif not member.classic:
            step.send(1)
        if not known and not _join(step, name):
            continue
        sent = step.at - step.timing.network_ms
        member = step.update(name, heard=step.at, due=False, beat_from=sent, stage=Stage.STABLE)
        if member.classic:
            if event.full or not known or _rejoins(step, member):
                _join_and_sync(step, name, joins=not known)
                answered.append(name)
            continue
        _subscription(step, name, member)
        if _report(step, name, full=event.full or not known, joins=not known):
            answered.append(name)
    _tell(step, [name for name in answered if step.members[name].classic], 5)
    _tell(step, [name for name in answered if not step.members[name].classic], 1)
    settle(step)
    same = before == (step.get("group_epoch"), step.get("outdated"))
    beat_on(step, [name for name, _ in event.calls] if same else None)


def _rejoins(step: Step, member: Member) -> bool:
    """Whether a classic member's heartbeat is answered with REBALANCE_IN_PROGRESS."""
    current = member.current
    if (
        current.epoch < step.get("group_epoch")
        or current.state is MemberState.UNREVOKED
        or step.get("outdated")
    ):
        return True
    if current.state is not MemberState.UNRELEASED:
        return False
    name = member.client.name
    target = only(step.get("targets").get(name, NOTHING), member.said)
    return not common(minus(target, current.assigned), _held_by_others(step, name, target))


def _join_and_sync(step: Step, name: str, *, joins: bool) -> None:
    """A classic member's JoinGroup, with what it still owns, and its SyncGroup."""
    step.send(1, "JoinGroup")
    step.send(1, "SyncGroup")
    member = step.members[name]
    if not cooperates(member) and member.owned:
        step.consume({name: NOTHING})
        member = step.update(name, owned=NOTHING)
    _subscription(step, name, member)
    _report(step, name, full=True, joins=joins)


def _tell(step: Step, names: Sequence[str], ways: int) -> None:
    """Answers arrive, and members act on them when they are done with the records at hand."""
    due: dict[int, list[str]] = {}
    for name in names:
        # A member that has nothing yet has no records at hand.
        busy = step.timing.busy_ms(name) if step.members[name].owned else 0
        due.setdefault(step.network(ways) + busy, []).append(name)
    for at, told in due.items():
        step.later(Answer(at, step.calls(told)))


def cooperates(member: Member) -> bool:
    """Whether a classic member keeps its partitions while it joins."""
    return bool(member.client.assignors) and vote.cooperative(member.client.assignors)


def _join(step: Step, name: str) -> bool:
    """Epoch 0: a new member, or a static one that is back (no new epoch). False: it has to try again."""
    member = step.members[name]
    instance = member.client.instance_id
    taken = {other.member_id for other in step.members.values()}
    member_id = member.member_id or own_id(step.setup, name, member.incarnation, taken)
    if instance is not None:
        for other, record in list(step.members.items()):
            if other == name or not record.known or record.client.instance_id != instance:
                continue
            if record.current.epoch != AWAY_EPOCH:
                # UNRELEASED_INSTANCE_ID ends a client. Where the one before it is gone without a word, whoever
                # runs the process starts it again and again, until that one's session is over.
                if record.stage in LIVE:
                    del step.members[name]
                    step.out.append(Ended((name,)))
                    step.subscriptions()
                    return False
                step.later(Heartbeat(step.at + step.every(member), step.calls([name]), full=True))
                step.update(name, stage=Stage.JOINING)
                return False
            del step.members[other]
            targets, held = dict(step.get("targets")), dict(step.get("held"))
            for known in (targets, held):
                if other in known:
                    known[name] = known.pop(other)
            first = step.get("first")
            if first is not None and other in first:
                step.set(first={name if one == other else one: share for one, share in first.items()})
            step.set(targets=targets, held=held)
            step.out.append(Handover(other, name))
            back = Current(MemberState.STABLE, 0, record.current.assigned)
            step.counted_in(name, member_id=member_id, said=record.said, current=back)
            return True
    step.counted_in(name, member_id=member_id, said=member.client.topics)
    step.caused("member.joined", [name])
    return True


def _subscription(step: Step, name: str, member: Member) -> None:
    if member.said != member.client.topics:
        step.update(name, said=member.client.topics)
        step.caused("member.subscription_changed", [name])
    if step.get("outdated"):
        step.caused("topic.partitions_changed")


def _report(step: Step, name: str, *, full: bool, joins: bool = False) -> bool:
    """Computes the target if it is time, reconciles the member; whether it has something to hear."""
    assign(step, name if joins else None)
    member = step.members[name]
    now = member.current
    target = only(step.get("targets").get(name, NOTHING), member.said)
    wanted_others = _held_by_others(step, name, target)
    after = advance(now, target, step.get("target_epoch"), wanted_others, member.owned if full else None)
    if after is now or after == now:
        return full and now.assigned != member.owned
    if after.assigned is not now.assigned or now.revoking:
        step.held(name, now, after)
    step.update(
        name,
        current=after,
        unrevoked_at=step.at
        if after.state is MemberState.UNREVOKED and now.state is not MemberState.UNREVOKED
        else member.unrevoked_at,
    )
    return after.assigned != now.assigned or after.revoking != now.revoking or full or member.classic


def _held_by_others(step: Step, name: str, target: Share) -> Share:
    """Partitions of ``target`` that other members are assigned or have not given up yet."""
    wanted = minus(target, step.members[name].current.assigned)
    if not wanted:
        return NOTHING
    held = step.holders()
    found = {}
    for topic, partitions in wanted.items():
        known = held.get(topic, {})
        taken = [p for p in partitions if known.get(p, name) != name]
        if taken:
            found[topic] = taken
    return found


def assign(step: Step, joins: str | None = None) -> None:
    """``maybeUpdateTargetAssignment``: a target for the newest group epoch, if the interval allows it."""
    epoch = step.get("group_epoch")
    if step.get("target_epoch") >= epoch:
        return
    last = step.get("target_at")
    if last is not None and step.at < last + step.timing.assignment_interval_ms:
        return
    targets = step.get("targets")
    names: dict[str, str] = {}
    members = []
    for name in step.order(last=joins):
        member = step.members[name]
        names[member.member_id] = name
        members.append(
            AssignorMember(
                member.member_id,
                member.said,
                member.client.instance_id,
                member.client.rack_id,
                targets.get(name, NOTHING),
                step.get("target_epoch"),
            )
        )
    answer = registry.find("consumer", step.setup.assignor).assign(step.get("topics"), members)
    after = {}
    for member_id, share in answer.items():
        before = targets.get(names[member_id])
        # Topics stay in the assignor's order: Java's map of the next assignment is filled in it.
        now = {topic: list(partitions) for topic, partitions in share.items() if partitions}
        after[names[member_id]] = before if before == now else now
    first = first_round(step.get("held"), after, after)
    step.set(targets=after, target_epoch=epoch, target_at=step.at, first=first, second=False)


def settle(step: Step) -> None:
    """A round counts once every member it touches knows it: what moves is given up, then all is given out."""
    first = step.get("first")
    if first is None:
        return
    epoch, targets = step.get("target_epoch"), step.get("targets")
    stable = True
    for name in targets:
        member = step.members.get(name)
        if member is None:
            continue
        if member.current.epoch != epoch:
            if member.stage in LIVE or member.current.assigned != targets[name]:
                return
        elif member.current.state is not MemberState.STABLE:
            stable = False
    if not step.get("second"):
        announce(step, first)
        if first == targets:
            step.set(first=None)
            return
        step.set(second=True)
    if stable:
        announce(step, targets)
        step.set(first=None, second=False)


def announce(step: Step, after: Mapping[str, Share]) -> None:
    """One round, in the words of the events behind it."""
    number = step.get("target_epoch") if after else step.get("group_epoch")
    told: tuple[tuple[int, Cause], ...] = step.get("causes")
    causes = [cause for epoch, cause in told if epoch <= number]
    cause: Cause = step.get("cause")
    if causes:
        kind = causes[0].kind
        names = [name.partition("~")[0] for one in causes if one.kind == kind for name in one.members]
        cause = Cause(kind, tuple(dict.fromkeys(names)))
    known = {name for name, member in step.members.items() if member.known}
    after = {name: share for name, share in after.items() if name in known}
    step.set(causes=tuple(one for one in told if one[0] > number), cause=cause, held=after)
    step.out.append(Round(number, bool(causes), cause, after))


def beat_on(step: Step, names: Iterable[str] | None = None) -> None:
    """Schedules the next heartbeat of each member (of these) that has something to hear or to set off."""
    epoch, outdated = step.get("group_epoch"), step.get("outdated")
    due: dict[int, list[str]] = {}
    network = step.timing.network_ms
    for name in step.members if names is None else names:
        member = step.members.get(name)
        if member is None or member.due or not member.known:
            continue
        if member.stage is not Stage.STABLE or member.beat_from is None:
            continue
        current = member.current
        if outdated or current.epoch != epoch or current.state is not MemberState.STABLE:
            every = step.every(member)
            beat = next_beat(member.beat_from, step.at - network, every)
            if beat + network <= step.at:
                beat += every
            due.setdefault(beat + network, []).append(name)
    for at, beating in due.items():
        for name in beating:
            step.update(name, due=True)
        step.later(Heartbeat(at, step.calls(beating)))


def goodbye(step: Step, event: Goodbye) -> None:
    """Epoch −1: out at once. Epoch −2: a static member keeps its place for its session timeout."""
    names = step.waiting(event, (Stage.LEAVING, Stage.AWAY))
    left = [name for name in names if step.members[name].stage is Stage.LEAVING]
    for name in names:
        if name not in left:
            current = step.members[name].current
            assigned = tidy(union(current.assigned, NOTHING))
            step.update(name, current=Current(MemberState.STABLE, AWAY_EPOCH, assigned), heard=step.at)
            step.watch([name])
    remove(step, left, "member.left")


def expired(step: Step, event: Expired) -> None:
    """Members that fell silent are fenced."""
    remove(step, step.waiting(event, (Stage.CRASHED, Stage.AWAY, Stage.FROZEN)), "member.fenced")


def remove(step: Step, names: Sequence[str], kind: str) -> None:
    """Takes members out; each is one more group epoch. Its target is free for the next assignment."""
    known = [name for name in names if step.members[name].known]
    there = sum(member.known for member in step.members.values())
    step.set(most=max(step.get("most"), there))
    for name in names:
        member = step.members[name]
        if member.stage is Stage.FROZEN:
            step.members[name] = structs.replace(
                member,
                known=False,
                owned=NOTHING,
                current=Current(MemberState.STABLE, 0, NOTHING),
            )
        else:
            del step.members[name]
    if not known or downgrade(step, kind, known):
        return
    for name in known:
        step.caused(kind, [name])
    targets = {name: share for name, share in step.get("targets").items() if name not in known}
    step.set(targets=targets)
    if not any(member.known for member in step.members.values()):
        step.set(targets={}, first=None, second=False, outdated=False)
        announce(step, {})
    elif step.get("first") is not None:
        first = {name: share for name, share in step.get("first").items() if name not in known}
        step.set(first=first)
    beat_on(step)


def metadata_changed(step: Step, event: MetadataChanged) -> None:
    """The next heartbeat of anyone finds out, when somebody subscribes to one of the topics."""
    if any(
        topic in member.said for member in step.members.values() if member.known for topic in event.topics
    ):
        step.set(outdated=True)
        beat_on(step)
