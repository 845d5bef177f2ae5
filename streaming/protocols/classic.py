"""The machine of the JoinGroup protocols: tables, and one step.

Two tables: what the coordinator does by the group's :class:`Phase`, and what a process does by its
:class:`Stage`. Events about processes are looked up a process; all others by the phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assignors.model import Share, Topic
from streaming.protocols import classic_coordinator as coordinator
from streaming.protocols import classic_members as processes
from streaming.protocols.classic_state import (
    LIVE,
    Assigned,
    DelayOver,
    InitialDelayOver,
    JoinGroup,
    JoinTimeout,
    LeaveGroup,
    MetadataSeen,
    Phase,
    SessionExpired,
    Stage,
    State,
    SyncGroup,
    SyncTimeout,
    Told,
)
from streaming.protocols.classic_step import Rules, Step
from streaming.protocols.table import Table, Transition, look_up, rows
from streaming.protocols.vocabulary import (
    CoordinatorFails,
    Crash,
    Event,
    Freeze,
    Leave,
    MemberEvent,
    Output,
    Sent,
    Setup,
    Start,
    Stop,
    Subscribe,
    Thaw,
    TopicsChanged,
    UndefinedTransition,
    beats,
)

_EMPTY, _PREPARING, _COMPLETING, _STABLE = Phase.EMPTY, Phase.PREPARING, Phase.COMPLETING, Phase.STABLE
_ALL = tuple(Phase)

#: The coordinator: ``ClassicGroup`` and ``GroupMetadataManager``.
COORDINATOR: Table = {
    **rows((_EMPTY,), JoinGroup, "join_group", (_EMPTY, _PREPARING)),
    **rows((_PREPARING,), JoinGroup, "join_group", (_PREPARING, _COMPLETING)),
    **rows((_COMPLETING,), JoinGroup, "join_group", (_COMPLETING, _PREPARING), "new or changed member"),
    **rows(
        (_STABLE,), JoinGroup, "join_group", (_STABLE, _PREPARING, _COMPLETING), "new member, leader, changed"
    ),
    **rows((_PREPARING,), InitialDelayOver, "initial_delay_over", (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_EMPTY, _COMPLETING, _STABLE), InitialDelayOver, "initial_delay_over"),
    **rows((_PREPARING,), JoinTimeout, "join_timeout", (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_EMPTY, _COMPLETING, _STABLE), JoinTimeout, "join_timeout"),
    **rows((_COMPLETING,), SyncGroup, "sync_group", (_COMPLETING, _STABLE), "of the leader"),
    **rows((_EMPTY, _PREPARING, _STABLE), SyncGroup, "sync_group"),
    **rows((_COMPLETING, _STABLE), SyncTimeout, "sync_timeout", (_COMPLETING, _STABLE, _PREPARING, _EMPTY)),
    **rows((_EMPTY, _PREPARING), SyncTimeout, "sync_timeout"),
    **rows((_EMPTY,), LeaveGroup, "leave_group"),
    **rows((_PREPARING,), LeaveGroup, "leave_group", (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_COMPLETING, _STABLE), LeaveGroup, "leave_group", _ALL),
    **rows((_EMPTY,), SessionExpired, "session_expired"),
    **rows((_PREPARING,), SessionExpired, "session_expired", (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_COMPLETING, _STABLE), SessionExpired, "session_expired", _ALL),
    **rows(_ALL, Told, "told"),
    **rows(_ALL, Assigned, "assigned"),
    **rows(_ALL, TopicsChanged, "topics_changed"),
    **rows(_ALL, MetadataSeen, "metadata_seen"),
    **rows(_ALL, DelayOver, "delay_over"),
    **rows(_ALL, CoordinatorFails, "coordinator_fails"),
}

#: The first version has no sync phase: the coordinator assigns as soon as everyone has joined.
COORDINATOR_V1: Table = (
    {
        pair: Transition(
            row.handler,
            tuple(dict.fromkeys(_STABLE if to is _COMPLETING else to for to in row.to)),
            row.label,
        )
        for pair, row in COORDINATOR.items()
        if pair[0] is not _COMPLETING and pair[1] not in (SyncGroup, SyncTimeout, DelayOver)
    }
    | rows((_STABLE,), MetadataSeen, "metadata_seen", (_STABLE, _PREPARING))
    | rows((_PREPARING, _STABLE), CoordinatorFails, "coordinator_fails", (_EMPTY, _PREPARING, _STABLE))
)

_JOINING, _SYNCING, _CONSUMING = Stage.JOINING, Stage.SYNCING, Stage.STABLE
_FROZEN, _CRASHED, _AWAY, _LEAVING = Stage.FROZEN, Stage.CRASHED, Stage.AWAY, Stage.LEAVING

#: A process. ``Start`` is defined for one that is not there; ``Gone`` is the end of its record.
PROCESS: Table = {
    **rows((_CRASHED, _AWAY, _LEAVING), Start, "start", (Stage.STARTING,)),
    **rows(LIVE, Leave, "leave", (_LEAVING,)),
    **rows(LIVE, Stop, "stop", (_LEAVING, _AWAY), "static: away"),
    **rows((*LIVE, _FROZEN), Crash, "crash", (_CRASHED,)),
    **rows(LIVE, Freeze, "freeze", (_FROZEN,)),
    **rows((_FROZEN,), Thaw, "thaw", (_CONSUMING, _JOINING, Stage.STARTING)),
    **rows((_CONSUMING,), Subscribe, "subscribe", (_JOINING, _CONSUMING)),
    **rows((Stage.STARTING, _JOINING, _SYNCING), Subscribe, "subscribe"),
}

#: What the internal events do to a process; for the diagrams, the coordinator's table looks them up.
PROCESS_ANSWERS: Table = {
    **rows((Stage.STARTING,), JoinGroup, "join_group", (_JOINING,), "sent"),
    **rows((_CONSUMING, _SYNCING), Told, "told", (_JOINING,), "REBALANCE_IN_PROGRESS"),
    **rows((_JOINING,), SyncGroup, "sync_group", (_SYNCING,), "JoinGroup answered"),
    **rows((_SYNCING,), Assigned, "assigned", (_CONSUMING, _JOINING), "SyncGroup answered"),
}

_HANDLERS: Mapping[str, Callable[[Step, Any], object]] = {
    **{
        name: getattr(coordinator, name)
        for name in {row.handler for row in COORDINATOR.values()}
        if hasattr(coordinator, name)
    },
    **{
        name: getattr(processes, name)
        for name in {row.handler for row in (*COORDINATOR.values(), *PROCESS.values())}
        if hasattr(processes, name)
    },
}


class Classic:
    """One of the JoinGroup protocols: its rules, and the tables they work in."""

    def __init__(self, name: str, setup: Setup, rules: Rules) -> None:
        self.name = name
        self.setup = setup
        self.rules = rules
        self.coordinator = COORDINATOR_V1 if rules.coordinator_assigns else COORDINATOR

    def initial(self, topics: Mapping[str, Topic]) -> State:
        """A group that nobody has joined yet."""
        return State(topics=topics)

    def apply(self, state: State, event: Event) -> tuple[State, tuple[Output, ...]]:
        """The state after ``event``, and what follows from it.

        Raises:
            UndefinedTransition: the protocol defines nothing for this event in this state; nothing changed.
            InconsistentGroupProtocol: the members have no assignor in common.
            InvalidGroup: an assignor refuses the group.
        """
        self._check(state, event)
        if isinstance(event, (MemberEvent, Start)):
            handler = _HANDLERS[PROCESS_HANDLER[type(event)]]
            allowed: tuple[object, ...] = (state.phase,)
        else:
            transition = look_up(self.coordinator, self.name, state.phase, event)
            handler, allowed = _HANDLERS[transition.handler], transition.to
        step = Step(state, event.at, self.setup, self.rules)
        handler(step, event)
        after, outputs = step.done()
        if after.phase not in allowed:
            raise AssertionError(f"{self.name}: {event} led from {state.phase} to {after.phase}")
        return after, outputs

    def _check(self, state: State, event: Event) -> None:
        """Every process that the event names is in a stage that defines it."""
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
        """Whether every live member consumes what the coordinator stored for it."""
        return state.phase in (_STABLE, _EMPTY) and all(
            member.stage is not Stage.STARTING
            and member.stage is not _JOINING
            and member.stage is not _SYNCING
            for member in state.members.values()
        )

    def owned(self, state: State) -> dict[str, Share]:
        """What each process consumes now."""
        return {
            name: member.owned
            for name, member in state.members.items()
            if member.owned and member.stage is not _FROZEN
        }

    def heartbeats(self, state: State, until: int) -> list[Sent]:
        """The heartbeats of members that still beat."""
        every = self.setup.timing.heartbeat_ms
        count = sum(beats(member.beat_from, until, every) for member in state.members.values())
        return [Sent("Heartbeat", count)] if count else []


PROCESS_HANDLER: Mapping[type[Event], str] = {event: row.handler for (_, event), row in PROCESS.items()}
