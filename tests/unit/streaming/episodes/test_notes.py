from streaming.episodes.notes import existed_before
from streaming.records.diffs import Cause


def test_partitions_of_older_members_prove_an_older_group() -> None:
    cause = Cause(kind="member.joined", member_ids=["new"])
    assert existed_before(cause, {"new": {}, "old": {"t": [0]}})
    assert not existed_before(cause, {"new": {"t": [0]}, "other": {}})
