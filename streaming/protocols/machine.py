"""A machine: ``apply`` is pure, and all else reads a group.

Two tables: what a process may do by its :class:`~streaming.protocols.group.Stage`, and what the group does by its
phase. Events about processes are looked up for each of them; all others by the phase.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Generic

from assignors.model import Topic, TopicPartitions
from streaming.protocols.group import M, S, Stage, Table, look_up
from streaming.protocols.step import HANDLERS, LIFE, Step
from streaming.protocols.vocabulary import (
    Held,
    ImpossiblePair,
    MachineEvent,
    MachineOutput,
    MemberEvent,
    Sent,
    Setup,
    Start,
    UndefinedTransition,
)


class Machine(ABC, Generic[S, M]):
    """One protocol."""

    #: The type of its groups.
    group: type[S]

    def __init__(self, name: str, setup: Setup, table: Table) -> None:
        self.name = name
        self.setup = setup
        #: The group's transitions by its phase.
        self.table = table

    def initial(self, topics: Mapping[str, Topic]) -> S:
        """A group that nobody has joined yet."""
        return self.group(topics=topics)

    def resume(self, topics: Mapping[str, Topic], held: Sequence[Held], number: int) -> S:
        """A group at rest at 0 ms: these members consume these shares since this generation, or epoch."""
        del topics, held, number
        raise ImpossiblePair(f"members: {self.name} can't begin with members that own something already")

    @abstractmethod
    def phase_of(self, group: S) -> StrEnum:
        """Return the phase of the group."""

    @abstractmethod
    def step(self, group: S, at: int) -> Step[S, M]:
        """A step that begins with this group."""

    def apply(self, group: S, event: MachineEvent) -> tuple[S, tuple[MachineOutput, ...]]:
        """The group after ``event``, and what follows from it.

        Raises:
            UndefinedTransition: the protocol defines nothing for this event in this state; nothing changed.
            InconsistentGroupProtocol: the members have no assignor in common.
            InvalidGroup: an assignor refuses the group.
            AssertionError: the step led where the table does not: the table or the handler is wrong.
        """
        if isinstance(event, (MemberEvent, Start)):
            return self._process(group, event)
        phase = self.phase_of(group)
        handler, allowed, _ = look_up(self.table, self.name, phase, event)
        step = self.step(group, event.at)
        handler(step, event)
        after, outputs = step.done()
        if self.phase_of(after) not in allowed:
            raise AssertionError(f"{self.name}: {event} led from {phase} to {self.phase_of(after)}")
        return after, outputs

    def _process(self, group: S, event: MemberEvent | Start) -> tuple[S, tuple[MachineOutput, ...]]:
        """The same for processes. Each must be in a stage that defines the event; one may start unknown."""
        names = event.names if isinstance(event, MemberEvent) else [client.name for client in event.clients]
        allowed = {}
        for name in names:
            member = group.members.get(name)
            if member is not None:
                allowed[name] = look_up(LIFE, f"{self.name}: {name}", member.stage, event).to
            elif not isinstance(event, Start):
                raise UndefinedTransition(f"{self.name}: {type(event).__name__} at {event.at} ms: no member {name!r}")
        step = self.step(group, event.at)
        HANDLERS[type(event)](step, event)
        for name, stages in allowed.items():
            member = step.members.get(name)
            if member is not None and member.stage not in stages:
                raise AssertionError(f"{self.name}: {event} led {name} to {member.stage}")
        return step.done()

    @abstractmethod
    def stable(self, group: S) -> bool:
        """True if nothing is under way."""

    def owned(self, group: S) -> dict[str, TopicPartitions]:
        """Return the partitions that each process consumes now."""
        return {
            name: member.owned
            for name, member in group.members.items()
            if member.owned and member.stage is not Stage.FROZEN
        }

    def heartbeats(self, group: S, until: int) -> list[Sent]:
        """Heartbeats that members have sent until ``until``: those that no step has counted yet."""
        step = self.step(group, until)
        step.quiet(step.members)
        return [output for output in step.out if isinstance(output, Sent)]
