"""The consumer protocol's machine (KIP-848): tables, and one step.

A group whose members are all classic runs the cooperative machine inside; the first consumer member's
heartbeat converts it (:mod:`streaming.protocols.migration`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assignors.model import Share, Topic
from streaming.protocols import consumer_coordinator as coordinator
from streaming.protocols import consumer_members as processes
from streaming.protocols import migration
from streaming.protocols.classic import PROCESS
from streaming.protocols.classic_state import Stage
from streaming.protocols.consumer_state import (
    Answer,
    Expired,
    Goodbye,
    Heartbeat,
    Member,
    MetadataChanged,
    Phase,
    State,
)
from streaming.protocols.consumer_step import Step
from streaming.protocols.reconcile import MemberState
from streaming.protocols.table import Table, look_up, rows
from streaming.protocols.vocabulary import (
    CoordinatorFails,
    Event,
    MemberEvent,
    Output,
    Sent,
    Setup,
    Start,
    TopicsChanged,
    UndefinedTransition,
    beats,
)

_EMPTY, _ASSIGNING, _RECONCILING, _STABLE = Phase.EMPTY, Phase.ASSIGNING, Phase.RECONCILING, Phase.STABLE
_ACTIVE = (_ASSIGNING, _RECONCILING, _STABLE)
_ALL = (_EMPTY, *_ACTIVE)

#: The coordinator: ``ConsumerGroup.ConsumerGroupState``.
COORDINATOR: Table = {
    **rows((_EMPTY,), Heartbeat, "heartbeat", _ALL, "epoch 0: join"),
    **rows((_ASSIGNING,), Heartbeat, "heartbeat", _ACTIVE, "target computed"),
    **rows((_RECONCILING,), Heartbeat, "heartbeat", _ACTIVE, "revoked, released"),
    **rows((_STABLE,), Heartbeat, "heartbeat", _ACTIVE, "join, subscription, metadata"),
    **rows(_ACTIVE, Goodbye, "goodbye", _ALL, "epoch −1"),
    **rows((_EMPTY,), Goodbye, "goodbye"),
    **rows(_ACTIVE, Expired, "expired", _ALL, "fenced"),
    **rows((_EMPTY,), Expired, "expired"),
    **rows(_ALL, Answer, "answer"),
    **rows(_ALL, TopicsChanged, "topics_changed"),
    **rows(_ALL, MetadataChanged, "metadata_changed"),
    **rows(_ALL, CoordinatorFails, "coordinator_fails"),
}

_S, _UNREVOKED, _UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED

#: How a member reconciles (``CurrentAssignmentBuilder``); :func:`streaming.protocols.reconcile.advance` does it.
RECONCILIATION: Table = {
    **rows((_S,), Heartbeat, "advance", (_S, _UNREVOKED, _UNRELEASED), "new target"),
    **rows((_UNREVOKED,), Heartbeat, "advance", (_UNREVOKED, _S, _UNRELEASED), "revoked"),
    **rows((_UNRELEASED,), Heartbeat, "advance", (_UNRELEASED, _S, _UNREVOKED), "released"),
}

_HANDLERS: Mapping[str, Callable[[Step, Any], object]] = {
    row.handler: getattr(coordinator, row.handler, None) or getattr(processes, row.handler)
    for row in (*COORDINATOR.values(), *PROCESS.values())
}


def phase_of(state: State) -> Phase:
    """``ConsumerGroup.maybeUpdateGroupState``."""
    members = state.members.values()
    if not any(member.known for member in members):
        return _EMPTY
    epoch = state.target_epoch
    if state.group_epoch > epoch:
        return _ASSIGNING
    for member in members:
        if member.known and (member.current.epoch != epoch or member.current.state is not MemberState.STABLE):
            return _RECONCILING
    return _STABLE


class Consumer:
    """KIP-848."""

    name = "consumer"

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.inner = migration.classic_machine(setup)

    def initial(self, topics: Mapping[str, Topic]) -> State:
        """A group that nobody has joined yet."""
        return State(topics=topics)

    def apply(self, state: State, event: Event) -> tuple[State, tuple[Output, ...]]:
        """The state after ``event``, and what follows from it.

        Raises:
            UndefinedTransition: the protocol defines nothing for this event in this state; nothing changed.
            InvalidGroup: an assignor refuses the group.
        """
        both = migration.split(state, event)
        if both is not None:
            between, first = self.apply(state, both[0])
            after, second = self.apply(between, both[1])
            return after, first + second
        routed = migration.route(self.inner, state, event)
        if routed is not None:
            return routed
        if isinstance(event, (MemberEvent, Start)):
            self._check(state, event)
            handler = _HANDLERS[_PROCESS_HANDLERS[type(event)]]
        else:
            handler = _HANDLERS[look_up(COORDINATOR, self.name, phase_of(state), event).handler]
        step = Step(state, event.at, self.setup)
        if isinstance(event, Heartbeat):
            migration.upgrade(step, event)
        handler(step, event)
        return step.done()

    def _check(self, state: State, event: Event) -> None:
        if isinstance(event, Start):
            for client in event.clients:
                old = state.members.get(client.name)
                if old is not None:
                    look_up(PROCESS, f"{self.name}: {client.name}", old.stage, event)
        elif isinstance(event, MemberEvent):
            for name in event.names:
                member = state.members.get(name)
                if member is None:
                    raise UndefinedTransition(
                        f"{self.name}: {type(event).__name__} at {event.at} ms: no member {name!r}"
                    )
                look_up(PROCESS, f"{self.name}: {name}", member.stage, event)

    def stable(self, state: State) -> bool:
        """Whether every known member has reached the newest target."""
        if state.classic is not None and not self.inner.stable(state.classic):
            return False
        return (
            phase_of(state) in (_EMPTY, _STABLE)
            and not state.outdated
            and all(member.stage not in (Stage.STARTING, Stage.JOINING) for member in state.members.values())
            and all(_told(member) for member in state.members.values())
        )

    def owned(self, state: State) -> dict[str, Share]:
        """What each process consumes now."""
        owned = {} if state.classic is None else self.inner.owned(state.classic)
        return owned | {
            name: member.owned
            for name, member in state.members.items()
            if member.owned and member.stage is not Stage.FROZEN
        }

    def heartbeats(self, state: State, until: int) -> list[Sent]:
        """The heartbeats of members that still beat."""
        found = [] if state.classic is None else self.inner.heartbeats(state.classic, until)
        for classic, kind in ((False, "ConsumerGroupHeartbeat"), (True, "Heartbeat")):
            timing = self.setup.timing
            every = timing.heartbeat_ms if classic else timing.consumer_heartbeat_ms
            times = sum(
                beats(member.beat_from, until, every)
                for member in state.members.values()
                if member.classic is classic
            )
            if times:
                found.append(Sent(kind, times))
        return found


def _told(member: Member) -> bool:
    return member.stage is not Stage.STABLE or member.owned == member.current.assigned


_PROCESS_HANDLERS: Mapping[type[Event], str] = {event: row.handler for (_, event), row in PROCESS.items()}


def machine(setup: Setup) -> Consumer:
    """The consumer protocol."""
    return Consumer(setup)
