"""Diffs that leave out who kept everything, put together, are those with everybody: from each one on, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from assignors.errors import MonitorError
from streaming.episodes.reading import episodes
from streaming.monitor.brief import Naming
from streaming.monitor.group import apply
from streaming.monitor.rendering import AssignmentOutput, DiffOutput, Output
from streaming.monitor.state import GroupState
from streaming.wire.diffs import Diff
from streaming.wire.events import Event, Holding
from streaming.wire.owners import Owners
from tests.support.recorded import membership_log


def played(log: Iterable[Event], naming: Naming) -> list[tuple[GroupState | None, Sequence[Output]]]:
    state: GroupState | None = None
    found = []
    for event in log:
        try:
            state, outputs = apply(state, event, naming=naming)
        except MonitorError:
            continue
        found.append((state, outputs))
    return found


def owned(owners: Owners) -> dict[str, Holding]:
    return {name: one.owned for name, one in owners.members.items()}


def names(diff: Diff) -> dict[str, object]:
    return {name: (one.client_id, one.group_instance_id) for name, one in diff.members.items()}


def compare(log: Sequence[Event]) -> int:
    """How many diffs of one group left somebody out."""
    owners, started, brief = Owners(), list[Owners](), list[Diff]()
    for (state, full), (other, outputs) in zip(played(log, "all"), played(log, "changed"), strict=True):
        assert (state is None) == (other is None)
        for one, short in zip(full, outputs, strict=True):
            assert one.id == short.id
            if isinstance(one, DiffOutput):
                assert isinstance(short, DiffOutput)
                for each in (owners, *started):
                    whole = each.whole(short.diff)
                    assert whole == one.diff
                    each.take(short.diff)
                brief.append(short.diff)
            else:
                assert isinstance(short, AssignmentOutput)
                wanted, given = one.assignment, short.assignment
                if wanted is None or given is None:
                    assert given is wanted
                    brief.clear()
                    continue
                assert given.after is UNSET or brief[-1]
                started = [*started[-3:], Owners.of(given)]
                assert owned(started[-1]) == wanted.members
    return sum(diff.unchanged is not UNSET for diff in brief)


def told(log: Iterable[Event], naming: Naming) -> list[tuple[str, Diff]]:
    outputs = [one for _, given in played(log, naming) for one in given]
    return [(one.id, one.diff) for one in outputs if isinstance(one, DiffOutput)]


@given(seed=st.integers(0, 10**9))
@settings(max_examples=15)
def test_what_is_left_out_is_what_was_known(seed: int) -> None:
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in membership_log(300, 9, seed):
        groups[event.data.group_id].append(event)
    assert sum(map(compare, groups.values()))


@given(seed=st.integers(0, 10**9))
@settings(max_examples=5)
def test_they_tell_the_same_episodes(seed: int) -> None:
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in membership_log(200, 6, seed):
        groups[event.data.group_id].append(event)
    for group_id, log in groups.items():
        assert episodes(group_id, told(log, "changed")) == episodes(group_id, told(log, "all"))
