"""Transitions as data: ``{(phase, event type): Transition}``; what is not in the table is undefined.

The diagrams in the documentation are generated from the same tables, so they can't say something else than
the machines do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from streaming.protocols.vocabulary import Event, UndefinedTransition

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Transition:
    """The method that handles the event, and the phases it may lead to (checked after every step)."""

    handler: str
    to: tuple[StrEnum, ...]
    #: What the arrow in the diagram says, when the event's name is not enough.
    label: str = ""


Table = Mapping[tuple[StrEnum, type[Event]], Transition]


def rows(
    phases: tuple[StrEnum, ...],
    event: type[Event],
    handler: str,
    to: tuple[StrEnum, ...] = (),
    label: str = "",
) -> dict[tuple[StrEnum, type[Event]], Transition]:
    """The same transition from several phases; without ``to`` the phase stays."""
    return {(phase, event): Transition(handler, to or (phase,), label) for phase in phases}


def look_up(table: Table, protocol: str, phase: StrEnum, event: Event) -> Transition:
    """The transition for this event in this phase.

    Raises:
        UndefinedTransition: there is none.
    """
    found = table.get((phase, type(event)))
    if found is None:
        raise UndefinedTransition(
            f"{protocol}: {type(event).__name__} at {event.at} ms is not defined in state {phase}"
        )
    return found


@dataclass(frozen=True, slots=True)
class Leads(Generic[S]):
    """Guards that a step ends where its table says."""

    phase_of: Callable[[S], StrEnum]

    def check(self, transition: Transition, state: S) -> S:
        """The state again.

        Raises:
            AssertionError: the handler went where the table does not lead: the table or the handler is wrong.
        """
        phase = self.phase_of(state)
        if phase not in transition.to:
            raise AssertionError(f"{transition.handler} led to {phase}, not to one of {transition.to}")
        return state
