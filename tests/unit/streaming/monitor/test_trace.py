import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord
from streaming.records.codec import Record, encode_event
from streaming.records.events import Event
from tests.support.histories import Log
from tests.support.pure_stream import SINKS, apply_events

OWN_PACKAGES = {"streaming", "assignors"}
PAGE = Path(__file__).parents[4] / "docs" / "design" / "architecture.md"


def trace(before: list[Event], event: Event) -> tuple[set[str], int, list[OutputRecord]]:
    """Return the modules that run for an event, the number of calls and returns between modules, and the writes."""
    bucket = Bucket()
    apply_events(bucket, before)
    bucket, records = Bucket(bucket.pack()), [Record.of(0, len(before), *encode_event(event))]
    modules: set[str] = set()
    moves = 0

    def follow(frame: FrameType, kind: str, _: Any) -> None:
        nonlocal moves
        if kind not in ("call", "return") or frame.f_back is None:
            return
        module, caller = frame.f_globals["__name__"], frame.f_back.f_globals["__name__"]
        if module.partition(".")[0] in OWN_PACKAGES:
            modules.add(module)
            moves += module != caller

    sys.setprofile(follow)
    try:
        writes = process(bucket, records, 1000, SINKS)
    finally:
        sys.setprofile(None)
    return modules, moves, writes


def joined() -> tuple[list[Event], Event]:
    """Return the events of a group with two members, and the event in which a third member joins."""
    log = Log()
    return [log.topics(t=6), log.join("c1"), log.join("c2")], log.join("c3")


def observed() -> tuple[list[Event], Event]:
    """Return an observed classic group's events, and the snapshot after a third member's join."""
    log = Log()
    first = log.observe(1, {"c1": {"t": [0, 1, 2]}, "c2": {"t": [3, 4, 5]}})
    return [log.topics(t=6), first], log.observe(2, {"c1": {"t": [0, 1]}, "c2": {"t": [2, 3]}, "c3": {"t": [4, 5]}})


@pytest.mark.parametrize(("case", "max_modules", "max_call_changes"), [(joined, 24, 90), (observed, 28, 110)])
def test_number_of_modules_that_apply_an_event_is_limited(case: Any, max_modules: int, max_call_changes: int) -> None:
    modules, moves, writes = trace(*case())
    assert [write.topic for write in writes] == ["d", "a", "e"]
    assert {"streaming.episodes.fold", "streaming.episodes.detection"} <= modules
    assert len(modules) <= max_modules, sorted(modules)
    assert moves <= max_call_changes
    assert f"{max_modules} modules and {max_call_changes} moves" in " ".join(PAGE.read_text().split())
