"""Reasons of rebalances from the group coordinator's log, by generation or epoch."""

import pytest

from streaming.collect.broker_log import group_reasons
from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.records.events import Evidence
from tests.support.broker_logs import read_lines


def test_grown_topic_is_the_reason_of_the_leaders_rejoin() -> None:
    log = read_lines(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Leader a "
        "re-joining group during Stable; client reason: cached metadata has changed from (version1: {t=[0]}) at "
        "the beginning of the rebalance to (version2: {t=[0, 1]}))."
    )

    assert [item.kind for item in log.evidence("g", 2)] == ["topic.partitions_changed"]


_REQUESTED_LEAVE = "Member {} has left group through explicit `LeaveGroup` request; client reason: done"


@pytest.mark.parametrize(("with_client_reason", "expected"), [("a", [["a"], ["a", "b"]]), ("ab", [["a"], ["b"]])])
def test_leave_request_is_evidence_of_members_without_a_reason(
    with_client_reason: str, expected: list[list[str]]
) -> None:
    evidence = read_lines(
        *(f"[Group g] {_REQUESTED_LEAVE.format(member)}" for member in with_client_reason),
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: explicit "
        "`LeaveGroup` request for (a, b) members.).",
        "Stabilized group g generation 2 with 1 members.",
    ).evidence("g", 2)

    assert [item.member_ids for item in evidence] == expected
    assert {item.kind for item in evidence} == {"member.left"}
    assert evidence[0].reason == "explicit `LeaveGroup` request; client reason: done"


@pytest.mark.parametrize(("length", "kinds"), [(500, ["member.joined"]), (501, [])])
def test_implausible_member_ids_are_not_matched(length: int, kinds: list[str]) -> None:
    group = "g" * length
    log = read_lines(
        f"[GroupId {group}] Member m joins the consumer group using the consumer protocol.",
        f"[GroupId {group}] Bumped group epoch to 2 with metadata hash 1.",
    )

    assert [item.kind for item in log.evidence(group, 2)] == kinds


def test_reason_without_a_member_gives_evidence_without_members() -> None:
    log = read_lines(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: something new)."
    )

    assert log.evidence("g", 2) == [
        Evidence(source="coordinator-log", reason="something new", member_ids=[], kind=None)
    ]


_PREPARING = "Preparing to rebalance group g in state PreparingRebalance with old generation 4 (reason: {})."


def epochs(*groups: str) -> list[str]:
    """Return the log lines of these groups, group by group: a member leaves, and the epoch becomes 5."""
    return [
        line
        for group in groups
        for line in (
            f"[GroupId {group}] Member m left the consumer group.",
            f"[GroupId {group}] Bumped group epoch to 5.",
        )
    ]


def test_fence_has_the_later_reason_and_leave_the_earlier_one() -> None:
    log = read_lines(
        "Member m in group g has failed, removing it from the group.",
        "[Group g] Member n has left group through explicit `LeaveGroup` request; client reason: done",
        _PREPARING.format("removing member m on heartbeat expiration."),
        _PREPARING.format("explicit `LeaveGroup` request for (n) members."),
    )
    assert [(item.kind, item.reason) for item in log.evidence("g", 5)] == [
        ("member.fenced", "removing member m on heartbeat expiration."),
        ("member.left", "explicit `LeaveGroup` request; client reason: done"),
    ]


def test_oldest_generations_lose_their_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reasons, "_MAX_REMEMBERED_PHASES", 2)
    log = read_lines(*epochs("a", "b", "c"))
    assert [bool(log.evidence(group, 5)) for group in ("a", "b", "c")] == [False, True, True]


def test_only_the_newest_pending_lines_become_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reasons, "_MAX_PENDING_EVIDENCE", 2)
    lines = [f"[GroupId g] Member m{number} left the consumer group." for number in range(4)]
    items = read_lines(*lines, "[GroupId g] Bumped group epoch to 5.").evidence("g", 5)
    assert [(item.kind, item.member_ids) for item in items] == [("member.left", ["m2"]), ("member.left", ["m3"])]


def causes(log: GroupReasons, first: int, last: int) -> list[list[tuple[str | None, list[str]]]]:
    epochs = range(first, last + 1)
    return [[(item.kind, item.member_ids) for item in log.evidence("g", epoch)] for epoch in epochs]


def test_share_group_leave_belongs_to_the_next_epoch() -> None:
    log = read_lines(
        "[GroupId g] Member a joins the share group using the share protocol.",
        "[GroupId g] Bumped group epoch to 2 with metadata hash 1.",
        "[GroupId g] Member b joins the share group using the share protocol.",
        "[GroupId g] Bumped group epoch to 3 with metadata hash 1.",
        "[GroupId g] Member b fenced from the group because the member session expired.",
        "[GroupId g] Member a left the share group.",
        "[GroupId g] Member c joins the share group using the share protocol.",
        "[GroupId g] Bumped group epoch to 6 with metadata hash 1.",
    )

    assert causes(log, 2, 6) == [
        [("member.joined", ["a"])],
        [("member.joined", ["b"])],
        [("member.fenced", ["b"])],
        [("member.left", ["a"])],
        [("member.joined", ["c"])],
    ]


def test_streams_group_joins_and_leaves_belong_to_their_epoch() -> None:
    log = read_lines(
        "[GroupId g][MemberId a] Member joins the streams group.",
        "[GroupId g][MemberId a] Bumped streams group epoch to 2 with metadata hash 1 and validated topic epoch 0.",
        "[GroupId g][MemberId b] Member joins the streams group.",
        "[GroupId g][MemberId b] Bumped streams group epoch to 3 with metadata hash 1 and validated topic epoch 0.",
        "[GroupId g] Streams member b fenced from the group because the member session expired..",
        "[GroupId g][MemberId a] Member a left the streams group.",
    )

    assert causes(log, 2, 5) == [
        [("member.joined", ["a"])],
        [("member.joined", ["b"])],
        [("member.fenced", ["b"])],
        [("member.left", ["a"])],
    ]


def test_all_unclear_reasons_that_name_a_member_are_kept() -> None:
    log = read_lines(
        *(
            "Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
            f"(reason: Updating metadata for member a {why})."
            for why in ("during Stable", "during PreparingRebalance")
        )
    )
    assert [(item.kind, item.member_ids, item.reason) for item in log.evidence("g", 2)] == [
        (None, ["a"], "Updating metadata for member a during Stable"),
        (None, ["a"], "Updating metadata for member a during PreparingRebalance"),
    ]


_PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] "
_JOIN_LINE = (
    f"{_PREFIX}Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
    "(reason: Adding new member c-1 with group instance id null; client reason: not provided)."
)
_LOAD_LINE = f"{_PREFIX}Loaded classic group g with 2 members."
_LEADER_REJOIN_LINE = (
    f"{_PREFIX}Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Leader a-1 "
    "re-joining group during Stable; client reason: rebalance failed due to {}Exception)."
)
_STABILIZED_LINE = f"{_PREFIX}Stabilized group g generation 2 with 2 members."


def test_coordinator_move_voids_the_rebalance_under_way() -> None:
    (item,) = read_lines(_JOIN_LINE, _LOAD_LINE, _LEADER_REJOIN_LINE.format("Disconnect"), _STABILIZED_LINE).evidence(
        "g", 2
    )
    assert (item.kind, item.member_ids) == ("coordinator.moved", [])
    assert "rebalance failed due to DisconnectException" in item.reason


@pytest.mark.parametrize(
    "lines",
    [
        (_LEADER_REJOIN_LINE.format("Disconnect"), _STABILIZED_LINE),  # the coordinator is still the same
        (_LOAD_LINE, _LEADER_REJOIN_LINE.format("RebalanceInProgress"), _STABILIZED_LINE),  # the coordinator answered
        (
            _LOAD_LINE,
            _STABILIZED_LINE.replace("2 with", "1 with"),
            _LEADER_REJOIN_LINE.format("Disconnect"),
            _STABILIZED_LINE,
        ),  # the coordinator answered
    ],
)
def test_coordinator_move_is_not_the_reason_of_a_rebalance(lines: tuple[str, ...]) -> None:
    assert [item.kind for item in read_lines(*lines).evidence("g", 2)] == [None]


def _line_at(seconds: int, line: str) -> str:
    return f"[2026-05-01 10:{seconds // 60:02}:{seconds % 60:02},000] INFO {line} (org.apache.kafka.Group)"


@pytest.mark.parametrize(("seconds", "moved"), [(31, True), (90, True), (91, False), (3_000, False)])
def test_sessions_expired_after_coordinator_move_have_that_cause(seconds: int, *, moved: bool) -> None:
    failed = f"{_PREFIX}Member a-1 in group g has failed, removing it from the group."
    expired_lines = (
        f"{_PREFIX}Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
        "(reason: removing member a-1 on heartbeat expiration)."
    )
    lines = [_line_at(0, _LOAD_LINE), *(_line_at(seconds, line) for line in (failed, expired_lines, _STABILIZED_LINE))]
    kinds = [item.kind for item in read_lines(*lines).evidence("g", 2)]
    assert kinds.count("member.fenced") == 1
    assert ("coordinator.moved" in kinds) is moved


def test_coordinator_move_is_reported_once_for_one_generation() -> None:
    later = _STABILIZED_LINE.replace("generation 2", "generation 3")
    joins = _JOIN_LINE.replace("old generation 1", "old generation 2")
    log = read_lines(
        *(
            _line_at(place, line)
            for place, line in enumerate((_LOAD_LINE, _JOIN_LINE, _JOIN_LINE, _STABILIZED_LINE, joins, later))
        )
    )
    assert [item.kind for item in log.evidence("g", 2)].count("coordinator.moved") == 1
    assert "coordinator.moved" not in [item.kind for item in log.evidence("g", 3)]
