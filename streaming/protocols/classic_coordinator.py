"""The coordinator of the JoinGroup protocols (``GroupMetadataManager``'s classic half, 4.3.1).

Join phase: ends when every known member's JoinGroup is there, or with the rebalance timeout, which removes
dynamic members only. Then generation + 1, the vote, and the sync phase, which ends with the leader's SyncGroup.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from msgspec import structs

from assignors.shares import tidy
from streaming.protocols import vote
from streaming.protocols.classic_state import (
    LIVE,
    InitialDelayOver,
    JoinGroup,
    JoinTimeout,
    LeaveGroup,
    Member,
    Phase,
    SessionExpired,
    Stage,
    SyncGroup,
    SyncTimeout,
    Told,
)
from streaming.protocols.classic_step import Step, forget
from streaming.protocols.vocabulary import NOTHING, Ended, Handover, Round, Setup, next_beat


def join_group(step: Step, event: JoinGroup) -> None:
    """JoinGroup requests: the unknown and dynamic get a member id first, the others wait or start a rebalance."""
    names = step.waiting(event, (Stage.STARTING, Stage.JOINING))
    step.send("JoinGroup", len(names))
    told: list[str] = []
    accepted: list[str] = []
    taken: set[str] = set()
    for name in names:
        member = step.members[name]
        if member.member_id:
            accepted.append(name)
            continue
        taken = taken or {other.member_id for other in step.members.values()}
        member_id = own_id(step.setup, name, member.incarnation, taken)
        taken.add(member_id)
        needs_id = step.rules.member_id_required and not _static(step, member)
        step.members[name] = structs.replace(
            member, member_id=member_id, pending=needs_id, stage=Stage.JOINING, heard=step.at
        )
        (told if needs_id else accepted).append(name)
    if told:
        step.later(JoinGroup(step.network(2), step.calls(told)))
    if accepted:
        _accept(step, accepted)


def own_id(setup: Setup, name: str, incarnation: int, taken: Container[str]) -> str:
    """A member id that nobody else in the group has; a crashed process may still be counted under its own."""
    member_id = setup.member_id(name, incarnation)
    return f"{member_id}~{incarnation}" if member_id in taken else member_id


def _static(step: Step, member: Member) -> bool:
    return step.rules.static and member.client.instance_id is not None


def _accept(step: Step, names: Sequence[str]) -> None:
    new: list[str] = []
    replaced: list[str] = []
    subscribed: list[str] = []
    members, rules = step.members, step.rules
    for name in names:
        member = members[name]
        topics = member.client.topics
        if not member.known:
            (new if _instance(step, name, member) is None else replaced).append(name)
            member = members[name]
        elif member.said != topics and rules.subscribes:
            subscribed.append(name)
        members[name] = structs.replace(
            member,
            stage=Stage.JOINING,
            pending=False,
            joined=True,
            heard=step.at,
            said=topics,
            assignors=rules.assignors(member),
            claim=member.owned,
            claim_generation=member.generation,
        )
    fresh = [name for name in names if name in new or name in replaced]
    if fresh:
        step.counted_in(fresh)
    if step.leader_is_gone():
        step.set(leader=(new or list(names))[0])
    if new:
        step.caused("member.joined", new)
    if subscribed:
        step.caused("member.subscription_changed", subscribed)
    _arrived(step, names, new, replaced)


def _instance(step: Step, name: str, member: Member) -> str | None:
    """Takes over the place of a known member with the same instance id; a live one is fenced by it."""
    if not _static(step, member):
        return None
    instance = member.client.instance_id
    for other, record in step.members.items():
        if not record.known or record.client.instance_id != instance or other == name:
            continue
        step.update(name, assigned=record.assigned, part=record.part)
        step.out.append(Handover(other, name))
        if step.get("leader") == other:
            step.set(leader=name)
        if record.stage in (Stage.CRASHED, Stage.AWAY) and other.startswith(f"{name}~"):
            del step.members[other]
            return other
        step.quiet([other])
        step.consume({other: NOTHING})
        del step.members[other]
        if record.stage in (*LIVE, Stage.FROZEN):
            step.out.append(Ended((other,)))  # FENCED_INSTANCE_ID
        step.subscriptions()
        return other
    return None


def _arrived(step: Step, names: Sequence[str], new: Sequence[str], replaced: Sequence[str]) -> None:
    """What JoinGroup requests set off, by where the group stands."""
    if step.phase is Phase.EMPTY:
        _begin(step, newcomer=len(new) > 1)
    elif step.phase is Phase.PREPARING:
        if step.get("initial") and new:
            step.set(newcomer=True)
        maybe_complete(step)
    elif step.phase is Phase.STABLE and len(replaced) == len(names) and _same_vote(step):
        # "Static member which joins during Stable stage … will not trigger a rebalance."
        for name in names:
            step.update(name, joined=False, stage=Stage.SYNCING)
        step.later(SyncGroup(step.network(2), step.calls(names)))
    else:
        prepare(step)


def _same_vote(step: Step) -> bool:
    lists = {name: member.assignors for name, member in step.known().items()}
    return bool(vote.select(lists) == step.get("assignor"))


def _begin(step: Step, *, newcomer: bool) -> None:
    """The group was empty: more members may come within the initial delay."""
    delay = step.timing.initial_rebalance_delay_ms
    attempt = step.get("attempt") + 1
    step.set(
        phase=Phase.PREPARING,
        attempt=attempt,
        initial=True,
        newcomer=newcomer,
        remaining_ms=max(step.timing.rebalance_timeout_ms - delay, 0),
    )
    step.later(InitialDelayOver(step.at + delay, attempt))


def initial_delay_over(step: Step, event: InitialDelayOver) -> None:
    """``tryCompleteInitialRebalanceElseSchedule``: again while members arrive, up to the rebalance timeout."""
    if event.attempt != step.get("attempt") or not step.get("initial"):
        return
    delay, remaining = step.timing.initial_rebalance_delay_ms, step.get("remaining_ms")
    if step.get("newcomer") and remaining:
        step.set(newcomer=False, remaining_ms=max(remaining - delay, 0))
        step.later(InitialDelayOver(step.at + min(delay, remaining), event.attempt))
        return
    step.set(initial=False)
    complete(step)


def prepare(step: Step) -> None:
    """``prepareRebalance``: everyone has to join again; members in SyncGroup hear of it at once."""
    step.set(phase=Phase.PREPARING, attempt=step.get("attempt") + 1, initial=False)
    told: dict[int, list[str]] = {}
    network, every = step.timing.network_ms, step.timing.heartbeat_ms
    next_beats: dict[int, int] = {}  # members mostly beat in step
    for name, member in step.members.items():
        if not member.known or member.joined:
            continue
        if member.stage is Stage.SYNCING:
            told.setdefault(step.network(), []).append(name)
        elif member.stage is Stage.STABLE and member.beat_from is not None:
            since = member.beat_from
            if since not in next_beats:
                next_beats[since] = next_beat(since, step.at - network, every)
            beat = next_beats[since]
            told.setdefault(beat + 2 * network + step.timing.busy_ms(name), []).append(name)
    for at, names in told.items():
        step.later(Told(at, step.calls(names)))
    if not maybe_complete(step):
        step.later(JoinTimeout(step.at + step.timing.rebalance_timeout_ms, step.get("attempt")))


def maybe_complete(step: Step) -> bool:
    """``maybeCompleteJoinPhase``: ends the join phase when everyone is there."""
    if step.phase is not Phase.PREPARING or step.get("initial"):
        return False
    for member in step.members.values():
        if (member.known and not member.joined) or member.pending:
            return False
    complete(step)
    return True


def join_timeout(step: Step, event: JoinTimeout) -> None:
    """Who did not rejoin in time is out, unless it is static."""
    if event.attempt == step.get("attempt") and step.phase is Phase.PREPARING:
        complete(step)


def complete(step: Step) -> None:
    """``completeClassicGroupJoin``: the next generation, with whom has joined."""
    late = [
        name
        for name, member in step.members.items()
        if member.known and not member.joined and not _static(step, member)
    ]
    if late:
        _drop(step, late, "member.fenced")
    known = step.known()
    if known and not any(member.joined for member in known.values()):
        step.later(JoinTimeout(step.at + step.timing.rebalance_timeout_ms, step.get("attempt")))
        return
    generation = step.get("generation") + 1
    if not known:
        step.set(phase=Phase.EMPTY, generation=generation, assignor=None, leader=None)
        announce(step)
        return
    leader = step.get("leader")
    if leader not in known or not known[leader].joined:
        leader = next(name for name in step.order(known) if known[name].joined)
    assignor = vote.select({name: member.assignors for name, member in known.items()})
    step.set(phase=Phase.COMPLETING, generation=generation, leader=leader, assignor=assignor)
    _answer(step, known)


def _answer(step: Step, known: Mapping[str, Member]) -> None:
    """JoinGroup is answered: members go on to SyncGroup, or have their share already (first version)."""
    ready: list[str] = []
    silent: list[str] = []
    for name, member in known.items():
        if not member.joined:
            continue
        alive = member.stage is Stage.JOINING
        (ready if alive else silent).append(name)
        step.members[name] = structs.replace(
            member, joined=False, stage=Stage.SYNCING if alive else member.stage, heard=step.at
        )
    step.watch(silent)
    if step.rules.coordinator_assigns:
        assign(step)
        step.reply(ready)
        return
    step.later(SyncGroup(step.network(2), step.calls(ready)))
    step.later(SyncTimeout(step.at + step.timing.rebalance_timeout_ms, step.get("attempt")))


def sync_group(step: Step, event: SyncGroup) -> None:
    """SyncGroup requests: they wait for the leader's; then each is answered with its share."""
    names = step.waiting(event, (Stage.SYNCING,))
    step.send("SyncGroup", len(names))
    if step.phase is Phase.STABLE:
        step.reply(names)
    elif step.phase is Phase.COMPLETING:
        if step.get("leader") not in names:
            for name in names:
                step.update(name, synced=True, heard=step.at)
            return
        now = set(names)
        waiting = [name for name, member in step.members.items() if member.synced or name in now]
        assign(step, now)
        step.reply(waiting)


def sync_timeout(step: Step, event: SyncTimeout) -> None:
    """``expirePendingSync``: who never sent SyncGroup is out, and the others begin again."""
    if event.attempt != step.get("attempt") or step.phase not in (Phase.COMPLETING, Phase.STABLE):
        return
    late = [
        name
        for name, member in step.members.items()
        if member.known
        and not member.synced
        and member.stage is not Stage.STABLE
        and (step.phase is Phase.COMPLETING or member.stage is Stage.SYNCING)
    ]
    if late:
        _drop(step, late, "member.fenced")
        prepare(step)


def assign(step: Step, heard: Container[str] = ()) -> None:
    """Every known member gets its share, those away included; the group is stable.

    ``heard``: whose SyncGroup has come now.
    """
    known = step.known()
    shares = step.rules.assign(step, step.order(known))
    generation = step.get("generation")
    for name, member in known.items():
        share = shares.get(name) or NOTHING
        share = member.assigned if share == member.assigned else tidy(share)
        at = step.at if name in heard else member.heard
        step.members[name] = structs.replace(member, assigned=share, synced=False, heard=at, part=generation)
    step.set(phase=Phase.STABLE, assigned_with=step.topics)


def leave_group(step: Step, event: LeaveGroup) -> None:
    """LeaveGroup requests: the members are out at once."""
    names = step.waiting(event, (Stage.LEAVING,))
    if names:
        _remove(step, names, "member.left")


def session_expired(step: Step, event: SessionExpired) -> None:
    """Members that fell silent are out."""
    names = step.waiting(event, (Stage.CRASHED, Stage.AWAY, Stage.FROZEN))
    names = [name for name in names if step.members[name].known or step.members[name].pending]
    if names:
        _remove(step, names, "member.fenced")


def _remove(step: Step, names: Sequence[str], kind: str) -> None:
    counted = [name for name in names if step.members[name].known]
    _drop(step, names, kind)
    if not counted:
        maybe_complete(step)  # only somebody who was told its id is gone: nobody waits for it any more
    elif step.phase in (Phase.STABLE, Phase.COMPLETING):
        prepare(step)
    else:
        maybe_complete(step)


def _drop(step: Step, names: Sequence[str], kind: str) -> None:
    """Takes members out of the group; a process that is gone is forgotten, one that is frozen will hear of it."""
    counted = [name for name in names if step.members[name].known]
    for name in names:
        member = step.members[name]
        if member.stage in (Stage.CRASHED, Stage.AWAY, Stage.LEAVING):
            del step.members[name]
        else:
            step.members[name] = structs.replace(forget(member), owned=NOTHING, call=member.call + 1)
    if counted:
        step.caused(kind, counted)
    if step.leader_is_gone():
        known = step.known()
        step.set(leader=step.order(known)[0] if known else None)


def announce(step: Step) -> None:
    """The members know this generation's assignment: it counts as a round."""
    generation = step.get("generation")
    if generation == step.get("announced"):
        return
    causes = step.get("causes")
    cause = step.get("cause")
    if causes:
        kind = causes[0].kind
        names = [name for one in causes if one.kind == kind for name in one.members]
        cause = type(cause)(kind, tuple(dict.fromkeys(plain(name) for name in names)))
    # Who has joined since is of the next generation.
    after = {
        name: member.assigned
        for name, member in step.members.items()
        if member.known and member.part == generation
    }
    step.set(announced=generation, causes=(), cause=cause)
    step.out.append(Round(generation, bool(causes), cause, after))


def plain(name: str) -> str:
    """The process behind a record: a crashed one that came back has left ``name~1`` behind."""
    return name.partition("~")[0]
