"""The members of the JoinGroup protocols (``AbstractCoordinator``, ``ConsumerCoordinator``): what processes do."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from assignors.model import Share
from streaming.protocols.classic_coordinator import announce, prepare
from streaming.protocols.classic_state import (
    LIVE,
    Assigned,
    DelayOver,
    JoinGroup,
    LeaveGroup,
    Member,
    MetadataSeen,
    Phase,
    Stage,
    Told,
)
from streaming.protocols.classic_step import Step, forget
from streaming.protocols.vocabulary import (
    NOTHING,
    CoordinatorFails,
    Crash,
    Freeze,
    Handover,
    Leave,
    Start,
    Stop,
    Subscribe,
    Thaw,
    TopicsChanged,
)


def start(step: Step, event: Start) -> None:
    """Processes find their coordinator, then send JoinGroup without a member id."""
    names = []
    for client in event.clients:
        old = step.members.get(client.name)
        incarnation = step.incarnation(client.name)
        if old is not None and (old.known or old.pending):
            # The coordinator goes on counting the one that is gone, under its old member id.
            ghost = f"{client.name}~{old.incarnation}"
            step.members[ghost] = old
            if old.known:
                step.out.append(Handover(client.name, ghost))
            if step.get("leader") == client.name:
                step.set(leader=ghost)
            if old.stage is Stage.LEAVING:
                step.later(LeaveGroup(step.network(), step.calls([ghost])))
            else:
                step.watch([ghost])
        # Last in the order of joining, as a new process is.
        step.members.pop(client.name, None)
        step.members[client.name] = Member(client, call=(old.call + 1 if old else 0), incarnation=incarnation)
        names.append(client.name)
    step.send("FindCoordinator", len(names))
    step.later(JoinGroup(step.network(3), step.calls(names)))
    step.subscriptions()


def leave(step: Step, event: Leave | Stop) -> None:
    """Processes stop what they do and say so; one that was no member yet just goes."""
    step.quiet(event.names)
    step.consume(dict.fromkeys(event.names, NOTHING))
    said = []
    for name in event.names:
        member = step.members[name]
        if member.member_id:
            said.append(name)
            step.update(name, stage=Stage.LEAVING, call=member.call + 1, beat_from=None, owned=NOTHING)
        else:
            del step.members[name]
    if said:
        step.send("LeaveGroup", len(said))
        step.later(LeaveGroup(step.network(), step.calls(said)))
    step.subscriptions()


def stop(step: Step, event: Stop) -> None:
    """Processes shut down to come back: dynamic members leave, static ones are just away (KIP-345)."""
    static = [name for name in event.names if step.rules.static and step.members[name].client.instance_id]
    dynamic = tuple(name for name in event.names if name not in static)
    if dynamic:
        leave(step, Leave(step.at, dynamic))
    _silent(step, static, Stage.AWAY)


def crash(step: Step, event: Crash) -> None:
    """Processes end without a word."""
    _silent(step, event.names, Stage.CRASHED)


def freeze(step: Step, event: Freeze) -> None:
    """Processes stop for a while; what they own is nobody else's yet."""
    _silent(step, event.names, Stage.FROZEN)


def _silent(step: Step, names: tuple[str, ...] | list[str], stage: Stage) -> None:
    if not names:
        return
    step.quiet(names)
    step.consume(dict.fromkeys(names, NOTHING))
    watched = []
    for name in names:
        member = step.members[name]
        if stage is not Stage.FROZEN and not member.known and not member.pending:
            del step.members[name]
            continue
        owned = member.owned if stage is Stage.FROZEN else NOTHING
        step.update(name, stage=stage, call=member.call + 1, owned=owned)
        watched.append(name)
    step.watch(watched)
    for name in watched:
        step.update(name, beat_from=None, heard=step.last_heard(step.members[name]))
    step.subscriptions()


def thaw(step: Step, event: Thaw) -> None:
    """Processes go on: in time, as if nothing had been; too late, they have lost everything and join anew."""
    for name in event.names:
        member = step.update(name, call=step.members[name].call + 1)
        if not member.known:
            step.send("Heartbeat" if member.generation >= 0 else "FindCoordinator", 1)
            step.members[name] = structs.replace(
                forget(member),
                stage=Stage.STARTING,
                owned=NOTHING,
                generation=-1,
                incarnation=step.incarnation(name),
            )
            step.later(JoinGroup(step.network(3), step.calls([name])))
        elif member.joined:
            step.update(name, stage=Stage.JOINING)
        elif step.phase is Phase.STABLE and member.generation == step.get("generation"):
            step.update(name, stage=Stage.STABLE, beat_from=step.at, heard=step.at)
            step.consume({name: member.owned})
            step.later(MetadataSeen(step.network()))  # what changed while it did not look
        else:
            step.join([name])
    step.subscriptions()


def subscribe(step: Step, event: Subscribe) -> None:
    """Other topics: a member joins again with them, at once or when its rebalance is over."""
    for name in event.names:
        member = step.members[name]
        step.update(name, client=replace(member.client, topics=event.topics))
    step.subscriptions()
    if step.rules.subscribes:
        step.join(
            name
            for name in event.names
            if step.members[name].stage is Stage.STABLE
            and step.members[name].said != step.members[name].client.topics
        )


def topics_changed(step: Step, event: TopicsChanged) -> None:
    """Topics have other partition counts; clients see that when their metadata are refreshed."""
    step.topics = {**step.topics, **event.topics}
    step.subscriptions()
    step.later(MetadataSeen(step.at + step.timing.metadata_age_ms))


def metadata_seen(step: Step, event: MetadataSeen) -> None:
    """Metadata are not those of the assignment: the leader joins again; in version 1 the coordinator acts."""
    del event
    if step.rules.coordinator_assigns:
        if step.phase is Phase.STABLE and _changed(step):
            step.caused("topic.partitions_changed")
            prepare(step)
        return
    leader = step.members.get(step.get("leader") or "")
    if leader is None or leader.stage is not Stage.STABLE or not _outdated(step):
        return
    if _changed(step):
        step.caused("topic.partitions_changed")
    step.set(snapshot=None)
    step.join([leader.client.name])


def _outdated(step: Step) -> bool:
    """Whether the leader's metadata, once refreshed, differ from those that it assigned with."""
    snapshot = step.get("snapshot")
    return _changed(step) or (snapshot is not None and snapshot != _subscribed(step))


def _subscribed(step: Step) -> frozenset[str]:
    return frozenset(topic for member in step.members.values() if member.known for topic in member.said)


def _changed(step: Step) -> bool:
    """Whether topics that members subscribe to have changed since the assignment."""
    then, now = step.get("assigned_with"), step.topics
    if then is now:
        return False
    topics = _subscribed(step) if step.rules.subscribes else {*then, *now}
    return any(then.get(topic) != now.get(topic) for topic in topics)


def told(step: Step, event: Told) -> None:
    """Members join again: a heartbeat or a SyncGroup was answered with REBALANCE_IN_PROGRESS."""
    names = step.waiting(event, (Stage.STABLE, Stage.SYNCING))
    step.join(name for name in names if step.members[name].known)


def assigned(step: Step, event: Assigned) -> None:
    """Members learn their shares: they stop what moved, start what is new, and join again if the rules say so."""
    names = step.waiting(event, (Stage.SYNCING,))
    if event.generation != step.get("generation"):
        return  # a later generation is on its way; these members hear of it
    again: list[str] = []
    shares: dict[str, Share] = {}
    for name in names:
        member = step.members[name]
        share, owned = member.assigned, member.owned
        if step.rules.rejoins(member, share) or (
            step.rules.subscribes and member.said != member.client.topics
        ):
            again.append(name)
        if share is not owned:
            shares[name] = share
        step.members[name] = structs.replace(
            member,
            stage=Stage.STABLE,
            owned=share,
            last=share,
            generation=event.generation,
            beat_from=step.at,
            heard=step.at,
        )
    step.consume(shares)
    if names:
        announce(step)
    if step.get("leader") in names and _outdated(step):
        step.later(MetadataSeen(step.at + step.timing.metadata_age_ms))
    if again and step.phase is not Phase.EMPTY:
        step.join(again)


def delay_over(step: Step, event: DelayOver) -> None:
    """A scheduled rebalance (Connect): every worker joins again."""
    if event.generation == step.get("generation"):
        step.join(name for name, member in step.members.items() if member.stage is Stage.STABLE)


def coordinator_fails(step: Step, event: CoordinatorFails) -> None:
    """The next coordinator reads the group back; in the first version it knows nobody, and all join again."""
    del event
    live = [name for name, member in step.members.items() if member.stage in LIVE]
    step.send("FindCoordinator", len(live))
    if not step.rules.coordinator_assigns or not live:
        return
    step.quiet(live)
    step.consume(dict.fromkeys(live, NOTHING))
    for name, member in list(step.members.items()):
        if name in live:
            step.members[name] = structs.replace(
                forget(member),
                stage=Stage.STARTING,
                call=member.call + 1,
                beat_from=None,
                owned=NOTHING,
                generation=-1,
                incarnation=step.incarnation(name),
            )
        elif member.stage is Stage.FROZEN:
            step.members[name] = structs.replace(forget(member), owned=NOTHING, call=member.call + 1)
        else:
            del step.members[name]
    step.set(phase=Phase.EMPTY, leader=None, initial=False, attempt=step.get("attempt") + 1)
    step.later(JoinGroup(step.network(3), step.calls(live)))
