from __future__ import annotations

import pytest
from msgspec import UNSET, UnsetType

from streaming.collect.scheduled import due
from streaming.records.events import Evidence, GroupObserved, ObservedMember


def view(at: int, next_ms: int | UnsetType = UNSET) -> GroupObserved:
    member = ObservedMember(member_id="m", topics=["t"], assigned={}, next_rebalance_ms=next_ms)
    return GroupObserved(group_id="g", timestamp=at, members=[member], generation=1, kind="streams")


def test_a_generation_that_comes_when_the_one_before_asked_for_it() -> None:
    assert list(due(view(1000, 5000), view(5000))) == [
        Evidence(
            source="assignment-info",
            reason="probing rebalance: scheduled for 5000 ms, when warm-up tasks may have caught up",
            member_ids=["m"],
            kind="streams.probing_rebalance",
        )
    ]


@pytest.mark.parametrize("next_ms", [UNSET, 0, 5001])
def test_one_that_was_not_asked_for_yet_or_comes_for_another_reason(next_ms: int | UnsetType) -> None:
    assert list(due(view(1000, next_ms), view(5000))) == []
