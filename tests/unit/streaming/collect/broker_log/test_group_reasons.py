"""Reasons of rebalances from the group coordinator's log, by generation or epoch."""

import pytest

from streaming.collect.broker_log import group_reasons
from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.records.events import UNDELIVERED, Evidence
from tests.support.broker_logs import read_lines


def kinds(log: GroupReasons, number: int) -> list[tuple[str | None, list[str]]]:
    return [(item.kind, item.member_ids) for item in log.evidence("g", number)]


def preparing(reason: str, old_generation: int = 1) -> str:
    start = "Preparing to rebalance group g in state PreparingRebalance with old generation"
    return f"{start} {old_generation} (reason: {reason})."


def test_grown_topic_is_the_reason_of_the_leaders_rejoin() -> None:
    reason = (
        "Leader a re-joining group during Stable; client reason: cached metadata has changed from "
        "(version1: {t=[0]}) at the beginning of the rebalance to (version2: {t=[0, 1]})"
    )
    log = read_lines(preparing(reason))
    assert [item.kind for item in log.evidence("g", 2)] == ["topic.partitions_changed"]


_REQUESTED_LEAVE = "Member {} has left group through explicit `LeaveGroup` request; client reason: done"


@pytest.mark.parametrize(("with_client_reason", "expected"), [("a", [["a"], ["a", "b"]]), ("ab", [["a"], ["b"]])])
def test_leave_request_is_evidence_of_members_without_a_reason(
    with_client_reason: str, expected: list[list[str]]
) -> None:
    evidence = read_lines(
        *(f"[Group g] {_REQUESTED_LEAVE.format(member)}" for member in with_client_reason),
        preparing("explicit `LeaveGroup` request for (a, b) members."),
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
    log = read_lines(preparing("something new"))
    assert log.evidence("g", 2) == [Evidence(source="coordinator-log", reason="something new")]


def test_fence_has_the_later_reason_and_leave_the_earlier_one() -> None:
    log = read_lines(
        "Member m in group g has failed, removing it from the group.",
        "[Group g] Member n has left group through explicit `LeaveGroup` request; client reason: done",
        preparing("removing member m on heartbeat expiration.", 4),
        preparing("explicit `LeaveGroup` request for (n) members.", 4),
    )
    assert [(item.kind, item.reason) for item in log.evidence("g", 5)] == [
        ("member.fenced", "removing member m on heartbeat expiration."),
        ("member.left", "explicit `LeaveGroup` request; client reason: done"),
    ]


def test_oldest_generations_lose_their_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reasons, "_MAX_REMEMBERED_PHASES", 2)
    steps = "Member m left the consumer group.", "Bumped group epoch to 5."
    log = read_lines(*(f"[GroupId {group}] {step}" for group in ("a", "b", "c") for step in steps))
    assert [bool(log.evidence(group, 5)) for group in ("a", "b", "c")] == [False, True, True]


def test_only_the_newest_pending_lines_become_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reasons, "_MAX_PENDING_EVIDENCE", 2)
    lines = [f"[GroupId g] Member m{number} left the consumer group." for number in range(4)]
    log = read_lines(*lines, "[GroupId g] Bumped group epoch to 5.")
    assert kinds(log, 5) == [("member.left", ["m2"]), ("member.left", ["m3"])]


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

    assert [kinds(log, epoch) for epoch in range(2, 7)] == [
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

    assert [kinds(log, epoch) for epoch in range(2, 6)] == [
        [("member.joined", ["a"])],
        [("member.joined", ["b"])],
        [("member.fenced", ["b"])],
        [("member.left", ["a"])],
    ]


def test_all_unclear_reasons_that_name_a_member_are_kept() -> None:
    reasons = [f"Updating metadata for member a during {state}" for state in ("Stable", "PreparingRebalance")]
    log = read_lines(*map(preparing, reasons))
    assert [(item.kind, item.member_ids, item.reason) for item in log.evidence("g", 2)] == [
        (None, ["a"], reason) for reason in reasons
    ]


_PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] "
_JOIN_LINE = _PREFIX + preparing("Adding new member c-1 with group instance id null; client reason: not provided")
_LOAD_LINE = f"{_PREFIX}Loaded classic group g with 2 members."
_LEADER_REJOIN_LINE = _PREFIX + preparing(
    "Leader a-1 re-joining group during Stable; client reason: rebalance failed due to {}Exception"
)
_STABILIZED_LINE = f"{_PREFIX}Stabilized group g generation 2 with 2 members."


def test_coordinator_move_voids_the_rebalance_under_way() -> None:
    log = read_lines(_JOIN_LINE, _LOAD_LINE, _LEADER_REJOIN_LINE.format("Disconnect"), _STABILIZED_LINE)
    (item,) = log.evidence("g", 2)
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
    expired = _PREFIX + preparing("removing member a-1 on heartbeat expiration")
    lines = [_line_at(0, _LOAD_LINE), *(_line_at(seconds, line) for line in (failed, expired, _STABILIZED_LINE))]
    kinds = [item.kind for item in read_lines(*lines).evidence("g", 2)]
    assert kinds.count("member.fenced") == 1
    assert ("coordinator.moved" in kinds) is moved


def test_coordinator_move_is_reported_once_for_one_generation() -> None:
    later = _STABILIZED_LINE.replace("generation 2", "generation 3")
    joins = _JOIN_LINE.replace("old generation 1", "old generation 2")
    lines = _LOAD_LINE, _JOIN_LINE, _JOIN_LINE, _STABILIZED_LINE, joins, later
    log = read_lines(*(_line_at(seconds, line) for seconds, line in enumerate(lines)))
    assert [item.kind for item in log.evidence("g", 2)].count("coordinator.moved") == 1
    assert "coordinator.moved" not in [item.kind for item in log.evidence("g", 3)]


def prepare_line(old: int, reason: str) -> str:
    start = "Preparing to rebalance group g in state PreparingRebalance with old generation"
    return f"{start} {old} (__consumer_offsets-7) (reason: {reason})"


def read_scala_log(*messages: str) -> GroupReasons:
    return read_lines(
        *(
            f"[2024-05-01 10:00:00,123] INFO [GroupCoordinator 1]: {message} (kafka.coordinator.group.GroupCoordinator)"
            for message in messages
        )
    )


def test_kafka_2_0_clears_reasons_at_each_generation() -> None:
    log = read_scala_log(
        "Member c-1 in group g has failed, removing it from the group",
        "Preparing to rebalance group g with old generation 16 (__consumer_offsets-7)",
        "Stabilized group g generation 17 (__consumer_offsets-7)",
        "Assignment received from leader for group g for generation 17",
        "Preparing to rebalance group g with old generation 17 (__consumer_offsets-7)",
        "Stabilized group g generation 18 (__consumer_offsets-7)",
    )
    assert (kinds(log, 17), kinds(log, 18)) == ([("member.fenced", ["c-1"])], [])


def test_kafka_2_4_names_leaver_and_reason_of_the_leaders_rejoin() -> None:
    log = read_scala_log(
        "Member[group.instance.id None, member.id c-b] in group g has left, removing it from the group",
        prepare_line(16, "removing member c-b on LeaveGroup"),
        "Stabilized group g generation 17 (__consumer_offsets-7)",
        prepare_line(17, "Adding new member c-c with group instanceid None"),
        "Stabilized group g generation 18 (__consumer_offsets-7)",
        prepare_line(18, "leader c-a re-joining group during Stable"),
        "Stabilized group g generation 19 (__consumer_offsets-7)",
    )
    assert [kinds(log, number) for number in (17, 18, 19)] == [
        [("member.left", ["c-b"])],
        [("member.joined", ["c-c"])],
        [(None, ["c-a"])],
    ]


_METADATA = (
    "MemberMetadata(memberId={}, groupInstanceId=None, clientId=c, clientHost=/10.0.0.1, sessionTimeoutMs=45000, "
    "rebalanceTimeoutMs=300000, supportedProtocols=List(range))"
)


def left(member: str, reason: str) -> str:
    metadata = _METADATA.format(member)
    return f"Member {metadata} has left group g through explicit `LeaveGroup`; client reason: {reason}"


def remove_line(member: str, reason: str, old: int) -> str:
    return prepare_line(old, f"Removing member {member} on LeaveGroup; client reason: {reason}")


def test_kafka_3_3_logs_a_leave_after_the_next_generation() -> None:
    """GroupCoordinator.scala logs a leave once the group is empty or the remaining members have rejoined."""
    closed, poll_timeout_reason = "the consumer is being closed", "consumer poll timeout has expired."
    log = read_scala_log(
        remove_line("a", poll_timeout_reason, 16),
        left("a", poll_timeout_reason),
        "Stabilized group g generation 17 (__consumer_offsets-7) with 2 members",
        left("b", closed),
        remove_line("c", closed, 17),
        "Group g with generation 18 is now empty (__consumer_offsets-7)",
        left("c", closed),
        prepare_line(18, "Adding new member d with group instance id None; client reason: not provided"),
        "Stabilized group g generation 19 (__consumer_offsets-7) with 1 members",
    )
    assert [kinds(log, number) for number in (17, 18, 19)] == [
        [("member.left", ["a"]), ("member.left", ["b"])],
        [("member.left", ["c"])],
        [("member.joined", ["d"])],
    ]
    assert poll_timeout_reason in log.evidence("g", 17)[0].reason


def test_reasons_belong_to_one_generation_without_its_line() -> None:
    log = read_scala_log(
        remove_line("a", "done", 16),
        remove_line("b", "done", 17),
        "Stabilized group g generation 18 (__consumer_offsets-7) with 1 members",
    )
    assert [kinds(log, number) for number in (17, 18)] == [[("member.left", ["a"])], [("member.left", ["b"])]]


def test_a_classic_member_that_follows_an_epoch_has_not_joined() -> None:
    log = read_lines(
        "[GroupId g] Converted the classic group to a consumer group.",
        "[GroupId g] Member new joins the consumer group using the consumer protocol.",
        "[GroupId g] Bumped group epoch to 5 with metadata hash 1.",
        "[GroupId g] Member c-1 joins the consumer group using the classic protocol.",
        "[GroupId g] Member c-1 joins the consumer group using the classic protocol.",
        "[GroupId g] Dynamic member c-2 has left group through explicit `LeaveGroup` request; client reason: done",
        "[GroupId g] Bumped group epoch to 6 with metadata hash 1.",
    )
    assert [kinds(log, number) for number in (5, 6)] == [
        [(None, []), ("member.joined", ["new"])],
        [(None, ["c-1"]), ("member.left", ["c-2"])],
    ]


def test_a_static_member_that_is_away_has_not_left() -> None:
    log = read_lines(
        "[GroupId g] Static member m with instance id i temporarily left the consumer group.",
        "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer protocol. "
        "Created a new member n to replace the existing member m.",
        "[GroupId g] Member x left the consumer group.",
        "[GroupId g] Bumped group epoch to 9.",
    )
    assert kinds(log, 9) == [("member.left", ["x"])]


def test_a_static_member_that_stays_away_has_left() -> None:
    away = "[GroupId g] Static member m with instance id i temporarily left the consumer group."
    fenced = "[GroupId g] Member {} fenced from the group because its session expired."
    back = (
        "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer protocol. "
        "Created a new member n to replace the existing member m."
    )
    gone = read_lines(away, fenced.format("m"), "[GroupId g] Bumped group epoch to 9.")
    assert [(item.kind, item.reason) for item in gone.evidence("g", 9)] == [
        ("member.left", "temporarily left the group, fenced from the group because its session expired.")
    ]
    events_of_crash = read_lines(away, back, fenced.format("n"), "[GroupId g] Bumped group epoch to 9.")
    assert kinds(events_of_crash, 9) == [("member.fenced", ["n"])]


def test_client_text_naming_another_group_is_ignored() -> None:
    reason = "Stabilized group victim generation 7 (__consumer_offsets-7) with 1 members"
    log = read_scala_log(left("evil", f"[GroupId victim] Member x left the consumer group. {reason}"))
    assert log.evidence("victim", 7) == []
    assert not log._evidence_by_round


def test_old_coordinator_load_voids_the_rebalance_under_way() -> None:
    log = read_scala_log(
        "Member m in group g has failed, removing it from the group",
        "Loading group metadata for g with generation 16",
        prepare_line(
            16,
            "Updating metadata for member a during Stable; client reason: rebalance failed due to "
            "NotCoordinatorException",
        ),
        "Stabilized group g generation 17 (__consumer_offsets-7) with 2 members",
    )
    assert kinds(log, 17) == [("coordinator.moved", [])]


@pytest.mark.parametrize(
    "log_template",
    [
        pytest.param("error when storing group assignment during SyncGroup (member: c-a)", id="2.1 to 2.8"),
        pytest.param("Error when storing group assignment during SyncGroup (member: c-a)", id="3.0 to 3.3"),
        pytest.param(
            "Error COORDINATOR_NOT_AVAILABLE when storing group assignment during SyncGroup (member: c-a)",
            id="3.4 to 3.9",
        ),
        pytest.param(
            "Error COORDINATOR_NOT_AVAILABLE when storing group assignmentduring SyncGroup (member: c-a).",
            id="Java's coordinator",
        ),
    ],
)
def test_failed_appends_name_their_generation(log_template: str) -> None:
    """The log line names the leader, which did not cause the failed append."""
    log = read_scala_log(prepare_line(16, log_template), "Stabilized group g generation 17 (__consumer_offsets-7)")
    (item,) = log.evidence("g", 17)
    assert (item.kind, item.generation, item.member_ids) == (UNDELIVERED, 16, [])
    assert item.reason == f"generation 16 was not delivered: {log_template}"
