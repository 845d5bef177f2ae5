"""Measures pauses in groups' commits around a change of their coordinators; uses no client and no clock.

Without a coordinator a group can't commit, even if it does not rebalance. The upper bound of the pause is the time from
the last commit before the change to the acknowledgement of the first commit after the change. The lower bound begins
when the next commit was due.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import structs

from streaming.collect.cluster_view import ClusterSnapshot, coordinator_partition
from streaming.collect.partition_owners import CommitIntervals
from streaming.collect.rebalances import KnownGroup
from streaming.records.events import CLUSTER, ClusterChange, ClusterObserved, Event, GroupPauses

#: The longest time (ms) from a change until the collector notices it: a broker's session and a request interval.
_MAX_NOTICE_DELAY_MS: Final = 30_000
#: The time (ms) without a commit after which the pause of a group with a coordinator counts as unknown.
_MAX_COMMIT_PAUSE_MS: Final = 60_000
#: The most groups that an event lists.
_MAX_GROUPS: Final = 500


class CommitPauses:
    """Publishes groups' commit pauses around a change of their coordinator, once the groups commit again."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._brokers: list[int] = []
        self._snapshot: ClusterSnapshot | None = None
        #: Changes without published pauses, and the end (ms) of the wait for their groups.
        self._open: dict[tuple[str, str], tuple[ClusterChange, int]] = {}

    def add_change(self, data: ClusterObserved) -> None:
        """Add the changes of a published cluster event. A repeated change replaces the earlier change."""
        self._brokers, until = data.brokers, data.timestamp + _MAX_COMMIT_PAUSE_MS
        for change in data.changes:
            if change.kind in ("broker-restart", "coordinator-moved") and change.groups:
                self._open[change.kind, change.subject] = change, until

    def event(
        self, group_of: Callable[[str], KnownGroup | None], snapshot: ClusterSnapshot | None, now: int
    ) -> Event | None:
        """Return an event with the groups' commit pauses that ended by ``now`` (ms); None if there are none."""
        if not self._open or snapshot is None or snapshot is self._snapshot:
            return None
        self._snapshot, leaders, changes = snapshot, snapshot.coordinators, list[ClusterChange]()
        for key, (change, until) in [*self._open.items()]:
            groups = {name: group for name in change.groups if (group := group_of(name)) is not None}
            waiting = [name for name, group in groups.items() if _is_commit_awaited(group.commits, change.since)]
            if waiting and (not leaders or None in {leaders[coordinator_partition(n, len(leaders))] for n in waiting}):
                self._open[key] = change, now + _MAX_COMMIT_PAUSE_MS
            elif not waiting or now >= until:
                del self._open[key]
                changes.append(structs.replace(change, pauses=_find_pauses(change, groups)))
        data = ClusterObserved(group_id=CLUSTER, timestamp=now, brokers=self._brokers, changes=changes)
        return Event(self._source, f"pauses/{now}", data) if changes else None


def _is_commit_awaited(commits: CommitIntervals, since: int) -> bool:
    """Return whether a group committed regularly before a change at ``since`` and has not committed after it."""
    last, usual = commits.last, commits.usual_ms
    return last is not None and usual is not None and since - _MAX_NOTICE_DELAY_MS - usual <= last <= since


def _find_pauses(change: ClusterChange, groups: Mapping[str, KnownGroup]) -> GroupPauses:
    resumed = {name: group.commits for name, group in groups.items() if (group.commits.last or 0) > change.since}
    gaps = {n: c.gap for n, c in resumed.items() if c.gap and c.gap.due >= change.since - _MAX_NOTICE_DELAY_MS}
    longest = sorted(gaps, key=lambda name: (-gaps[name].bounds[1], name))
    pause_starts = {name: gaps[name].began if name in gaps else change.since for name in groups}
    return GroupPauses(
        groups={name: gaps[name].bounds for name in longest[:_MAX_GROUPS]},
        rebalanced=[name for name, at in pause_starts.items() if groups[name].snapshot.timestamp > at][:_MAX_GROUPS],
        more=len(longest[_MAX_GROUPS:]),
        unknown=len(change.groups) - sum(name in gaps or c.usual_ms is not None for name, c in resumed.items()),
    )
