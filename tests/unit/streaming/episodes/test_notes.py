from streaming.episodes.notes import existed_before
from streaming.records.diffs import Cause

CAUSE = Cause(kind="member.joined", member_ids=["new"])


def test_partitions_of_present_members_prove_an_older_group() -> None:
    assert existed_before(CAUSE, {"new": {}, "old": {"t": [0]}})


def test_joining_members_partitions_do_not_prove_an_older_group() -> None:
    assert not existed_before(CAUSE, {"new": {"t": [0]}, "other": {}})
