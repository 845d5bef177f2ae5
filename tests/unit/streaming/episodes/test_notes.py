from __future__ import annotations

from streaming.episodes.notes import existed_before
from streaming.records.diffs import Cause

CAUSE = Cause(kind="member.joined", member_ids=["new"])


def test_remaining_members_show_their_partitions() -> None:
    assert existed_before(CAUSE, {"new": {}, "old": {"t": [0]}})


def test_claims_of_a_joiner_do_not_prove_a_running_group() -> None:
    assert not existed_before(CAUSE, {"new": {"t": [0]}, "other": {}})
