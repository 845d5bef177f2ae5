"""Classic to consumer, online (``group.consumer.migration.policy=bidirectional``, KIP-848).

While all members are classic the group is a classic group. The first consumer member's heartbeat converts it:
the generation becomes the group epoch, each share the member's target and current assignment. Classic members
then speak JoinGroup and SyncGroup to a consumer group. When its last consumer member leaves or is fenced, the group
is converted back: the group epoch becomes the generation, and everyone joins again. (A static member that comes
back as a classic one in the place of the last consumer member does not convert it here.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from assignors.model import Share
from streaming.protocols import classic_state, cooperative
from streaming.protocols.classic import Classic
from streaming.protocols.classic_coordinator import prepare
from streaming.protocols.classic_state import LIVE, JoinGroup, LeaveGroup, Stage
from streaming.protocols.classic_state import Member as ClassicMember
from streaming.protocols.classic_state import Phase as ClassicPhase
from streaming.protocols.classic_state import State as ClassicState
from streaming.protocols.classic_step import Step as ClassicStep
from streaming.protocols.classic_step import in_table
from streaming.protocols.consumer_state import (
    NEW_EPOCH,
    Answer,
    Expired,
    Goodbye,
    Heartbeat,
    Member,
    MetadataChanged,
    State,
)
from streaming.protocols.consumer_step import Step
from streaming.protocols.reconcile import Current, MemberState
from streaming.protocols.vocabulary import (
    NOTHING,
    Event,
    MemberEvent,
    Output,
    Setup,
    Start,
    TopicsChanged,
    UndefinedTransition,
)

_OWN = (Heartbeat, Answer, Goodbye, Expired, MetadataChanged)


def classic_machine(setup: Setup) -> Classic:
    """What a group of classic members runs: each client's own list decides, ``range`` when it has none."""
    return cooperative.machine(replace(setup, assignor="range"))


def route(inner: Classic, state: State, event: Event) -> tuple[State, tuple[Output, ...]] | None:
    """Hands an event to the classic group that still is one; None when it is the consumer group's."""
    mine = _belongs(state, event)
    if mine is None:
        return None
    if not mine:
        return state, ()  # a timer of the classic group that this one was
    if isinstance(event, TopicsChanged):
        state = structs.replace(state, topics={**state.topics, **event.topics})
    after, outputs = inner.apply(state.classic or inner.initial(state.topics), event)
    return structs.replace(state, classic=after), outputs


def split(state: State, event: Event) -> tuple[Event, Event] | None:
    """An event about members of the classic group and about others as two events; None when it need not be."""
    if state.classic is None or not isinstance(event, MemberEvent):
        return None
    others = tuple(name for name in event.names if name in state.members)
    if not others or len(others) == len(event.names):
        return None
    mine = tuple(name for name in event.names if name not in state.members)
    return replace(event, names=mine), replace(event, names=others)


def _belongs(state: State, event: Event) -> bool | None:
    """Whether an event is the classic group's; None: the consumer group's; False: nobody's any more."""
    if isinstance(event, Start):
        classic = [client for client in event.clients if client.group_protocol == "classic"]
        if not classic or (state.classic is None and state.members):
            return None
        if len(classic) < len(event.clients):
            raise UndefinedTransition("consumer: classic and consumer members can't start in one event")
        return True
    if isinstance(event, _OWN):
        return None
    if isinstance(event, MemberEvent):
        mine = state.classic is not None and not any(name in state.members for name in event.names)
        return True if mine else None
    if state.classic is not None:
        return True
    return False if type(event).__module__ == classic_state.__name__ else None


def upgrade(step: Step, event: Heartbeat) -> None:
    """``convertToConsumerGroup``, when the heartbeat is a consumer member's first."""
    classic = step.get("classic")
    if classic is None or not step.waiting(event, (Stage.STARTING, Stage.JOINING)):
        return
    members = {}
    targets = {}
    silent = []
    known = {name: member for name, member in classic.members.items() if member.known}
    places = {name: place for place, name in enumerate(in_table(known, classic.most), 1)}
    for name, member in classic.members.items():
        if name in step.members or (not member.known and member.stage not in LIVE):
            continue
        members[name] = structs.replace(_member(member, classic.generation, step), place=places.get(name, 0))
        if member.known:
            targets[name] = member.assigned
        if member.stage not in LIVE:
            silent.append(name)
    step.members = {**members, **step.members}
    step.set(
        classic=None,
        # An empty classic group is deleted, and a new group begins (``maybeDeleteEmptyClassicGroup``).
        group_epoch=classic.generation if known else NEW_EPOCH,
        target_epoch=classic.generation if known else 0,
        targets=targets,
        held=targets,
        cause=classic.cause,
        incarnations={**classic.incarnations, **step.get("incarnations")},
        places=len(places),
        most=len(places),
        attempt=classic.attempt,
    )
    step.subscriptions()
    step.watch(silent)
    leaving = [name for name, member in members.items() if member.stage is Stage.LEAVING]
    if leaving:
        step.later(Goodbye(step.network(), step.calls(leaving)))
    joining = [name for name, member in members.items() if member.stage is Stage.STARTING]
    if joining:
        step.later(Heartbeat(step.network(), step.calls(joining), full=True))


def _member(member: ClassicMember, generation: int, step: Step) -> Member:
    """The same member in a consumer group; one in the middle of a join begins again."""
    client = replace(member.client, group_protocol="classic")
    if not member.known:
        return Member(client, call=member.call + 1, incarnation=member.incarnation, owned=member.owned)
    stage = Stage.STABLE if member.stage in LIVE else member.stage
    return Member(
        client,
        stage=stage,
        call=member.call + 1,
        incarnation=member.incarnation,
        member_id=member.member_id,
        owned=member.owned,
        beat_from=member.beat_from if member.beat_from is not None or stage is not Stage.STABLE else step.at,
        known=True,
        heard=max(member.heard, member.beat_from or 0),
        said=member.said,
        current=Current(MemberState.STABLE, generation, member.assigned),
    )


def downgrade(step: Step, kind: str, gone: Sequence[str]) -> bool:
    """``convertToClassicGroup``, when all that are left are classic; they rebalance for those that are ``gone``."""
    left = {name: member for name, member in step.members.items() if member.known}
    if not left or not all(member.classic for member in left.values()):
        return False
    inner = classic_machine(step.setup)
    epoch = step.get("group_epoch")
    members = {
        name: _classic(member, epoch, step.get("targets").get(name, NOTHING))
        for name, member in step.members.items()
        if member.classic and (member.known or member.stage is not Stage.CRASHED)
    }
    topics = step.get("topics")
    before = ClassicState(
        phase=ClassicPhase.STABLE,
        generation=epoch,
        members=members,
        topics=topics,
        assigned_with=topics,
        attempt=step.get("attempt"),
        announced=epoch,
        incarnations=step.get("incarnations"),
        places=step.get("places"),
        most=len(left),
    )
    within = ClassicStep(before, step.at, inner.setup, inner.rules)
    for name, member in members.items():
        if member.known:
            within.members[name] = structs.replace(member, assignors=inner.rules.assignors(member))
    within.set(leader=within.order(within.known())[0])
    within.caused(kind, gone)
    within.watch([name for name, member in members.items() if member.stage not in LIVE])
    starting = [name for name, member in members.items() if member.stage is Stage.STARTING]
    if starting:
        within.later(JoinGroup(step.network(), within.calls(starting)))
    leaving = [name for name, member in members.items() if member.stage is Stage.LEAVING]
    if leaving:
        within.later(LeaveGroup(step.network(), within.calls(leaving)))
    prepare(within)
    within.subscriptions()
    classic, outputs = within.done()
    step.members = {name: member for name, member in step.members.items() if name not in members}
    step.set(
        classic=classic,
        targets={},
        held={},
        first=None,
        second=False,
        outdated=False,
        causes=(),
        target_epoch=epoch,
        wanted=frozenset(),
    )
    step.out.extend(outputs)
    return True


def _classic(member: Member, epoch: int, target: Share) -> ClassicMember:
    """The same member in a classic group; one that the coordinator does not know begins again."""
    if not member.known:
        stage = member.stage if member.stage is Stage.FROZEN else Stage.STARTING
        return ClassicMember(
            member.client,
            stage=stage,
            call=member.call + 1,
            incarnation=member.incarnation,
            owned=member.owned,
        )
    return ClassicMember(
        member.client,
        stage=Stage.STABLE if member.stage in LIVE else member.stage,
        call=member.call + 1,
        incarnation=member.incarnation,
        member_id=member.member_id,
        owned=member.owned,
        generation=member.current.epoch,
        last=member.owned,
        beat_from=member.beat_from,
        known=True,
        heard=max(member.heard, member.beat_from or 0),
        said=member.said,
        claim=member.owned,
        claim_generation=member.current.epoch,
        assigned=target,
        place=member.place,
        part=epoch,
    )
