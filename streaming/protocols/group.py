"""Base classes of groups' and members' state, as frozen values that steps replace, and transition tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from assignors.model import Topic, TopicPartitions
from streaming.protocols.vocabulary import NOTHING, Client, MachineEvent, Reason, UndefinedTransition


class Stage(StrEnum):
    """Activity of a process."""

    STARTING = "Starting"
    JOINING = "Joining"
    SYNCING = "Syncing"
    STABLE = "Consuming"
    FROZEN = "Frozen"
    CRASHED = "Crashed"
    AWAY = "Away"
    LEAVING = "Leaving"


LIVE = (Stage.STARTING, Stage.JOINING, Stage.SYNCING, Stage.STABLE)
#: Stages of ended processes, whose remaining state in the group is removed with their session.
GONE = (Stage.CRASHED, Stage.AWAY, Stage.LEAVING)


class MachineMember(Struct, frozen=True, gc=False):
    """A member: state of its process, and its state in the group.

    A run creates millions of them, without reference cycles; without garbage collection it takes a third less time.
    """

    client: Client
    stage: Stage = Stage.STARTING
    #: Counts the calls of the process; answers to earlier calls are ignored.
    call: int = 0
    #: How many times the process has begun to join.
    incarnation: int = 0
    #: True if it is a member: its coordinator has it, or its node under ``ids`` exists.
    is_member: bool = False
    #: The subscription that it last sent.
    subscription: tuple[str, ...] = ()
    #: The partitions that it consumes.
    owned: TopicPartitions = NOTHING
    member_id: str = ""
    #: When it last began to send heartbeats; None while it sends none (ZooKeeper's sessions count no pings).
    beat_from: int | None = None
    #: When its last request other than heartbeats arrived.
    contact_at: int = 0
    #: How many members had joined before it: a HashMap keeps the members of one bin in this order.
    place: int = 0

    @property
    def counted(self) -> bool:
        """True if the group keeps state of the member when its process has ended."""
        return self.is_member


class MachineState(Struct, frozen=True):
    """State of a group. ``members``: by name, including processes that are not (or no longer) members.

    The order of a coordinator's members is that of a Java hash table.
    """

    members: Mapping[str, Any] = {}
    topics: Mapping[str, Topic] = {}
    #: Why the last round happened.
    reason: Reason = Reason("member.joined")
    #: The topics that live members subscribe to.
    wanted: frozenset[str] = frozenset()
    #: How many times each process has begun to join.
    incarnations: Mapping[str, int] = {}
    #: How many members have joined so far, and the most at the same time: the table never shrinks.
    places: int = 0
    most: int = 0
    #: Counts the rebalances begun; timers of earlier ones are ignored.
    attempt: int = 0


M = TypeVar("M", bound=MachineMember)
S = TypeVar("S", bound=MachineState)

#: Handler of an event: changes a :class:`streaming.protocols.machine.Step` of its protocol in place.
Handler = Callable[[Any, Any], object]


class Transition(NamedTuple):
    """A handler of an event, and the phases that it may lead to (checked after every step)."""

    handler: Handler
    to: tuple[StrEnum, ...]
    #: Label of the arrow in the diagram, in addition to the event's name.
    label: str = ""


Table = Mapping[tuple[StrEnum, type[MachineEvent]], Transition]


def rows(
    phases: tuple[StrEnum, ...],
    event: type[MachineEvent],
    handler: Handler,
    to: tuple[StrEnum, ...] = (),
    label: str = "",
) -> dict[tuple[StrEnum, type[MachineEvent]], Transition]:
    """Return table rows with the same transition from several phases; without ``to`` the phase stays the same."""
    return {(phase, event): Transition(handler, to or (phase,), label) for phase in phases}


def look_up(table: Table, who: str, phase: StrEnum, event: MachineEvent) -> Transition:
    """Return the transition for an event in a phase; ``who``: the protocol, or a process under it, for the error.

    Raises:
        UndefinedTransition: there is none.
    """
    transition = table.get((phase, type(event)))
    if transition is None:
        raise UndefinedTransition(f"{who}: {type(event).__name__} at {event.at} ms is not defined in state {phase}")
    return transition
