"""Compares the monitor's bounds for the downtime of groups of Java consumers with the measured downtime."""

import time
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple, Self

from tests.acceptance.situations.comparison import ComparedDowntime, compared
from tests.acceptance.situations.groups import AppliedChange, AppliedChanges
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.stage import RECORD_MS
from tests.support.pure_stream import SINKS

#: A change during which a member got no processor time for this long is not measured.
_MAX_CPU_WAIT_MS = 2000


def group_downtimes(group: RealGroup, view: str) -> list[ComparedDowntime]:
    """Return reported and measured downtime of each partition after each change; ``view``: the source of the reports.

    Partitions that no member consumed again (after a shutdown, or of a deleted topic) are omitted, because their
    downtime has no measured end.
    """
    played = AppliedChanges(group.group_id, group.marks, [AppliedChange(step.kind, step.at) for step in group.steps])
    if not group.marks:
        return []
    events = (event for event in group.views[view].events if event.data.group_id == group.group_id)
    downtimes = compared(played, events, SINKS.quiet_ms)
    last = {mark.partition: mark.at for mark in played.marks()}
    ends = [*(change.at for change in played.changes[1:]), time.time_ns() // 1_000_000]
    return [
        downtime
        for downtime in downtimes
        if group.steps[downtime.change].is_measured
        and downtime.pause < _MAX_CPU_WAIT_MS
        and (downtime.gaps or last.get(downtime.partition, 0) >= ends[downtime.change])
    ]


def is_within_bounds(downtime: ComparedDowntime) -> bool:
    """Return true if the bounds contain the measured downtime; each gap is known to within a pause between records."""
    return downtime.within(max(RECORD_MS, downtime.pause))


class DowntimeSummary(NamedTuple):
    """Number of partitions with correct bounds, number of all partitions, median of lower bound / measured downtime."""

    inside: int
    partitions: int
    ratio: float | None

    @classmethod
    def of(cls, compared_downtimes: Iterable[ComparedDowntime]) -> Self:
        compared = list(compared_downtimes)
        ratios = [item.reported.lower / item.measured for item in compared if item.reported and item.measured]
        return cls(sum(map(is_within_bounds, compared)), len(compared), median(ratios) if ratios else None)
