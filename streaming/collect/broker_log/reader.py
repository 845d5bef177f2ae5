"""Why generations began: the events of group coordinators, group by group. No file, no clock.

Reasons come first, the generation (or epoch) they lead to afterwards: ``Preparing to rebalance group G in state
S with old generation N (reason: R)`` … ``Stabilized group G generation N+1``; for consumer groups ``[GroupId G]
Member M left the consumer group`` … ``[GroupId G] Bumped group epoch to N``.

In share and streams groups a leave or a fence raises the epoch by one without a line that says so.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from streaming.collect.broker_log.events import CoordinatorEvent, Kind, Moment, ReasonKind
from streaming.collect.broker_log.join_phases import JoinPhases
from streaming.collect.broker_log.rebalance_reasons import (
    is_metadata_change,
    is_subscription_change,
    is_unanswered,
)
from streaming.wire.events import COORDINATOR_MOVED, UNDELIVERED, Evidence

SOURCE: Final = "coordinator-log"
#: Groups, and generations, that are remembered: evidence stays until the record of its generation is read.
_REMEMBERED: Final = 50_000
#: Reasons between two generations of one group that are kept.
_PENDING: Final = 1000
#: Generations in a row that nobody saw and whose reasons count for the next one.
_SKIPPED: Final = 100

#: A rebalance within so long of a move of the coordinator may follow from it: twice the default session timeout.
_MOVE_MS: Final = 90_000

_JOINED, _LEFT, _FENCED = "member.joined", "member.left", "member.fenced"
_MEMBER_KINDS: Final = {Kind.MEMBER_JOINED: _JOINED, Kind.MEMBER_LEFT: _LEFT, Kind.MEMBER_FENCED: _FENCED}
_REASON_KINDS: Final = {ReasonKind.JOINED: _JOINED, ReasonKind.LEFT: _LEFT, ReasonKind.FENCED: _FENCED}
#: Members that join again by themselves: their client's reason is the only one.
_REJOINS: Final = frozenset({ReasonKind.REJOINED, ReasonKind.LEADER_REJOINED})
_NUMBERED: Final = frozenset({Kind.STABILIZED, Kind.GROUP_EMPTY, Kind.EPOCH_BUMPED})


@dataclass(slots=True)
class _Group:
    """What is known of a group between two of its generations.

    Attributes:
        pending: evidence for the generation to come.
        told: how much of it had been logged when the coordinator began to prepare the generation ``prepared`` + 1.
        prepared: the generation that ended then; None: no rebalance is under way.
        last: the newest generation or epoch that was logged.
        has_moved: another broker has become its coordinator since.
        moved_at: when, by the log.
        is_silent: a member's end raises the epoch without a line (share, streams).
    """

    pending: list[Evidence] = field(default_factory=list)
    told: int = 0
    prepared: int | None = None
    last: int | None = None
    has_moved: bool = False
    moved_at: Moment | None = None
    is_silent: bool = False


class GroupReasons:
    """Remembers why each generation began. Add the events of a log in order."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._evidence: OrderedDict[tuple[str, int], list[Evidence]] = OrderedDict()
        self.phases = JoinPhases()

    def add(self, event: CoordinatorEvent) -> None:
        """Take note of an event."""
        self.phases.add(event)
        if event.kind is Kind.GROUP_DEAD:
            self._groups.pop(event.group_id, None)
            return
        group = self._group(event.group_id)
        if event.kind is Kind.PREPARING:
            self._prepare(group, event)
        elif event.kind in (Kind.GROUP_LOADED, Kind.GROUP_UNLOADED):
            # What members were about to do when the coordinator moved is void.
            group.pending.clear()
            group.prepared, group.has_moved, group.moved_at = None, True, event.moment
        elif event.kind in _NUMBERED:
            self._begin(group, event)
        elif event.kind in (Kind.UPGRADED, Kind.DOWNGRADED):
            _note(group.pending, _evidence(event.reason))
        elif event.kind in _MEMBER_KINDS:
            self._add_member(group, event)

    def evidence(self, group_id: str, number: int, after: int | None = None) -> list[Evidence]:
        """Return the reasons that led to a generation or epoch, from the one ``after`` on."""
        found = list(self._evidence.get((group_id, number), ()))
        skipped = range(max(after + 1, number - _SKIPPED), number) if after is not None else ()
        for earlier in reversed(skipped):
            known = self._evidence.get((group_id, earlier), ())
            found = [item for item in known if item not in found] + found
        return found

    def generations(self) -> list[tuple[str, int]]:
        """Return the groups and generations for which there is evidence, in the order of the log."""
        return list(self._evidence)

    def _group(self, group_id: str) -> _Group:
        group = self._groups.setdefault(group_id, _Group())
        self._groups.move_to_end(group_id)
        if len(self._groups) > _REMEMBERED:
            self._groups.popitem(last=False)
        return group

    def _prepare(self, group: _Group, event: CoordinatorEvent) -> None:
        old = event.number if event.number is not None else -1
        if group.prepared is not None and group.prepared != old:
            # The line of the generation in between is missing. What was logged before it did not lead to this one.
            del group.pending[: group.told]
        _note_move(group, event)
        if event.reason:
            _note(group.pending, _rebalance_evidence(event, has_moved=group.has_moved))
        group.prepared, group.told = old, len(group.pending)
        # At once as well: the line of the new generation may be out of our sight, the record may not.
        self._keep(event.group_id, old + 1, group.pending)

    def _begin(self, group: _Group, event: CoordinatorEvent) -> None:
        if event.kind is Kind.EPOCH_BUMPED:
            _note_move(group, event)
        group.has_moved, group.moved_at = False, None
        group.is_silent = group.is_silent or event.protocol == "streams"
        group.last = event.number
        self._bind(group, event.group_id)

    def _add_member(self, group: _Group, event: CoordinatorEvent) -> None:
        item = _member_evidence(event)
        if event.late and group.prepared is None and group.last is not None:
            # The generation that the leave led to was logged before it.
            known = [*self._evidence.get((event.group_id, group.last), ())]
            _note(known, item)
            self._keep(event.group_id, group.last, known)
            return
        _note(group.pending, item)
        group.is_silent = group.is_silent or event.protocol in ("share", "streams")
        if group.is_silent and event.kind is not Kind.MEMBER_JOINED and group.last is not None:
            group.last += 1
            self._bind(group, event.group_id)

    def _bind(self, group: _Group, group_id: str) -> None:
        """Take what is pending for the reasons of the newest generation."""
        if group.pending and group.last is not None:
            self._keep(group_id, group.last, group.pending)
        group.pending, group.told, group.prepared = [], 0, None

    def _keep(self, group_id: str, number: int, items: list[Evidence]) -> None:
        if items:
            self._evidence[group_id, number] = [*items]
            self._evidence.move_to_end((group_id, number))
            if len(self._evidence) > _REMEMBERED:
                self._evidence.popitem(last=False)


def _note_move(group: _Group, event: CoordinatorEvent) -> None:
    """Add to the reasons of a rebalance that the coordinator moved right before it.

    A coordinator that loads a group gives each member a whole session timeout. Members that have not found it by
    then lose their sessions together.
    """
    if not group.has_moved or group.moved_at is None or event.moment is None:
        return
    elapsed_ms = event.moment.ms - group.moved_at.ms
    if 0 <= elapsed_ms <= _MOVE_MS and not any(item.kind == COORDINATOR_MOVED for item in group.pending):
        reason = f"the group's coordinator moved {elapsed_ms / 1000:.0f} s before"
        group.pending.append(_evidence(reason, (), COORDINATOR_MOVED))


def _note(noted: list[Evidence], item: Evidence) -> None:
    """Add evidence to what was noted. Some ends are logged twice: of a fence the second line gives Kafka's reason,
    of a leave the first has the client's own reason too.
    """
    if item in noted:
        return
    for index, other in enumerate(noted):
        if item.kind is not None and (other.kind, other.member_ids) == (item.kind, item.member_ids):
            if item.kind == _FENCED:
                noted[index] = item
            return
    told = {(other.kind, member) for other in noted for member in other.member_ids}
    if item.kind is None or not item.member_ids or any((item.kind, m) not in told for m in item.member_ids):
        noted.append(item)
        del noted[:-_PENDING]


def _member_evidence(event: CoordinatorEvent) -> Evidence:
    """A classic member of a KIP-848 group joins in every rebalance: that it does shows no new member."""
    is_rejoin = event.kind is Kind.MEMBER_JOINED and event.protocol == "classic" and event.instance_id is None
    return _evidence(event.reason, event.member_ids, None if is_rejoin else _MEMBER_KINDS[event.kind])


def _rebalance_evidence(event: CoordinatorEvent, *, has_moved: bool) -> Evidence:
    """``has_moved``: whether another coordinator than the one of the generation before prepares this rebalance."""
    if event.reason_kind is ReasonKind.STORE_FAILED and event.number is not None:
        reason = f"generation {event.number} was not delivered: {event.reason}"
        return Evidence(source=SOURCE, reason=reason, kind=UNDELIVERED, generation=event.number)
    if has_moved and is_unanswered(event.client_reason):
        return _evidence(event.reason, (), COORDINATOR_MOVED)
    kind = None if event.reason_kind is None else _REASON_KINDS.get(event.reason_kind)
    if event.reason_kind in _REJOINS:
        if event.reason_kind is ReasonKind.LEADER_REJOINED and is_metadata_change(event.client_reason):
            kind = "topic.partitions_changed"
        elif is_subscription_change(event.client_reason):
            kind = "member.subscription_changed"
    return _evidence(event.reason, event.member_ids, kind)


def _evidence(reason: str, member_ids: tuple[str, ...] = (), kind: str | None = None) -> Evidence:
    return Evidence(source=SOURCE, reason=reason, member_ids=[*filter(None, member_ids)], kind=kind)
