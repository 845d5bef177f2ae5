"""One consumer's membership, from its callbacks to events. No client, no clock.

Ids count up below a source that no other consumer has: a record that is sent twice is known by them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4

from msgspec import UNSET

from streaming.records.events import (
    AssignmentAcknowledged,
    Event,
    EventData,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    MemberLeft,
    Partitions,
    SubscriptionChanged,
)

#: When what a member holds is said again, ms after it got it: by then others that were given something have said
#: so, and later the monitor waits for nobody any longer (:mod:`streaming.monitor.reported`).
REPEAT_AFTER_MS: Final = (2_000, 10_000)
#: The longest pause between two signs of life, ms; three fit into a session.
BEAT_MS: Final = 3_000
#: Within this time, ms, a reader of the log learns who is in the group, wherever it begins.
RENEW_MS: Final = 3_600_000
#: The generation of a member that is between two, or on its way out.
BETWEEN: Final = -1
LOST: Final = "its partitions were lost: the coordinator had taken it out of the group"

#: A partition: its topic and its number.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class About:
    """A consumer's configuration.

    ``incremental``: its callbacks name what is added and taken, not all that it holds.
    """

    group_id: str
    client_id: str | None = None
    client_host: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    protocol: Literal["classic", "consumer"] = "classic"
    assignors: tuple[str, ...] = ()
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    incremental: bool = False


class ClockReading(NamedTuple):
    """When something happens: ``timestamp``, ms since the epoch; ``tick``, ms of a clock that never goes back."""

    timestamp: int
    tick: int


@dataclass(frozen=True, slots=True)
class _MemberState:
    """The member's last reported state; ``between``: it has revoked everything before its next generation."""

    member_id: str
    generation: int
    owned: frozenset[Place]
    between: bool = False


class Membership:
    """One consumer in its group: each method gives the events to send. Any thread may call them."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._source = f"listener/{uuid4().hex}"
        self._count = 0
        self._lock = threading.Lock()
        self._topics: tuple[str, ...] = ()
        self._state: _MemberState | None = None
        self._leaving = False
        #: Ticks: since when it holds what it holds, when it last said who it is, when the next beat is due.
        self._since = self._renewed = self._beat_at = 0
        #: How often it has said again what it holds.
        self._repeated = 0

    def subscribed(self, topics: Iterable[str], at: ClockReading) -> list[Event]:
        """It subscribes to these topics; to none where it names them by a pattern."""
        with self._lock:
            before, self._topics = self._topics, tuple(dict.fromkeys(topics))
            self._leaving = False
            if self._state is None or set(before) == set(self._topics):
                return []
            return [self._event(SubscriptionChanged(**self._member(at), topics=list(self._topics)))]

    def assigned(self, partitions: Iterable[Place], member_id: str, generation: int, at: ClockReading) -> list[Event]:
        """It was given partitions: all that it holds, or what is new where it is incremental."""
        with self._lock:
            known = self._state
            held = known.owned if known is not None and self._about.incremental else frozenset[Place]()
            given = frozenset(partitions)
            return self._stand(_MemberState(member_id, generation, held | given), at, given=given)

    def revoked(self, partitions: Iterable[Place], generation: int, at: ClockReading) -> list[Event]:
        """It has given partitions up."""
        with self._lock:
            known = self._state
            if known is None:
                return []
            given_up = known.owned.intersection(partitions)
            held = known.owned.difference(partitions)
            if self._about.incremental and not self._leaving:
                return self._stand(_MemberState(known.member_id, generation, held), at, given_up=given_up)
            self._state = replace(known, owned=held, between=True)
            return [self._acknowledged(at, given_up=given_up)]

    def lost(self, at: ClockReading) -> list[Event]:
        """The coordinator has taken it out of its group: what it held may be with another already."""
        with self._lock:
            if self._state is None:
                return []
            instance_id = self._about.instance_id
            gone = MemberFenced(**self._member(at), reason=LOST, group_instance_id=instance_id, acknowledges=True)
            self._state = None
            return [self._event(gone)]

    def leaves(self) -> None:
        """It is about to leave: what it gives up from now on, it gives up for good."""
        with self._lock:
            self._leaving = True

    def left(self, reason: str, at: ClockReading) -> list[Event]:
        """It has left. A static member does not: its place is kept until its session ends."""
        with self._lock:
            if self._state is None:
                return []
            gone = MemberLeft(**self._member(at), reason=reason, acknowledges=True)
            self._state = None
            return [] if self._about.instance_id is not None else [self._event(gone)]

    def seen(self, member_id: str, generation: int, at: ClockReading) -> list[Event]:
        """Its client is in this generation: news where no callback tells of one that changes nothing for it."""
        with self._lock:
            known = self._state
            if self._leaving or (known is not None and known.generation >= generation):
                return []
            owned = frozenset[Place]() if known is None else known.owned
            return self._stand(_MemberState(member_id, generation, owned), at)

    def due(self, at: ClockReading) -> list[Event]:
        """Return the events that are due: its assignment again after a while, and heartbeats."""
        with self._lock:
            known = self._state
            if known is None:
                return []
            if at.tick - self._renewed >= RENEW_MS:
                return self._renew(known, at)
            repeats = REPEAT_AFTER_MS[self._repeated :]
            if repeats and not known.between and at.tick - self._since >= repeats[0]:
                self._repeated += 1
                self._beat_at = at.tick + self._pause
                return [self._acknowledged(at)]
            if at.tick < self._beat_at:
                return []
            self._beat_at = at.tick + self._pause
            return [self._event(MemberHeartbeat(**self._member(at), generation=known.generation))]

    def renewed(self, at: ClockReading) -> list[Event]:
        """Its newest state, for those who may have missed what came before."""
        with self._lock:
            return [] if self._state is None else self._renew(self._state, at)

    @property
    def _pause(self) -> int:
        return min(BEAT_MS, self._about.session_timeout_ms // 3)

    def _renew(self, known: _MemberState, at: ClockReading) -> list[Event]:
        joined = self._joined(at)
        return [joined] if known.between else [joined, *self._stand(known, at)]

    def _stand(self, state: _MemberState, at: ClockReading, **change: Iterable[Place]) -> list[Event]:
        known, self._state = self._state, state
        self._since, self._repeated, self._beat_at = at.tick, 0, at.tick + self._pause
        new = known is None or known.member_id != state.member_id
        return [*([self._joined(at)] if new else []), self._acknowledged(at, **change)]

    def _joined(self, at: ClockReading) -> Event:
        about, self._renewed = self._about, at.tick
        return self._event(
            MemberJoined(
                **self._member(at),
                topics=list(self._topics),
                group_instance_id=about.instance_id,
                client_id=about.client_id,
                client_host=about.client_host,
                rack_id=about.rack_id,
                group_protocol=about.protocol,
                assignors=list(about.assignors),
                session_timeout_ms=about.session_timeout_ms,
                rebalance_timeout_ms=about.rebalance_timeout_ms,
                acknowledges=True,
            )
        )

    def _acknowledged(
        self, at: ClockReading, *, given_up: Iterable[Place] | None = None, given: Iterable[Place] | None = None
    ) -> Event:
        """Return its assignment; ``given_up``, ``given``: the callback's partitions, None for another callback."""
        state = self._state
        between = state is None or state.between
        return self._event(
            AssignmentAcknowledged(
                **self._member(at),
                generation=BETWEEN if between or state is None else state.generation,
                owned=_by_topic(() if state is None else state.owned),
                held_ms=0 if between else at.tick - self._since,
                revoked=UNSET if given_up is None else _by_topic(given_up),
                assigned=UNSET if given is None else _by_topic(given),
            )
        )

    def _member(self, at: ClockReading) -> dict[str, Any]:
        member_id = "" if self._state is None else self._state.member_id
        return {"group_id": self._about.group_id, "timestamp": at.timestamp, "member_id": member_id}

    def _event(self, data: EventData) -> Event:
        self._count += 1
        return Event(self._source, str(self._count), data)


def _by_topic(places: Iterable[Place]) -> Partitions:
    found: Partitions = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found
