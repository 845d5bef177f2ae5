"""Downtime of groups of Java consumers: the monitor's bounds compared with the measured downtime."""

from __future__ import annotations

import time
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple, Self

from tests.acceptance.situations.groups import AppliedChange, PlayedChanges
from tests.acceptance.situations.life import RealGroup
from tests.acceptance.situations.measured import ComparedDowntime, compared
from tests.acceptance.situations.stage import RECORD_MS
from tests.support.pure_stream import SINKS

#: An act in which a member got no processor time for this long is not measured.
_STARVED_MS = 2000


def of_life(life: RealGroup, view: str) -> list[ComparedDowntime]:
    """Return each partition with measured or reported downtime in a step of the history, for one view.

    A partition that nobody consumed again has no measured end: after a shutdown, or of a deleted topic.
    """
    played = PlayedChanges(life.group, life.marks, [AppliedChange(step.kind, step.at) for step in life.steps])
    if not life.marks:
        return []
    events = (event for event in life.views[view].events if event.data.group_id == life.group)
    found = compared(played, events, SINKS.quiet_ms)
    last = {mark.partition: mark.at for mark in played.marks()}
    ends = [*(act.at for act in played.acts[1:]), time.time_ns() // 1_000_000]
    return [
        one
        for one in found
        if life.steps[one.act].is_measured
        and one.pause < _STARVED_MS
        and (one.gaps or last.get(one.partition, 0) >= ends[one.act])
    ]


def is_inside(one: ComparedDowntime) -> bool:
    """Return true if the bounds hold; a consumed partition only shows when its next record arrives."""
    return one.within(max(RECORD_MS, one.pause))


class Figures(NamedTuple):
    """How many partitions' bounds hold, of how many, and the median of lower bound over measured downtime."""

    inside: int
    partitions: int
    ratio: float | None

    @classmethod
    def of(cls, found: Iterable[ComparedDowntime]) -> Self:
        compared = list(found)
        ratios = [one.said.lower / one.measured for one in compared if one.said and one.measured]
        return cls(sum(map(is_inside, compared)), len(compared), median(ratios) if ratios else None)
