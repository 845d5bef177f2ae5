"""Collects the reasons of each generation and epoch from the events of coordinators' logs.

The log has the reasons first and then the generation (or epoch) that results: ``Preparing to rebalance group G in state
S with old generation N (reason: R)`` … ``Stabilized group G generation N+1``; for consumer groups ``[GroupId G] Member
M left the consumer group`` … ``[GroupId G] Bumped group epoch to N``. In share and streams groups a leave or a fence
raises the epoch without a line.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from streaming.collect.broker_log.events import CoordinatorEvent, LogTimestamp, MessageKind, ReasonKind
from streaming.collect.broker_log.messages import METADATA_CHANGED_REASON, SUBSCRIPTION_CHANGED, is_no_answer_reason
from streaming.records.events import COORDINATOR_MOVED, MAX_TIMESTAMP, UNDELIVERED, Evidence, Stop

#: The most groups and the most generations whose evidence waits for the record of the generation.
_MAX_REMEMBERED_PHASES: Final = 50_000
#: The longest time (ms) between a generation's log line and its record. Otherwise the log is old, or the coordinator
#: wrote the generation again because a static member rejoined.
_MAX_TIME_DIFFERENCE_MS: Final = 1_000
#: Reasons for which the coordinator asks all members to rejoin.
_MEMBERSHIP_REASONS: Final = frozenset({ReasonKind.JOINED, ReasonKind.LEFT, ReasonKind.FENCED})
#: Reasons of members that rejoin without a request of the coordinator; only the client has the cause.
_REJOIN_REASONS: Final = frozenset({ReasonKind.REJOINED, ReasonKind.LEADER_REJOINED})
#: Client reasons (KIP-800) of members that leave after they stopped consuming. A member that exceeded
#: max.poll.interval.ms may still process records when it leaves.
_CLOSED_REASONS: Final = ("the consumer is being closed", "the consumer unsubscribed from all topics")


@dataclass(slots=True)
class _JoinPhase:
    """The timestamps of one join phase; a timestamp is None if the log does not have it.

    Consecutive phases count as one if only the last phase led to an assignment; ``prepared_at`` is when the first phase
    began. ``is_rebalance_requested``: the coordinator asked the members to rejoin, as others joined or left.
    ``stopped``: when members rejoined without a request, or left because they were closed.
    """

    prepared_at: LogTimestamp | None = None
    is_rebalance_requested: bool = True
    stabilized_at: LogTimestamp | None = None
    stopped: dict[str, LogTimestamp] = field(default_factory=dict)


class LoggedStops(NamedTuple):
    """Times at which members stopped consuming before a generation.

    ``eager``: bounds for all members of an eager group. ``stopped_before``: by member id, the time (ms) at which a
    member requested the rebalance or left. Before that, it gave up the partitions that its protocol revokes.
    """

    eager: Stop
    stopped_before: dict[str, int]


class JoinPhases:
    """Tracks when classic groups' members joined their last generations, from log events in order.

    ``Preparing to rebalance``: the coordinator asks members to rejoin. ``Stabilized``: all have joined, and eager
    members have revoked all partitions. ``Assignment received``: members receive their assignment and the coordinator
    writes the generation, whose record has the same time as this line, which gives the time zone of the log.
    """

    def __init__(self) -> None:
        self._open_join_phases: OrderedDict[str, _JoinPhase] = OrderedDict()
        self._phases: OrderedDict[tuple[str, int], tuple[_JoinPhase, LogTimestamp]] = OrderedDict()

    def add(self, event: CoordinatorEvent) -> None:
        """Add the next event of the coordinator's log."""
        has_stopped = event.kind is MessageKind.MEMBER_LEFT and (event.client_reason or "").startswith(_CLOSED_REASONS)
        if event.kind is MessageKind.PREPARING:
            phase = self._pop_join_phase(event)
            phase.prepared_at = phase.prepared_at or event.timestamp
            phase.is_rebalance_requested = phase.is_rebalance_requested and event.reason_kind in _MEMBERSHIP_REASONS
            has_stopped = event.reason_kind in _REJOIN_REASONS
        elif event.kind is MessageKind.STABILIZED:
            phase = self._pop_join_phase(event)
            phase.stabilized_at = event.timestamp
            # If the log lacks the first phase's begin, the members may have stopped before a later phase begins.
            phase.is_rebalance_requested = phase.is_rebalance_requested and phase.prepared_at is not None
        elif event.kind is MessageKind.ASSIGNMENT_RECEIVED and event.number is not None:
            complete = self._open_join_phases.pop(event.group_id, None)
            if complete is not None and event.timestamp is not None:
                self._phases[event.group_id, event.number] = complete, event.timestamp
                _drop_oldest(self._phases)
        if has_stopped and event.timestamp is not None:
            stopped = self._pop_join_phase(event).stopped
            for member_id in event.member_ids:
                stopped.setdefault(member_id, event.timestamp)

    def _pop_join_phase(self, event: CoordinatorEvent) -> _JoinPhase:
        phase = self._open_join_phases.setdefault(event.group_id, _JoinPhase())
        _drop_oldest(self._open_join_phases)
        return phase

    def stops(self, group_id: str, number: int, timestamp: int) -> LoggedStops | None:
        """Return the times at which members stopped consuming before a generation; None if unknown."""
        entry = self._phases.get((group_id, number))
        if entry is None:
            return None
        phase, assigned = entry
        zone = assigned.zone_offset_ms(timestamp)
        if abs(timestamp - assigned.ms - zone) >= _MAX_TIME_DIFFERENCE_MS + assigned.precision_ms:
            return None
        del self._phases[group_id, number]  # a second record of this generation has no join phase
        eager = Stop(
            stopped_after=_time_bound(phase.prepared_at if phase.is_rebalance_requested else None, zone),
            stopped_before=_time_bound(phase.stabilized_at, zone, end=True),
        )
        bounds = {member_id: _time_bound(at, zone, end=True) for member_id, at in phase.stopped.items()}
        return LoggedStops(eager, {member_id: at for member_id, at in bounds.items() if at is not UNSET})


def _drop_oldest(entries: OrderedDict[Any, Any]) -> None:
    if len(entries) > _MAX_REMEMBERED_PHASES:
        entries.popitem(last=False)


def _time_bound(timestamp: LogTimestamp | None, zone: int, *, end: bool = False) -> int | UnsetType:
    """Return the earliest possible time (ms) of a timestamp in the coordinator's log; ``end``: the latest."""
    if timestamp is None:
        return UNSET
    ms = timestamp.ms + zone + (timestamp.precision_ms - 1 if end else 0)
    return ms if 0 <= ms <= MAX_TIMESTAMP else UNSET


LOG_SOURCE: Final = "coordinator-log"
#: The most reasons kept between two generations of a group.
_MAX_PENDING_EVIDENCE: Final = 1000
#: The longest time (ms) from a coordinator move to a rebalance that may result from the move: two default session
#: timeouts.
COORDINATOR_MOVE_MS: Final = 90_000
_JOIN_TYPE, _LEAVE_TYPE, _FENCE_TYPE = "member.joined", "member.left", "member.fenced"
_CAUSE_BY_MESSAGE: Final = {
    MessageKind.MEMBER_JOINED: _JOIN_TYPE,
    MessageKind.MEMBER_LEFT: _LEAVE_TYPE,
    MessageKind.MEMBER_FENCED: _FENCE_TYPE,
    MessageKind.SUBSCRIPTION_CHANGED: "member.subscription_changed",
}
_DEPARTURE_MESSAGES: Final = frozenset({MessageKind.MEMBER_LEFT, MessageKind.MEMBER_FENCED})
_REASON_KINDS: Final = {ReasonKind.JOINED: _JOIN_TYPE, ReasonKind.LEFT: _LEAVE_TYPE, ReasonKind.FENCED: _FENCE_TYPE}
_MESSAGES_WITH_NUMBER: Final = frozenset({MessageKind.STABILIZED, MessageKind.GROUP_EMPTY, MessageKind.EPOCH_BUMPED})


@dataclass(slots=True)
class _Group:
    """State of one group between two generations, as the coordinator's log shows it.

    Attributes:
        pending: evidence for the next generation.
        logged: the number of ``pending`` when the coordinator last prepared a rebalance.
        prepared_at: the generation that ended when the rebalance was prepared; None if no rebalance is in progress.
        last: the group's newest generation or epoch.
        has_moved: another broker has become coordinator since the last generation.
        coordinator_moved_at: when the coordinator moved, according to the log.
        is_silent: the coordinator does not log the new epoch after a leave (share, streams).
        away: static members that left temporarily (KIP-848).
    """

    pending: list[Evidence] = field(default_factory=list)
    logged: int = 0
    prepared_at: int | None = None
    last: int | None = None
    has_moved: bool = False
    coordinator_moved_at: LogTimestamp | None = None
    is_silent: bool = False
    away: set[str] = field(default_factory=set)


class GroupReasons:
    """Collects the reasons of groups' last generations and epochs, from one log's events in order."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._evidence_by_round: OrderedDict[tuple[str, int], list[Evidence]] = OrderedDict()
        self.phases = JoinPhases()

    def add(self, event: CoordinatorEvent) -> None:
        """Apply the next event of the coordinator's log to the reasons of the event's group."""
        self.phases.add(event)
        if event.kind is MessageKind.GROUP_DEAD:
            self._groups.pop(event.group_id, None)
            return
        group = self._groups.setdefault(event.group_id, _Group())
        self._groups.move_to_end(event.group_id)
        _drop_oldest(self._groups)
        if event.kind is MessageKind.PREPARING:
            self._begin_rebalance(group, event)
        elif event.kind in (MessageKind.GROUP_LOADED, MessageKind.GROUP_UNLOADED):
            # The move discards the members' pending requests.
            group.pending.clear()
            group.prepared_at, group.has_moved, group.coordinator_moved_at = None, True, event.timestamp
        elif event.kind in _MESSAGES_WITH_NUMBER:
            self._begin_round(group, event)
        elif event.kind in (MessageKind.UPGRADED, MessageKind.DOWNGRADED):
            _add_evidence(group.pending, _make_evidence(event.reason))
        elif event.kind is MessageKind.STATIC_MEMBER_AWAY:
            group.away.update(event.member_ids)
        elif event.kind is MessageKind.STATIC_REPLACED:
            group.away.difference_update(event.member_ids)
        elif event.kind in _CAUSE_BY_MESSAGE:
            self._add_member(group, event)

    def evidence(self, group_id: str, number: int, after: int | None = None) -> list[Evidence]:
        """Return the evidence of a generation or epoch, and of the (at most 100) skipped ones since ``after``."""
        evidence = list(self._evidence_by_round.get((group_id, number), ()))
        skipped_numbers = range(max(after + 1, number - 100), number) if after is not None else ()
        for earlier in reversed(skipped_numbers):
            items = self._evidence_by_round.get((group_id, earlier), ())
            evidence = [item for item in items if item not in evidence] + evidence
        return evidence

    def pending(self, group_id: str) -> list[Evidence]:
        """Return the evidence logged so far for the group's next generation or epoch."""
        return self._groups[group_id].pending if group_id in self._groups else []

    def _begin_rebalance(self, group: _Group, event: CoordinatorEvent) -> None:
        old = event.number if event.number is not None else -1
        if group.prepared_at is not None and group.prepared_at != old:
            # The log lacks the line of a generation in between, to which the earlier reasons belong.
            del group.pending[: group.logged]
        _record_move(group, event)
        if event.reason:
            _add_evidence(group.pending, _rebalance_evidence(event, has_moved=group.has_moved))
        group.prepared_at, group.logged = old, len(group.pending)
        # Store the reasons now, because the new generation's record may arrive before its log line.
        self._keep_evidence(event.group_id, old + 1, group.pending)

    def _begin_round(self, group: _Group, event: CoordinatorEvent) -> None:
        if event.kind is MessageKind.EPOCH_BUMPED:
            _record_move(group, event)
        group.has_moved, group.coordinator_moved_at = False, None
        group.is_silent = group.is_silent or event.protocol == "streams"
        group.last = event.number
        self._assign_pending_evidence(group, event.group_id)

    def _add_member(self, group: _Group, event: CoordinatorEvent) -> None:
        # A classic member of a KIP-848 group rejoins each time.
        is_rejoin = event.kind is MessageKind.MEMBER_JOINED and event.protocol == "classic" and not event.instance_id
        item = _make_evidence(event.reason, event.member_ids, None if is_rejoin else _CAUSE_BY_MESSAGE[event.kind])
        if event.kind is MessageKind.MEMBER_FENCED and group.away.intersection(event.member_ids):
            item = _make_evidence(f"temporarily left the group, {event.reason}", event.member_ids, _LEAVE_TYPE)
        if event.late and group.prepared_at is None and group.last is not None:
            # The generation's line precedes this line.
            evidence = [*self._evidence_by_round.get((event.group_id, group.last), ())]
            _add_evidence(evidence, item)
            self._keep_evidence(event.group_id, group.last, evidence)
            return
        _add_evidence(group.pending, item)
        group.is_silent = group.is_silent or event.protocol in ("share", "streams")
        if group.is_silent and event.kind in _DEPARTURE_MESSAGES and group.last is not None:
            group.last += 1
            self._assign_pending_evidence(group, event.group_id)

    def _assign_pending_evidence(self, group: _Group, group_id: str) -> None:
        if group.pending and group.last is not None:
            self._keep_evidence(group_id, group.last, group.pending)
        group.pending, group.logged, group.prepared_at = [], 0, None

    def _keep_evidence(self, group_id: str, number: int, items: list[Evidence]) -> None:
        if items:
            self._evidence_by_round[group_id, number] = [*items]
            self._evidence_by_round.move_to_end((group_id, number))
            _drop_oldest(self._evidence_by_round)


def _record_move(group: _Group, event: CoordinatorEvent) -> None:
    """Add evidence if the coordinator moved shortly before a rebalance.

    A coordinator that loads a group starts each member's session timeout again. Members that don't find the new
    coordinator in time lose their sessions together.
    """
    if not group.has_moved or group.coordinator_moved_at is None or event.timestamp is None:
        return
    elapsed_ms = event.timestamp.ms - group.coordinator_moved_at.ms
    if 0 <= elapsed_ms <= COORDINATOR_MOVE_MS and not any(item.kind == COORDINATOR_MOVED for item in group.pending):
        reason = f"the group's coordinator moved {elapsed_ms / 1000:.0f} s before"
        group.pending.append(_make_evidence(reason, (), COORDINATOR_MOVED))


def _add_evidence(evidence: list[Evidence], item: Evidence) -> None:
    """Add evidence unless earlier evidence has the same content.

    Kafka logs a fence in two lines, of which the second has Kafka's reason and is stored. It also logs a leave in two
    lines, of which the first has the client's reason and is stored.
    """
    if item in evidence:
        return
    for index, earlier in enumerate(evidence):
        if item.kind is not None and (earlier.kind, earlier.member_ids) == (item.kind, item.member_ids):
            if item.kind == _FENCE_TYPE:
                evidence[index] = item
            return
    explained = {member_id for earlier in evidence if earlier.kind == item.kind for member_id in earlier.member_ids}
    if item.kind is None or not item.member_ids or not explained.issuperset(item.member_ids):
        evidence.append(item)
        del evidence[:-_MAX_PENDING_EVIDENCE]


def _rebalance_evidence(event: CoordinatorEvent, *, has_moved: bool) -> Evidence:
    if event.reason_kind is ReasonKind.ASSIGNMENT_STORE_FAILED and event.number is not None:
        reason = f"generation {event.number} was not delivered: {event.reason}"
        return Evidence(source=LOG_SOURCE, reason=reason, kind=UNDELIVERED, generation=event.number)
    if has_moved and is_no_answer_reason(event.client_reason):
        return _make_evidence(event.reason, (), COORDINATOR_MOVED)
    kind = None if event.reason_kind is None else _REASON_KINDS.get(event.reason_kind)
    client_reason = event.client_reason or ""
    if event.reason_kind is ReasonKind.LEADER_REJOINED and client_reason.startswith(METADATA_CHANGED_REASON):
        kind = "topic.partitions_changed"
    elif event.reason_kind in _REJOIN_REASONS and client_reason.startswith(SUBSCRIPTION_CHANGED):
        kind = "member.subscription_changed"
    return _make_evidence(event.reason, event.member_ids, kind)


def _make_evidence(reason: str, member_ids: tuple[str, ...] = (), kind: str | None = None) -> Evidence:
    return Evidence(source=LOG_SOURCE, reason=reason, member_ids=[*filter(None, member_ids)], kind=kind)
