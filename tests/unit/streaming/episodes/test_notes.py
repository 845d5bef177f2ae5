from __future__ import annotations

from streaming.episodes.notes import midway
from streaming.records.diffs import Cause

CAUSE = Cause(kind="member.joined", member_ids=["new"])


def test_others_that_held_something_show_it() -> None:
    assert midway(CAUSE, {"new": {}, "old": {"t": [0]}})


def test_what_the_newcomer_itself_claims_does_not() -> None:
    assert not midway(CAUSE, {"new": {"t": [0]}, "other": {}})
