"""State that all groups and members have, and transition tables; frozen values, which steps replace."""

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
#: Processes that have ended; what the group still knows of them goes with their session.
GONE = (Stage.CRASHED, Stage.AWAY, Stage.LEAVING)


class MachineMember(Struct, frozen=True, gc=False):
    """A member: what its process does, and what the group knows of it.

    A run makes millions, and no reference cycle goes through them: without garbage collection of them it takes a
    third less time.
    """

    client: Client
    stage: Stage = Stage.STARTING
    #: Counts what the process did; answers to earlier calls are void.
    call: int = 0
    #: How many times the process has begun to become a member.
    incarnation: int = 0
    #: The group counts it in: its coordinator knows it, or its node under ``ids`` exists.
    is_member: bool = False
    #: The subscription that it last sent to the group.
    subscription: tuple[str, ...] = ()
    #: What it consumes.
    owned: TopicPartitions = NOTHING
    member_id: str = ""
    #: When it last began to send heartbeats; None while it sends none (ZooKeeper's sessions count no pings).
    beat_from: int | None = None
    #: When its last request beside heartbeats arrived.
    contact_at: int = 0
    #: How many members the coordinator had counted in when it came: a HashMap keeps those of one bin in this order.
    place: int = 0

    @property
    def counted(self) -> bool:
        """True if anything in the group remains when its process is gone."""
        return self.is_member


class MachineState(Struct, frozen=True):
    """A group. ``members`` go by name; those that the group does not know (yet, or any more) are among them.

    A coordinator's table of members is one of Java's.
    """

    members: Mapping[str, Any] = {}
    topics: Mapping[str, Topic] = {}
    #: Why the last round happened.
    reason: Reason = Reason("member.joined")
    #: The topics that live members subscribe to.
    wanted: frozenset[str] = frozenset()
    #: How many times each process has begun to become a member.
    incarnations: Mapping[str, int] = {}
    #: How many members have been counted in so far, and the most there have been at once: the table never shrinks.
    places: int = 0
    most: int = 0
    #: Counts the rebalances begun; timers of earlier ones are void.
    attempt: int = 0


M = TypeVar("M", bound=MachineMember)
S = TypeVar("S", bound=MachineState)

#: Changes a :class:`streaming.protocols.machine.Step` in place; each protocol's handlers take its own kind of step.
Handler = Callable[[Any, Any], object]


class Transition(NamedTuple):
    """The function that handles the event, and the phases it may lead to (checked after every step)."""

    handler: Handler
    to: tuple[StrEnum, ...]
    #: What the arrow in the diagram says when the event's name is not enough.
    label: str = ""


Table = Mapping[tuple[StrEnum, type[MachineEvent]], Transition]


def rows(
    phases: tuple[StrEnum, ...],
    event: type[MachineEvent],
    handler: Handler,
    to: tuple[StrEnum, ...] = (),
    label: str = "",
) -> dict[tuple[StrEnum, type[MachineEvent]], Transition]:
    """The same transition from several phases; without ``to`` the phase stays."""
    return {(phase, event): Transition(handler, to or (phase,), label) for phase in phases}


def look_up(table: Table, who: str, phase: StrEnum, event: MachineEvent) -> Transition:
    """The transition for this event in this phase; ``who`` is the protocol, or a process under it.

    Raises:
        UndefinedTransition: there is none.
    """
    transition = table.get((phase, type(event)))
    if transition is None:
        raise UndefinedTransition(f"{who}: {type(event).__name__} at {event.at} ms is not defined in state {phase}")
    return transition
