"""Converts one consumer's callbacks into membership events; uses no client and no clock.

Each consumer has its own event source and counts its event ids, so that readers detect a record that is sent twice.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import uuid4

from msgspec import structs

from streaming.records import events
from streaming.records.events import Event, MemberJoined

#: Ages of an assignment (ms) at which the assignment is published again: when the other members have published their
#: assignments, and when the monitor waits for none of them any longer (:mod:`streaming.monitor.reported`).
REPEAT_REPORT_AFTER_MS: Final = (2_000, 10_000)
#: The longest interval between two heartbeats (ms); at least three heartbeats fit into a session timeout.
HEARTBEAT_MS: Final = 3_000
#: The interval of MemberJoined events (ms), so that a reader of the log's end sees all members.
RENEW_JOIN_AFTER_MS: Final = 3_600_000
#: The generation in events of a member that has revoked its partitions and is in no generation.
NO_GENERATION: Final = -1
LOST_REASON: Final = "partitions lost: the coordinator had removed the member from the group"

#: A partition: its topic and its number.
Place = tuple[str, int]


def join_template(group_id: str, **configuration: Any) -> MemberJoined:
    """Return a MemberJoined event with a consumer's configuration, without member id, topics and time."""
    return MemberJoined(group_id=group_id, timestamp=0, member_id="", topics=[], acknowledges=True, **configuration)


class ClockReading(NamedTuple):
    """The time on both clocks: ``timestamp`` in ms since the epoch, ``tick`` in ms of the monotonic clock."""

    timestamp: int
    tick: int


@dataclass(frozen=True, slots=True)
class _MemberState:
    """The member's last reported state; ``is_between_generations``: it revoked its partitions to rejoin."""

    member_id: str
    generation: int
    owned: frozenset[Place]
    is_between_generations: bool = False


class Membership:
    """One consumer's membership of its group. Each method returns the events to send; any thread may call it.

    ``template``: the consumer's configuration, from :func:`join_template`.
    """

    def __init__(self, template: MemberJoined) -> None:
        self._template = template
        #: True if callbacks have only the added or revoked partitions. If a member may be eager, all members are.
        self._is_incremental = template.group_protocol == "consumer" or {*template.assignors} == {"cooperative-sticky"}
        self._heartbeat_interval_ms = min(HEARTBEAT_MS, (template.session_timeout_ms or 3 * HEARTBEAT_MS) // 3)
        self._source = f"listener/{uuid4().hex}"
        self._count = 0
        self._lock = threading.Lock()
        self._topics: tuple[str, ...] = ()
        self._state: _MemberState | None = None
        self._is_leaving = False
        #: Ticks of the assignment, of the last MemberJoined event, and of the next heartbeat.
        self._assigned_at = self._join_renewed_at = self._next_heartbeat = 0
        #: How often the assignment was published again.
        self._repeat_count = 0

    def subscribed(self, topics: Iterable[str], at: ClockReading) -> list[Event]:
        """Return the events that report the consumer's new subscription; ``topics`` is empty for a pattern."""
        with self._lock:
            before, self._topics = self._topics, tuple(dict.fromkeys(topics))
            self._is_leaving = False
            if self._state is None or set(before) == set(self._topics):
                return []
            return [self._event(events.SubscriptionChanged(**self._member(at), topics=list(self._topics)))]

    def assigned(self, partitions: Iterable[Place], member_id: str, generation: int, at: ClockReading) -> list[Event]:
        """Return events that report an assignment of these partitions (incremental assignors: of the new ones only)."""
        with self._lock:
            state, assigned = self._state, frozenset(partitions)
            owned = state.owned | assigned if state is not None and self._is_incremental else assigned
            return self._set_state(_MemberState(member_id, generation, owned), at, assigned=assigned)

    def revoked(self, partitions: Iterable[Place], generation: int, at: ClockReading) -> list[Event]:
        """Record that the consumer has revoked partitions; return the events that report this."""
        with self._lock:
            state = self._state
            if state is None:
                return []
            revoked = state.owned.intersection(partitions)
            owned = state.owned - revoked
            if self._is_incremental and not self._is_leaving:
                return self._set_state(_MemberState(state.member_id, generation, owned), at, revoked=revoked)
            self._state = replace(state, owned=owned, is_between_generations=True)
            return [self._acknowledged_event(self._state, at, revoked=revoked)]

    def lost(self, at: ClockReading) -> list[Event]:
        """Return the events of a removed member, whose partitions other members may already own."""
        with self._lock:
            if self._state is None:
                return []
            instance_id = self._template.group_instance_id
            fenced = events.MemberFenced(
                **self._member(at), reason=LOST_REASON, group_instance_id=instance_id, acknowledges=True
            )
            self._state = None
            return [self._event(fenced)]

    def leaves(self) -> None:
        """Record that the member is about to leave, so that revoked partitions are not followed by an assignment."""
        with self._lock:
            self._is_leaving = True

    def left(self, reason: str, at: ClockReading) -> list[Event]:
        """Return the events of a leave; a static member has none, as it stays until its session ends."""
        with self._lock:
            if self._state is None:
                return []
            leave_event = events.MemberLeft(**self._member(at), reason=reason, acknowledges=True)
            self._state = None
            return [] if self._template.group_instance_id is not None else [self._event(leave_event)]

    def seen(self, member_id: str, generation: int, at: ClockReading) -> list[Event]:
        """Return the events that report a generation in which the member's partitions stayed the same."""
        with self._lock:
            state = self._state
            if self._is_leaving or (state is not None and state.generation >= generation):
                return []
            owned = frozenset[Place]() if state is None else state.owned
            return self._set_state(_MemberState(member_id, generation, owned), at)

    def due(self, at: ClockReading) -> list[Event]:
        """Return the events that are due: heartbeats, and repeated reports of the current assignment."""
        with self._lock:
            state = self._state
            if state is None:
                return []
            if at.tick - self._join_renewed_at >= RENEW_JOIN_AFTER_MS:
                return self._renew_membership(state, at)
            delays_ms = REPEAT_REPORT_AFTER_MS[self._repeat_count :]
            if delays_ms and not state.is_between_generations and at.tick - self._assigned_at >= delays_ms[0]:
                self._repeat_count += 1
                self._next_heartbeat = at.tick + self._heartbeat_interval_ms
                return [self._acknowledged_event(state, at)]
            if at.tick < self._next_heartbeat:
                return []
            self._next_heartbeat = at.tick + self._heartbeat_interval_ms
            return [self._event(events.MemberHeartbeat(**self._member(at), generation=state.generation))]

    def renewed(self, at: ClockReading) -> list[Event]:
        """Return events that repeat the consumer's current state, because readers may have missed earlier events."""
        with self._lock:
            return [] if self._state is None else self._renew_membership(self._state, at)

    def _renew_membership(self, state: _MemberState, at: ClockReading) -> list[Event]:
        joined = self._joined_event(at)
        return [joined] if state.is_between_generations else [joined, *self._set_state(state, at)]

    def _set_state(self, state: _MemberState, at: ClockReading, **change: Iterable[Place]) -> list[Event]:
        previous, self._state = self._state, state
        self._assigned_at, self._repeat_count, self._next_heartbeat = at.tick, 0, at.tick + self._heartbeat_interval_ms
        has_joined = previous is None or previous.member_id != state.member_id
        return [*([self._joined_event(at)] if has_joined else []), self._acknowledged_event(state, at, **change)]

    def _joined_event(self, at: ClockReading) -> Event:
        self._join_renewed_at = at.tick
        return self._event(structs.replace(self._template, **self._member(at), topics=list(self._topics)))

    def _acknowledged_event(self, state: _MemberState, at: ClockReading, **change: Iterable[Place]) -> Event:
        """Return the event of the current assignment; ``change``: partitions of a callback, such as ``revoked=…``."""
        changed: dict[str, Any] = {name: _partitions_by_topic(partitions) for name, partitions in change.items()}
        return self._event(
            events.AssignmentAcknowledged(
                **self._member(at),
                generation=NO_GENERATION if state.is_between_generations else state.generation,
                owned=_partitions_by_topic(state.owned),
                held_ms=0 if state.is_between_generations else at.tick - self._assigned_at,
                **changed,
            )
        )

    def _member(self, at: ClockReading) -> dict[str, Any]:
        member_id = "" if self._state is None else self._state.member_id
        return {"group_id": self._template.group_id, "timestamp": at.timestamp, "member_id": member_id}

    def _event(self, data: events.EventData) -> Event:
        self._count += 1
        return Event(self._source, str(self._count), data)


def _partitions_by_topic(places: Iterable[Place]) -> events.Partitions:
    by_topic: events.Partitions = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic
