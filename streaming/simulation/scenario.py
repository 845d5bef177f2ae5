"""Scenario types, and the check that each event is possible for its member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assignors.errors import BadInput
from assignors.model import Topic

Kind = Literal["join", "bounce", "crash", "leave", "subscribe", "pause", "partitions", "coordinator_fails"]


class InvalidScenario(BadInput):
    """The scenario can't be played; the message names the event and the field."""


@dataclass(frozen=True, slots=True)
class ScenarioEvent:
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
class InitialMember:
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
    events: tuple[ScenarioEvent, ...]
    members: tuple[InitialMember, ...] = ()
    generation: int = 1
    heartbeat_ms: int | None = None
    consumer_heartbeat_ms: int | None = None
    processing_ms: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_delay_ms: int = 300_000
    metadata_max_age_ms: int = 0


@dataclass(slots=True)
class _ProcessState:
    """What a process does: ``up``, ``left``, ``crashed``; and until when it is down."""

    state: str
    since: int
    back: int = 0


def check_events(
    events: Sequence[ScenarioEvent], topics: Mapping[str, Topic], there: Iterable[str] = ()
) -> None:
    """Every event is possible where it stands; members of ``there`` are in the group from the start.

    Raises:
        InvalidScenario: time goes backwards, or a member can't do what it is told to.
    """
    lives = {name: _ProcessState("up", 0) for name in there}
    counts = {name: topic.partitions for name, topic in topics.items()}
    now = 0
    for event in events:
        if event.at < now:
            raise InvalidScenario(
                f"{event}: at: {event.at} is before {now} of the event above it; sort them by time"
            )
        now = event.at
        if event.kind == "partitions":
            for name, count in event.partitions.items():
                if count < counts[name]:
                    raise InvalidScenario(
                        f"{event}: partitions.{name}: {count} is fewer than its {counts[name]}; "
                        "Kafka takes no partition away"
                    )
                counts[name] = count
        elif event.member:
            _check_member_event(event, lives)


def _check_member_event(event: ScenarioEvent, lives: dict[str, _ProcessState]) -> None:
    name, kind = event.member, event.kind
    life = lives.get(name)
    if kind == "join":
        if life is not None and life.state == "up":
            raise InvalidScenario(
                f"{event}: join: {name!r} is a member since {life.since} ms; let it leave or crash first"
            )
        lives[name] = _ProcessState("up", event.at)
        return
    if life is None:
        raise InvalidScenario(
            f"{event}: {kind}: {name!r} has not joined; a join with an earlier or equal at is needed"
        )
    if kind == "subscribe" and life.state == "left":
        lives[name] = _ProcessState("up", event.at)  # as a consumer that unsubscribed and subscribes again
        return
    if life.state != "up":
        raise InvalidScenario(
            f"{event}: {kind}: {name!r} {life.state} at {life.since} ms; let it join again first"
        )
    if event.at < life.back and kind not in ("crash", "leave", "subscribe"):
        raise InvalidScenario(f"{event}: {kind}: {name!r} is down until {life.back} ms")
    if kind in ("bounce", "pause"):
        life.back = event.at + event.down_ms
    elif kind in ("crash", "leave"):
        lives[name] = _ProcessState("crashed" if kind == "crash" else "left", event.at)
