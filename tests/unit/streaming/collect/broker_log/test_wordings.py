"""Reasons of generations from the log lines of older Kafka releases and of migrating groups."""

import pytest

from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.records.events import UNDELIVERED
from tests.support.broker_logs import read_lines


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


def kinds(log: GroupReasons, number: int) -> list[tuple[str | None, list[str]]]:
    return [(item.kind, item.member_ids) for item in log.evidence("g", number)]


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
