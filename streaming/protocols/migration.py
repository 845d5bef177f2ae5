"""Classic to consumer, online (``group.consumer.migration.policy=bidirectional``, KIP-848).

While all members are classic the group is a classic group. The first consumer member's heartbeat converts it:
the generation becomes the group epoch, each share the member's target and current assignment. Classic members
then speak JoinGroup and SyncGroup to a consumer group. A group that has become consumer stays one here also
when only classic members are left; the broker would convert it back, with the same shares.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from streaming.protocols import classic_state, cooperative
from streaming.protocols.classic import Classic
from streaming.protocols.classic_state import LIVE, Stage
from streaming.protocols.classic_state import Member as ClassicMember
from streaming.protocols.classic_step import in_table
from streaming.protocols.consumer_state import (
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
        group_epoch=classic.generation,
        target_epoch=classic.generation,
        targets=targets,
        held=targets,
        cause=classic.cause,
        incarnations={**classic.incarnations, **step.get("incarnations")},
        places=len(places),
        most=len(places),
    )
    step.watch(silent)
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
