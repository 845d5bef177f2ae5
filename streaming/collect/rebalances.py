"""Tracks rebalances in progress: which groups rebalance, since when, why, and which members they wait for.

The module uses no client and no clock. Sources, the most precise first:

- ``coordinator-log``: the coordinator's log has the rebalance's begin, its reason and the members that started to join.
- ``admin``: ListGroups returns the groups in a rebalancing state, and the coordinator describes their members.
- ``records``: groups with epochs write each step of each member to the offsets topic.

No source has the rejoined members of a classic group, except members that began the rebalance or are new. A
member that committed after the begin has polled since then, so it counts as rejoined. All other members of the
last generation are awaited.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType, structs

from streaming.collect.broker_log.events import CoordinatorEvent, MessageKind, ReasonKind
from streaming.collect.coordinator.records import OffsetCommit
from streaming.collect.partition_owners import CommitIntervals
from streaming.records.events import MAX_TIMESTAMP, GroupDeleted, GroupObserved, GroupRebalancing, ObservedMember

#: States in which a group rebalances, as Kafka names them.
REBALANCING_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
PREPARING, COMPLETING_REBALANCE = REBALANCING_STATES[:2]
#: States in which a group does not rebalance.
STABLE_STATES: Final = ("Stable", "Empty")
LOG, ADMIN, FROM_RECORDS = "coordinator-log", "admin", "records"
#: The least length of a published rebalance, and the least time between two events of a group; ms.
_MIN_INTERVAL_MS: Final = 1000
#: The number of consecutive ListGroups responses without a group after which its rebalance is over.
_MAX_MISSED_LISTS: Final = 2
_JOIN_REASONS: Final = (ReasonKind.JOINED, ReasonKind.REJOINED, ReasonKind.LEADER_REJOINED, ReasonKind.STATIC_REJOINED)
_END_MESSAGES: Final = (MessageKind.GROUP_EMPTY, MessageKind.GROUP_DEAD, MessageKind.GROUP_UNLOADED)


class ListedGroup(NamedTuple):
    """A listed group: its state, and its member ids if the coordinator described the group."""

    state: str
    members: frozenset[str] | None = None


class KnownGroup(NamedTuple):
    """A group as the collector last read it: snapshot, commit times (ms), committed offsets, commit intervals."""

    snapshot: GroupObserved
    last_commit: Callable[[ObservedMember], int | None] = lambda _: None
    committed: Mapping[tuple[str, int], OffsetCommit] = {}
    commits: CommitIntervals = CommitIntervals()


@dataclass(slots=True)
class _Rebalance:
    """The rebalance in progress of one group.

    Attributes:
        seen: when this collector first saw the rebalance, ms.
        source: the most precise source that has reported the rebalance so far.
        joined, gone: members that have started to join, or were removed, according to the log.
        described_ids: the members in the coordinator's description; None if the group was not described.
        number: the generation that ends, according to the log; None if unknown.
        is_logged: the log has the begin of the rebalance but not its end.
        missed: the number of ListGroups responses in a row without the group.
    """

    since: int
    seen: int
    source: str
    state: str | None = None
    reason: str | None = None
    joined: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    described_ids: frozenset[str] | None = None
    number: int | None = None
    is_logged: bool = False
    missed: int = 0
    published: GroupRebalancing | None = None


class Rebalances:
    """Tracks the rebalances in progress; ``published``: rebalances without a published end, by group."""

    def __init__(self, published: Mapping[str, GroupRebalancing] | None = None) -> None:
        self._open: dict[str, _Rebalance] = {}
        #: When each member of a group with epochs began to revoke partitions (ms).
        self._revoking_since: dict[str, dict[str, int]] = {}
        for group_id, event in (published or {}).items():
            self._open[group_id] = _Rebalance(
                event.since, event.timestamp, event.source, event.state, event.reason, published=event
            )

    def groups(self) -> Collection[str]:
        """Return the ids of the groups that rebalance."""
        return self._open.keys()

    def add_log_event(self, event: CoordinatorEvent, now: int) -> None:
        """Add the next event of the coordinator's log; ``now``: when the event was read (ms)."""
        rebalance = self._open.get(event.group_id)
        if event.kind is MessageKind.PREPARING:
            self._apply_log_event(event, now)
        elif rebalance is None:
            return
        elif event.kind is MessageKind.MEMBER_JOINING:
            rebalance.joined.update(event.member_ids)
        elif event.kind in (MessageKind.MEMBER_LEFT, MessageKind.MEMBER_FENCED):
            rebalance.gone.update(event.member_ids)
            rebalance.joined.difference_update(event.member_ids)
        elif event.kind is MessageKind.STABILIZED:
            rebalance.state = COMPLETING_REBALANCE
        elif event.kind is MessageKind.ASSIGNMENT_RECEIVED or event.kind in _END_MESSAGES:
            rebalance.is_logged = False
            if rebalance.published is None:
                self._forget_rebalance(event.group_id)
            elif event.kind is MessageKind.GROUP_UNLOADED:  # another broker's log has the rest
                rebalance.missed = _MAX_MISSED_LISTS

    def _apply_log_event(self, event: CoordinatorEvent, now: int) -> None:
        # A line is read soon after it was written.
        since = now if event.timestamp is None else event.timestamp.ms + event.timestamp.zone_offset_ms(now)
        since = min(max(since, 0), now)
        rebalance = self._open.get(event.group_id)
        if rebalance is None:
            rebalance = self._open[event.group_id] = _Rebalance(since, now, LOG)
        elif rebalance.source != LOG:
            rebalance.since = min(since, rebalance.since)
        rebalance.source, rebalance.state, rebalance.is_logged, rebalance.missed = LOG, PREPARING, True, 0
        rebalance.reason, rebalance.number = rebalance.reason or event.reason or None, event.number
        # All members have to join again, including members that had joined before.
        rebalance.joined = set(event.member_ids) if event.reason_kind in _JOIN_REASONS else set()
        if event.reason_kind in (ReasonKind.LEFT, ReasonKind.FENCED):
            rebalance.gone.update(event.member_ids)

    def apply_list(self, groups: Mapping[str, ListedGroup], now: int, *, complete: bool = True) -> None:
        """Update the rebalances in progress from ListGroups at ``now`` (ms); ``complete``: no group is missing."""
        for group_id, listed in groups.items():
            rebalance = self._open.get(group_id)
            if rebalance is None:
                rebalance = self._open[group_id] = _Rebalance(now, now, ADMIN)
            rebalance.state, rebalance.missed = listed.state, 0
            rebalance.described_ids = listed.members or rebalance.described_ids
        for group_id, rebalance in self._open.items() if complete else ():
            if group_id not in groups and rebalance.source != FROM_RECORDS:
                rebalance.missed += 1
                rebalance.is_logged = rebalance.is_logged and rebalance.missed < _MAX_MISSED_LISTS

    def apply_event(self, data: object) -> None:
        """Update the rebalances in progress from a published event; a new generation ends a classic rebalance."""
        if isinstance(data, GroupDeleted):
            self._forget_rebalance(data.group_id)
        elif isinstance(data, GroupObserved) and data.has_epochs:
            self._update_epoch_group(data)
        elif isinstance(data, GroupObserved) and (not data.polled or data.state in (*STABLE_STATES, None)):
            rebalance = self._open.get(data.group_id)
            number = None if rebalance is None else rebalance.number
            if number is None or data.generation is None or data.generation > number:
                self._open.pop(data.group_id, None)

    def _update_epoch_group(self, data: GroupObserved) -> None:
        rebalance = self._open.get(data.group_id)
        before = self._revoking_since.get(data.group_id, {})
        revoking = {m.member_id: before.get(m.member_id, data.timestamp) for m in data.members if m.pending_revocation}
        self._revoking_since[data.group_id] = revoking
        if not revoking:
            del self._revoking_since[data.group_id]
        if data.state in (*STABLE_STATES, None):
            if rebalance is not None:
                rebalance.state, rebalance.missed, rebalance.source = data.state, _MAX_MISSED_LISTS, ADMIN
        elif not data.polled:
            if rebalance is None or rebalance.source != FROM_RECORDS:
                published = None if rebalance is None else rebalance.published
                rebalance = _Rebalance(data.timestamp, data.timestamp, FROM_RECORDS, published=published)
                self._open[data.group_id] = rebalance
            logged = (item.reason for item in data.evidence if item.source == LOG)
            rebalance.state, rebalance.reason = data.state, rebalance.reason or next(logged, None)

    def events(self, group_of: Callable[[str], KnownGroup | None], now: int) -> list[GroupRebalancing]:
        """Return events for the rebalances that began, changed or ended without a generation, as of ``now`` (ms)."""
        events = []
        for group_id, rebalance in [*self._open.items()]:
            published = rebalance.published
            if rebalance.missed >= _MAX_MISSED_LISTS and not rebalance.is_logged:
                self._forget_rebalance(group_id)
                if published is not None:
                    state = rebalance.state if rebalance.state in (*STABLE_STATES, None) else None
                    changes: dict[str, Any] = {"awaited": [], "until": {}, "state": state, "ended": True}
                    events.append(structs.replace(published, timestamp=now, **changes))
                continue
            if now - (rebalance.seen if published is None else published.timestamp) < _MIN_INTERVAL_MS:
                continue
            if published is None and rebalance.missed:
                continue  # most likely over already
            event = self._event(group_id, rebalance, group_of(group_id), now)
            if published is None or structs.replace(published, timestamp=now) != event:
                rebalance.published = event
                events.append(event)
        return events

    def _forget_rebalance(self, group_id: str) -> None:
        self._open.pop(group_id, None)
        self._revoking_since.pop(group_id, None)

    def _event(self, group_id: str, rebalance: _Rebalance, group: KnownGroup | None, now: int) -> GroupRebalancing:
        until: dict[str, int] = {}
        if group is None:
            joined, awaited = sorted(rebalance.described_ids or rebalance.joined), list[str]()
        elif group.snapshot.has_epochs:
            awaited = _members_behind_epoch(group.snapshot)
            joined = [m.member_id for m in group.snapshot.members if m.member_id not in awaited]
            until = _rejoin_deadlines(group.snapshot, self._revoking_since.get(group_id, {}))
        else:
            joined, awaited = _classic_members(rebalance, group)
            until = _rejoin_deadlines(group.snapshot, dict.fromkeys(awaited, rebalance.since))
        return GroupRebalancing(
            group_id=group_id,
            timestamp=now,
            since=rebalance.since,
            reason=rebalance.reason,
            joined=joined,
            awaited=awaited,
            state=rebalance.state,
            until={member_id: at for member_id, at in until.items() if member_id in awaited and at <= MAX_TIMESTAMP},
            source=rebalance.source,
            commits_stopped=UNSET if group is None else _has_stopped_consuming(group, rebalance.since),
        )


def _classic_members(rebalance: _Rebalance, group: KnownGroup) -> tuple[list[str], list[str]]:
    before = {member.member_id: member for member in group.snapshot.members}
    described_ids = rebalance.described_ids if rebalance.described_ids is not None else before.keys() | rebalance.joined
    members = described_ids - rebalance.gone
    if rebalance.state == COMPLETING_REBALANCE:
        return sorted(members), []
    joined = members & rebalance.joined | members - before.keys()
    absent_ids = [member_id for member_id in before if member_id in members and member_id not in joined]
    polled = {member_id for member_id in absent_ids if (group.last_commit(before[member_id]) or 0) > rebalance.since}
    # At least one member must be awaited, or the rebalance would be over: a member committed without rejoining.
    awaited = [member_id for member_id in absent_ids if member_id not in polled] or absent_ids
    return sorted(joined | polled - {*awaited}), awaited


def _members_behind_epoch(snapshot: GroupObserved) -> list[str]:
    late = [m.member_id for m in snapshot.members if m.pending_revocation or _is_behind_epoch(m, snapshot.group_epoch)]
    return late or [m.member_id for m in snapshot.members if m.state not in ("STABLE", None)]


def _is_behind_epoch(member: ObservedMember, epoch: int | None) -> bool:
    if member.state is None and member.member_epoch is None:
        return member.target is not None and member.target != member.assigned
    return member.state == "STABLE" and (member.member_epoch or 0) < (epoch or 0)


def _rejoin_deadlines(snapshot: GroupObserved, revoking_since: Mapping[str, int]) -> dict[str, int]:
    """Return when (ms) each awaited member is removed; a classic group waits for its longest rebalance timeout."""
    timeouts = {m.member_id: m.rebalance_timeout_ms for m in snapshot.members if m.rebalance_timeout_ms is not None}
    longest = max(timeouts.values(), default=0)
    return {
        member_id: at + (timeouts[member_id] if snapshot.has_epochs else longest)
        for member_id, at in revoking_since.items()
        if member_id in timeouts and longest > 0
    }


def _has_stopped_consuming(group: KnownGroup, since: int) -> bool | UnsetType:
    if group.snapshot.holds_tasks:
        return UNSET
    last = max(filter(None, map(group.last_commit, group.snapshot.members)), default=None)
    return UNSET if last is None else last <= since
