"""The algebra of the contract on any sequence of events, and diffs that know nothing of batches."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from assignors.errors import MonitorError
from streaming.monitor.apply import apply
from streaming.monitor.state import DiffOutput, GroupState
from streaming.wire.events import Diff, Event
from tests.support.logs import as_topic, membership_log
from tests.support.membership import check_algebra, holds
from tests.support.pure_stream import by_key, run


def _diffs(events: list[Event]) -> dict[str, list[Diff]]:
    states: dict[str, GroupState | None] = {}
    found: dict[str, list[Diff]] = {}
    ids: set[str] = set()
    for event in events:
        group_id = event.data.group_id
        try:
            states[group_id], outputs = apply(states.get(group_id), event)
        except MonitorError:
            continue
        for output in outputs:
            if isinstance(output, DiffOutput):
                assert output.id not in ids
                ids.add(output.id)
                found.setdefault(group_id, []).append(output.diff)
    return found


@given(seed=st.integers(0, 10**9))
@settings(max_examples=40)
def test_every_diff_satisfies_the_algebra_and_starts_where_the_last_one_ended(seed: int) -> None:
    for rounds in _diffs(list(membership_log(300, 9, seed))).values():
        held: dict[str, dict[str, list[int]]] = {}
        renamed = False
        for diff in rounds:
            check_algebra(diff)
            owned = {member_id: member.owned for member_id, member in diff.members.items() if member.owned}
            before = {member_id: share for member_id, share in held.items() if share}
            # What a newcomer claims, and who a static member was before, the diffs before do not say.
            renamed = renamed or not owned.keys() <= before.keys()
            if not renamed:
                assert owned == before
            held = holds(diff)


@given(seed=st.integers(0, 10**9), batch=st.sampled_from((1, 3, 50)), buckets=st.sampled_from((1, 4, 16)))
@settings(max_examples=15)
def test_batches_and_buckets_change_no_byte(seed: int, batch: int, buckets: int) -> None:
    log = as_topic(membership_log(150, 9, seed), 4)
    assert by_key(run(log, batch=batch, buckets=buckets)) == by_key(run(log, batch=10_000, buckets=1))
