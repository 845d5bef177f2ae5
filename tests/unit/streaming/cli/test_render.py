from streaming.cli.render import diff_lines, short_member, short_share
from streaming.wire.events import Cause, Evidence
from tests.support.histories import change, sample


def test_only_the_tail_of_a_client_generated_id_is_cut() -> None:
    assert short_member("c1-0b9fa3c2-94b1-4c1c-8d5c-0a4f5e0d2b11") == "c1-0b9f…"
    assert short_member("plain-member-7") == "plain-member-7"


def test_shares_are_sorted_by_topic_and_empty_topics_left_out() -> None:
    assert short_share({"b": [1], "a": [0, 1], "c": []}) == "a 0-1 · b 1"


def test_a_diff_reads_as_cause_reason_and_a_line_a_member() -> None:
    diff = sample(
        generation=4,
        cause=Cause(
            kind="member.fenced",
            member_ids=["c2"],
            evidence=[Evidence(source="coordinator-log", reason="heartbeat expiration")],
        ),
        members={
            "c1": change(owned={"t": [0]}, assigned={"t": [1]}, kept={"t": [0]}),
            "c2": change(owned={"t": [1]}, revoked={"t": [1]}, present=False),
            "c3": change(),
        },
        unassigned={"t": [2]},
        moved=1,
        violations=["t-2 has no owner"],
    )
    lines = [line.plain for line in diff_lines(diff)]
    assert lines[0].endswith("g generation 4  c2 was fenced  moved 1")
    assert lines[1:] == [
        "  why: heartbeat expiration (coordinator-log)",
        "  c1  = t 0  + t 1",
        "  c2  - t 1  gone",
        "  c3  nothing",
        "  nobody has t 2",
        "  violation: t-2 has no owner",
    ]
