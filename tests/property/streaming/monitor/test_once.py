"""What diffs of a wave leave out since the diff before has told it is put back, from each one on, and back."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from streaming.episodes.reading import episodes
from streaming.monitor import steps
from streaming.monitor.brief import Naming
from streaming.monitor.group import apply
from streaming.monitor.rendering import AssignmentOutput, DiffOutput, Output
from streaming.monitor.state import GroupState
from streaming.wire.diffs import FEW, Diff
from streaming.wire.events import Event
from streaming.wire.owners import Owners, current
from tests.support.pure_stream import SINKS, by_key, in_batches
from tests.support.waves import waves


def played(log: Iterable[Event], naming: Naming) -> list[Output]:
    state: GroupState | None = None
    found: list[Output] = []
    for event in log:
        state, outputs = apply(state, event, naming=naming)
        found += outputs
    return found


def diffs(outputs: Iterable[Output]) -> list[tuple[str, Diff]]:
    return [(one.id, one.diff) for one in outputs if isinstance(one, DiffOutput)]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_put_together_they_are_the_diffs_with_everything(seed: int) -> None:
    log = waves(seed)
    whole = dict(diffs(played(log, "all")))
    owners = [Owners()]

    for output in played(log, "auto"):
        if isinstance(output, AssignmentOutput):
            assert output.assignment is not None
            owners = [*owners[:2], Owners.of(output.assignment)]
            continue
        for each in owners:
            assert each.whole(output.diff) == whole[output.id]
            each.take(output.diff)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_undone_they_give_what_nobody_had_before(seed: int) -> None:
    log = waves(seed, grow=0)
    whole = dict(diffs(played(log, "all")))
    outputs = played(log, "auto")
    last = max(at for at, one in enumerate(outputs) if isinstance(one, AssignmentOutput))
    latest = outputs[last]
    assert isinstance(latest, AssignmentOutput)
    assert latest.assignment is not None
    owners = Owners.of(latest.assignment)

    told = diffs(outputs[:last])
    for (before, _), (_, diff) in zip(reversed(told[:-1]), reversed(told), strict=False):
        owners.undo(diff)
        if diff.unchanged is not UNSET:
            assert owners.unassigned == whole[before].unassigned


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_latest_assignment_goes_on_with_them(seed: int) -> None:
    outputs = played(waves(seed), "auto")
    told = diffs(outputs)
    first = next(one for one in outputs if isinstance(one, AssignmentOutput) and one.after is not UNSET)
    assert first.assignment is not None
    behind = [one for one, _ in told].index(first.after) + 1
    middle = (behind + len(told)) // 2

    once = current(first.assignment, told[behind:middle])

    assert current(once, told[middle:]) == current(first.assignment, told[behind:])


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_they_depend_on_the_log_alone(seed: int) -> None:
    log = waves(seed, 2)

    with patch.object(steps, "part", lambda *_: None):
        _, whole = in_batches(log, Random(1), 0.3, SINKS)
    _, parted = in_batches(log, Random(1), 0.3, SINKS)
    _, others = in_batches(log, Random(2), 0.1, SINKS)

    assert by_key(parted) == by_key(whole)
    assert by_key(others)["d", b"g"] == by_key(whole)["d", b"g"]


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_they_tell_the_same_episodes(seed: int) -> None:
    log = waves(seed)
    assert episodes("g", diffs(played(log, "auto"))) == episodes("g", diffs(played(log, "all")))


@pytest.mark.parametrize("seed", range(2))
def test_most_diffs_of_a_wave_name_few(seed: int) -> None:
    """Else the others compare a thing with itself."""
    log = waves(seed)
    whole = [one for _, one in diffs(played(log, "all"))]
    found = [one for _, one in diffs(played(log, "auto"))]
    free = [sum(map(len, one.unassigned.values())) > FEW for one in whole]
    causes = [len(one.cause.member_ids) > FEW and one.round > 1 for one in whole]

    assert sum(free) > 100
    assert sum(one.still_unassigned is not UNSET for one in found) > 0.8 * sum(free)
    assert sum(one.cause.omitted is not UNSET for one in found) > 0.8 * sum(causes)
