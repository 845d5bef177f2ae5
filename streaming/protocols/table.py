"""Transitions as data: ``{(phase, event type): Transition}``; what is not in the table is undefined.

The diagrams in the documentation are generated from the same tables, so that they show what the machines do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from streaming.protocols.vocabulary import MachineEvent, UndefinedTransition

#: Changes a :class:`streaming.protocols.step.Step` in place; each protocol's handlers take its own kind of step.
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
    found = table.get((phase, type(event)))
    if found is None:
        raise UndefinedTransition(
            f"{who}: {type(event).__name__} at {event.at} ms is not defined in state {phase}"
        )
    return found
