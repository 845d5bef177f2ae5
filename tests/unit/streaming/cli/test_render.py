import re
import time
from typing import Any

import pytest

from streaming.cli.diff_lines import diff_lines, partition_counts_text
from streaming.records.diffs import Cause, Expected, MemberDiff
from streaming.records.events import PROBING, Evidence
from tests.support.histories import change, sample


def test_shares_are_sorted_by_topic_and_empty_topics_left_out() -> None:
    assert partition_counts_text({"b": [1], "a": [0, 1], "c": []}) == "a 0-1 · b 1"


def test_diff_text_has_cause_reason_and_one_line_per_member() -> None:
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
        "  c3  no partitions",
        "  unassigned: t 2",
        "  violation: t-2 has no owner",
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "g generation 1  c1 joined"),
        ({"round": 2}, "g generation 1, round 2  c1 joined"),
        ({"generation": None, "group_epoch": 7, "moved": 3}, "g epoch 7  c1 joined  moved 3"),
        ({"cause": Cause(kind="member.left", member_ids=["a", "b"])}, "g generation 1  a, b left"),
        ({"cause": Cause(kind="topic.partitions_changed", member_ids=[])}, "g generation 1   partitions changed"),
        ({"cause": Cause(kind="member.subscription_changed")}, "g generation 1   changed its subscription"),
        ({"cause": Cause(kind="group.deleted", member_ids=[])}, "g generation 1   group deleted"),
        ({"cause": Cause(kind="made.up", member_ids=["c1"])}, "g generation 1  c1 made.up"),
    ],
)
def test_headline_names_member_and_cause(fields: dict[str, Any], expected: str) -> None:
    assert next(iter(diff_lines(sample(**fields)))).plain.partition(" ")[2] == expected


def test_round_is_printed_under_the_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        at = [next(iter(diff_lines(sample(timestamp=ms)))).plain.split()[0] for ms in (3_723_000, 2**62)]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert at == ["03:02:03", str(2**62)]


def test_repeated_reasons_are_printed_once_and_shortened() -> None:
    client = "c1-0b9fa3c2-94b1-4c1c-8d5c-0a4f5e0d2b11"
    reason = f"removing member {client} with group instance id null; client reason: not provided"
    evidence = [Evidence(source="log", reason=reason, member_ids=[client], kind=None)] * 2
    evidence.append(Evidence(source="log", reason="another\nline", member_ids=[], kind=None))
    diff = sample(cause=Cause(kind="member.left", member_ids=[client], evidence=evidence))
    assert [line.plain for line in diff_lines(diff)][1:3] == [
        "  why: removing member c1-0b9f… (log)",
        "  why: another\\nline (log)",
    ]


def test_members_are_listed_in_order() -> None:
    members = {"longer-name": change(kept={"t": [0]}, owned={"t": [0]}), "b": change(assigned={"t": [1]})}
    members["a"] = change(revoked={"t": []}, present=None)
    assert [line.plain for line in diff_lines(sample(members=members))][1:] == [
        "  a            no partitions",
        "  b            + t 1",
        "  longer-name  = t 0",
    ]


def test_members_have_display_names_and_ids() -> None:
    first, second_label = "O4ZHelk8SVWGgq4QmbZ7bg", "zzZHelk8SVWGgq4QmbZ7bg"
    third = "c1-0b9fa3c2-94b1-4c1c-8d5c-0a4f5e0d2b11"
    left = Evidence(source="log", reason=f"member {first} left the group", member_ids=[first], kind=None)
    diff = sample(
        cause=Cause(kind="member.left", member_ids=[first], evidence=[left]),
        members={
            second_label: change(assigned={"t": [1]}, client_id="orders", client_host="/10.0.0.2"),
            first: change(present=False, client_id="orders", client_host="/10.0.0.1"),
            third: change(kept={"t": [0]}, owned={"t": [0]}),
        },
        violations=[f"{second_label} and {third} have t-1"],
    )
    assert [line.plain.partition("generation 1")[2] or line.plain for line in diff_lines(diff)] == [
        "  orders (10.0.0.1) left",
        "  why: member orders (10.0.0.1) left the group (log)",
        f"  c1-0b9f…           {'':22}  = t 0",
        f"  orders (10.0.0.1)  {first}  gone",
        f"  orders (10.0.0.2)  {second_label}  + t 1",
        "  violation: orders (10.0.0.2) and c1-0b9f… have t-1",
    ]


def test_delayed_and_standby_tasks_are_printed() -> None:
    waiting = sample(
        members={"w1": change(owned={"snk": [-1, 0]}, kept={"snk": [-1, 0]})},
        unassigned={"snk": [1, 2]},
        delay_ms=10_000,
        kind="connect",
    )
    *_, member, condition_line = [line.plain for line in diff_lines(waiting)]
    assert member == "  w1  = snk -1,0"
    assert re.fullmatch(r"  unassigned: snk 1-2, delayed for their worker until \d\d:\d\d:12", condition_line)

    standby = MemberDiff(owned={}, revoked={}, assigned={}, kept={}, present=True, standby={"0": [1]}, warmup={})
    probing_round = sample(members={"a": standby}, kind="streams", cause=Cause(kind=PROBING, member_ids=["a"]))
    diff_headline, member = [line.plain for line in diff_lines(probing_round)]
    assert diff_headline.endswith("  a probing rebalance")
    assert member == "  a  standby 0 1"


def test_differences_from_the_expected_assignment_are_printed() -> None:
    expected = Expected(
        verdict="different",
        why="range computes another assignment",
        missing={"c1": {"t": [1]}},
        extra={"c1": {"t": [3]}},
    )
    lines = [str(line) for line in diff_lines(sample(expected=expected))]
    assert lines[-3:] == [
        "  not as expected: range computes another assignment",
        "    c1 should have t 1",
        "    c1 should not have t 3",
    ]
    assert list(diff_lines(sample(expected=Expected(verdict="equal")))) == list(diff_lines(sample()))


def test_unchanged_members_share_a_line() -> None:
    *_, last = [line.plain for line in diff_lines(sample(unchanged=1988))]
    assert last == "  = 1,988 other members unchanged"
    _, unchanged_line = [line.plain for line in diff_lines(sample(members={}, unchanged=3))]
    assert unchanged_line == "  = all 3 members unchanged"
    assert not any("unchanged" in line.plain for line in diff_lines(sample()))


def test_reason_of_a_comparison_names_its_members() -> None:
    gone = Evidence(source="comparison", reason="gone since", member_ids=["c1", "c3"], kind="member.left")
    joined = Cause(kind="member.joined", member_ids=["c2"], evidence=[gone])
    assert [line.plain for line in diff_lines(sample(cause=joined))][1] == "  why: c1, c3: gone since (comparison)"
    same = Cause(kind="member.left", member_ids=["c1", "c3"], evidence=[gone])
    assert [line.plain for line in diff_lines(sample(cause=same))][1] == "  why: gone since (comparison)"
