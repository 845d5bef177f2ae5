"""The members of the consumer protocol (``ConsumerMembershipManager``): what processes do."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from assignors.model import Share
from assignors.shares import common
from streaming.protocols.classic_state import Stage
from streaming.protocols.consumer_coordinator import settle
from streaming.protocols.consumer_state import Answer, Goodbye, Heartbeat, Member, MetadataChanged
from streaming.protocols.consumer_step import Step
from streaming.protocols.reconcile import MemberState
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
    """Processes find their coordinator and send a first heartbeat with epoch 0."""
    names = []
    for client in event.clients:
        old = step.members.get(client.name)
        incarnation = step.incarnation(client.name)
        if old is not None and old.known:
            ghost = f"{client.name}~{old.incarnation}"
            step.members[ghost] = old
            targets = dict(step.get("targets"))
            if client.name in targets:
                targets[ghost] = targets.pop(client.name)
            held = dict(step.get("held"))
            if client.name in held:
                held[ghost] = held.pop(client.name)
            step.set(targets=targets, held=held)
            step.out.append(Handover(client.name, ghost))
            if old.stage is Stage.LEAVING:
                step.later(Goodbye(step.network(), step.calls([ghost])))
            else:
                step.watch([ghost])
        step.members.pop(client.name, None)
        step.members[client.name] = Member(client, call=(old.call + 1 if old else 0), incarnation=incarnation)
        names.append(client.name)
    step.send(len(names), "FindCoordinator")
    step.later(Heartbeat(step.network(3), step.calls(names), full=True))
    step.subscriptions()


def leave(step: Step, event: Leave) -> None:
    """Epoch −1."""
    _end(step, event.names, Stage.LEAVING)


def stop(step: Step, event: Stop) -> None:
    """Epoch −2 for static members, −1 for the others."""
    static = tuple(name for name in event.names if step.members[name].client.instance_id)
    _end(step, tuple(name for name in event.names if name not in static), Stage.LEAVING)
    _end(step, static, Stage.AWAY)


def _end(step: Step, names: tuple[str, ...], stage: Stage) -> None:
    step.count(names, step.at)
    step.consume(dict.fromkeys(names, NOTHING))
    said = []
    for name in names:
        member = step.members[name]
        if member.known:
            said.append(name)
            step.update(name, stage=stage, call=member.call + 1, beat_from=None, owned=NOTHING, due=False)
        else:
            del step.members[name]
    if said:
        step.send(len(said))
        step.later(Goodbye(step.network(), step.calls(said)))
    step.subscriptions()


def crash(step: Step, event: Crash) -> None:
    """Processes end without a word."""
    _silent(step, event.names, Stage.CRASHED)


def freeze(step: Step, event: Freeze) -> None:
    """Processes stop for a while; what they own is nobody else's yet."""
    _silent(step, event.names, Stage.FROZEN)


def _silent(step: Step, names: tuple[str, ...], stage: Stage) -> None:
    step.count(names, step.at)
    step.consume(dict.fromkeys(names, NOTHING))
    watched = []
    for name in names:
        member = step.members[name]
        if stage is Stage.CRASHED and not member.known:
            del step.members[name]
            continue
        owned = member.owned if stage is Stage.FROZEN else NOTHING
        step.update(name, stage=stage, call=member.call + 1, owned=owned, due=False)
        watched.append(name)
    step.watch(watched)
    for name in watched:
        step.update(name, beat_from=None, heard=step.last_heard(step.members[name]))
    settle(step)
    step.subscriptions()


def thaw(step: Step, event: Thaw) -> None:
    """Processes go on: in time with a heartbeat, too late with nothing left and epoch 0."""
    for name in event.names:
        member = step.members[name]
        if member.known:
            member = step.update(name, stage=Stage.STABLE, call=member.call + 1, beat_from=step.at)
            step.consume({name: member.owned})
            step.later(Heartbeat(step.network(), step.calls([name]), full=True))
            continue
        step.send(1)  # the heartbeat that is answered with UNKNOWN_MEMBER_ID
        step.members[name] = structs.replace(
            member,
            stage=Stage.STARTING,
            call=member.call + 1,
            owned=NOTHING,  # its id it keeps: the process made it up itself
        )
        step.later(Heartbeat(step.network(3), step.calls([name]), full=True))
    step.subscriptions()


def subscribe(step: Step, event: Subscribe) -> None:
    """The next heartbeat, sent at once, carries the new subscription."""
    for name in event.names:
        member = step.update(name, client=replace(step.members[name].client, topics=event.topics))
        if member.known and member.stage is Stage.STABLE:
            step.count([name], step.at)
            step.update(name, beat_from=step.at)
            step.later(Heartbeat(step.network(), step.calls([name]), full=True))
    step.subscriptions()


def answer(step: Step, event: Answer) -> None:
    """Members give up what they have to, then take what they may, and say so at once."""
    names = step.waiting(event, (Stage.STABLE,))
    shares: dict[str, Share] = {}
    for name in names:
        member = step.members[name]
        share = member.current.assigned
        if member.current.state is MemberState.UNREVOKED:
            share = common(member.owned, share)  # first give up, nothing new before that is known
        if share != member.owned:
            shares[name] = share
            step.count([name], step.at)
            step.update(name, owned=share, beat_from=step.at)
    step.consume(shares)
    # A classic member has nothing to report but that it gave something up. Where the coordinator took back what
    # it had given before anyone heard of that, nothing changes here, and the coordinator still has to be told.
    waited_for = [name for name in names if step.members[name].current.state is MemberState.UNREVOKED]
    changed = [name for name in shares if not step.members[name].classic]
    told = list(dict.fromkeys((*changed, *waited_for)))
    if told:
        step.later(Heartbeat(step.network(), step.calls(told), full=True))


def topics_changed(step: Step, event: TopicsChanged) -> None:
    """The coordinator follows the cluster's metadata by itself."""
    step.set(topics={**step.get("topics"), **event.topics})
    step.later(MetadataChanged(step.network(), tuple(event.topics)))


def coordinator_fails(step: Step, event: CoordinatorFails) -> None:
    """The next coordinator reads everything back; members find it."""
    del event
    step.send(sum(member.stage is Stage.STABLE for member in step.members.values()), "FindCoordinator")
