"""Scenarios: what happens to processes and topics, and when. Types only; :mod:`.parse` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assignors.errors import BadInput
from assignors.model import Topic

Kind = Literal["join", "bounce", "crash", "leave", "subscribe", "pause", "partitions", "coordinator_fails"]


class InvalidScenario(BadInput):
    """The scenario can't be played; the message names the event and the field."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One event of a scenario, ``number`` counted from 1; times in ms since the scenario's start."""

    number: int
    at: int
    kind: Kind
    member: str = ""
    topics: tuple[str, ...] | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    assignors: tuple[str, ...] = ()
    group_protocol: Literal["classic", "consumer"] | None = None
    down_ms: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"event {self.number} ({self.kind}{' ' if self.member else ''}{self.member})"


@dataclass(frozen=True, slots=True)
class StandingMember:
    """A member that is in the group from the start; ``member_id`` None: its name."""

    member: str
    topics: tuple[str, ...] | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    assignors: tuple[str, ...] = ()
    group_protocol: Literal["classic", "consumer"] | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    member_id: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """Topics and members at the start, timeouts of every member, and events in order of time.

    ``generation``: that of the members at the start, or their epoch. ``heartbeat_ms`` and ``processing_ms`` None:
    as the timing model has them.
    """

    topics: Mapping[str, Topic]
    events: tuple[Happening, ...]
    members: tuple[StandingMember, ...] = ()
    generation: int = 1
    heartbeat_ms: int | None = None
    consumer_heartbeat_ms: int | None = None
    processing_ms: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_delay_ms: int = 300_000
    metadata_max_age_ms: int = 0
