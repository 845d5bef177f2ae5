from __future__ import annotations

import re

import pytest
from msgspec import UNSET

from streaming.collect.broker_log import group_reasons
from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.episodes.reasons import application_reasons
from streaming.records.events import Evidence, Stop
from tests.support.broker_logs import read_lines
from tests.support.offsets_topic import GOLDEN


def read(*lines: str) -> GroupReasons:
    return read_lines(lines)


@pytest.fixture
def captured() -> GroupReasons:
    return read(*(GOLDEN / "coordinator-4.3.1.log").read_text().splitlines())


def short(items: list[Evidence]) -> list[tuple[str | None, list[str]]]:
    """Return kind and client ids: a classic member id is the client's id and a random UUID."""
    return [(item.kind, [re.sub(r"-\w{8}-\w{4}-.*", "", member) for member in item.member_ids]) for item in items]


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        (1, [("member.joined", ["A"])]),
        (2, [("member.joined", ["B"])]),
        (3, [(None, ["A"])]),
        (6, [("member.left", ["B"])]),
        (9, [("member.fenced", ["CRASH"])]),
        (12, [("member.left", ["A"]), ("member.fenced", ["inst-1"])]),
        (13, []),
    ],
)
def test_a_real_broker_s_reasons_of_classic_generations(
    captured: GroupReasons, generation: int, expected: list[tuple[str | None, list[str]]]
) -> None:
    assert short(captured.evidence("g-classic", generation)) == expected


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (2, [("member.joined", ["ptNGWqzqSXiZvjcZ48JIUQ"])]),
        (3, [("member.joined", ["41WqgB++Qq2Q41xwLvbDew"])]),
        (4, []),
        (5, [("member.left", ["41WqgB++Qq2Q41xwLvbDew"])]),
        (7, [("member.fenced", ["Mx8aQlIyR8u15dEDNlLEqw"])]),
        (8, [("member.joined", ["5Z4VqXGQREyPgzmziTDPfg"])]),
    ],
)
def test_a_real_broker_s_reasons_of_epochs(
    captured: GroupReasons, epoch: int, expected: list[tuple[str | None, list[str]]]
) -> None:
    assert short(captured.evidence("g-consumer", epoch)) == expected


def test_kafka_s_log_layout_and_the_older_coordinator() -> None:
    log = read(
        "[2024-05-01 10:00:00,123] INFO [GroupCoordinator 1]: Preparing to rebalance group my group in state "
        "PreparingRebalance with old generation 41 (__consumer_offsets-7) (reason: removing member "
        "c-1 on heartbeat expiration) (kafka.coordinator.group.GroupCoordinator)"
    )

    (found,) = log.evidence("my group", 42)
    reason = "removing member c-1 on heartbeat expiration"
    assert found == Evidence(source="coordinator-log", reason=reason, member_ids=["c-1"], kind="member.fenced")


def test_several_members_in_a_request_client_reason_first() -> None:
    log = read(
        "[Group g] Member a has left group through explicit `LeaveGroup` request; client reason: the consumer is "
        "being closed",
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: explicit "
        "`LeaveGroup` request for (a, b) members.).",
        "Stabilized group g generation 2 with 1 members.",
    )

    assert [(item.kind, item.member_ids, item.reason) for item in log.evidence("g", 2)] == [
        ("member.left", ["a"], "explicit `LeaveGroup` request; client reason: the consumer is being closed"),
        ("member.left", ["a", "b"], "explicit `LeaveGroup` request for (a, b) members."),
    ]


def test_request_about_members_already_removed_adds_nothing() -> None:
    log = read(
        "[Group g] Member a has left group through explicit `LeaveGroup` request; client reason: done",
        "[Group g] Member b has left group through explicit `LeaveGroup` request; client reason: done",
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: explicit "
        "`LeaveGroup` request for (a, b) members.).",
        "Stabilized group g generation 2 with 1 members.",
    )

    assert [(item.kind, item.member_ids) for item in log.evidence("g", 2)] == [
        ("member.left", ["a"]),
        ("member.left", ["b"]),
    ]


def test_reasons_do_not_stay_for_the_next_generation() -> None:
    log = read(
        "Member a in group g has failed, removing it from the group.",
        "Group g with generation 2 is now empty.",
        "Stabilized group g generation 3 with 1 members.",
    )

    assert [item.kind for item in log.evidence("g", 2)] == ["member.fenced"]
    assert log.evidence("g", 3) == []


def test_grown_topic_is_the_reason_of_the_leaders_rejoin() -> None:
    log = read(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Leader a "
        "re-joining group during Stable; client reason: cached metadata has changed from (version1: {t=[0]}) at "
        "the beginning of the rebalance to (version2: {t=[0, 1]}))."
    )

    assert [item.kind for item in log.evidence("g", 2)] == ["topic.partitions_changed"]


def test_unrelated_lines_are_skipped() -> None:
    log = read("INFO Loading group metadata", "", "Group of something else", "[GroupId g] something new")

    assert log.evidence("g", 1) == []


@pytest.mark.parametrize(("length", "kinds"), [(500, ["member.joined"]), (501, [])])
def test_implausible_member_ids_are_not_matched(length: int, kinds: list[str]) -> None:
    group = "g" * length
    log = read(
        f"[GroupId {group}] Member m joins the consumer group using the consumer protocol.",
        f"[GroupId {group}] Bumped group epoch to 2 with metadata hash 1.",
    )

    assert [item.kind for item in log.evidence(group, 2)] == kinds


def test_reason_without_a_member_is_evidence_about_none() -> None:
    log = read(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: something new)."
    )

    assert log.evidence("g", 2) == [
        Evidence(source="coordinator-log", reason="something new", member_ids=[], kind=None)
    ]


_BUMPED = "[GroupId {}] Bumped group epoch to 5."
_PREPARING = "Preparing to rebalance group g in state PreparingRebalance with old generation 4 (reason: {})."


def epochs(*groups: str) -> list[str]:
    """Return log lines of groups, one after the other: a member leaves, and the epoch becomes 5."""
    return [
        line
        for group in groups
        for line in (
            f"[GroupId {group}] Member m left the consumer group.",
            f"[GroupId {group}] Bumped group epoch to 5.",
        )
    ]


def test_second_line_of_a_fence_and_first_of_a_leave_count() -> None:
    log = read(
        "Member m in group g has failed, removing it from the group.",
        "[Group g] Member n has left group through explicit `LeaveGroup` request; client reason: done",
        _PREPARING.format("removing member m on heartbeat expiration."),
        _PREPARING.format("explicit `LeaveGroup` request for (n) members."),
    )
    assert [(one.kind, one.reason) for one in log.evidence("g", 5)] == [
        ("member.fenced", "removing member m on heartbeat expiration."),
        ("member.left", "explicit `LeaveGroup` request; client reason: done"),
    ]


def test_the_newest_generations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reasons, "_REMEMBERED", 2)
    log = read(*epochs("a", "b", "c"))
    assert [bool(log.evidence(group, 5)) for group in ("a", "b", "c")] == [False, True, True]


def test_the_newest_lines_between_two_generations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reasons, "_PENDING", 2)
    lines = [f"[GroupId g] Member m{number} left the consumer group." for number in range(4)]
    found = read(*lines, "[GroupId g] Bumped group epoch to 5.").evidence("g", 5)
    assert [(one.kind, one.member_ids) for one in found] == [("member.left", ["m2"]), ("member.left", ["m3"])]


def causes(log: GroupReasons, first: int, last: int) -> list[list[tuple[str | None, list[str]]]]:
    epochs = range(first, last + 1)
    return [[(one.kind, one.member_ids) for one in log.evidence("g", epoch)] for epoch in epochs]


def test_share_group_member_end_is_its_next_epoch() -> None:
    log = read(
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


def test_members_of_a_streams_group() -> None:
    log = read(
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


def test_end_before_any_epoch_waits_for_the_next() -> None:
    log = read("[GroupId g] Member a left the share group.", "[GroupId g] Bumped group epoch to 9.")

    assert [one.kind for one in log.evidence("g", 9)] == ["member.left"]


def test_unclear_reasons_that_name_a_member_all_stay() -> None:
    log = read(
        *(
            "Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
            f"(reason: Updating metadata for member a {why})."
            for why in ("during Stable", "during PreparingRebalance")
        )
    )
    assert [(one.kind, one.member_ids, one.reason) for one in log.evidence("g", 2)] == [
        (None, ["a"], "Updating metadata for member a during Stable"),
        (None, ["a"], "Updating metadata for member a during PreparingRebalance"),
    ]


_HAD = "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] "
_COMES = (
    f"{_HAD}Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
    "(reason: Adding new member c-1 with group instance id null; client reason: not provided)."
)
_LOADS = f"{_HAD}Loaded classic group g with 2 members."
_AGAIN = (
    f"{_HAD}Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Leader a-1 "
    "re-joining group during Stable; client reason: rebalance failed due to {}Exception)."
)
_WHOLE = f"{_HAD}Stabilized group g generation 2 with 2 members."


def test_coordinator_move_voids_the_rebalance_under_way() -> None:
    (item,) = read(_COMES, _LOADS, _AGAIN.format("Disconnect"), _WHOLE).evidence("g", 2)
    assert (item.kind, item.member_ids) == ("coordinator.moved", [])
    assert "rebalance failed due to DisconnectException" in item.reason


@pytest.mark.parametrize(
    "lines",
    [
        (_AGAIN.format("Disconnect"), _WHOLE),  # the coordinator is the same
        (_LOADS, _AGAIN.format("RebalanceInProgress"), _WHOLE),  # the coordinator answered
        (_LOADS, _WHOLE.replace("2 with", "1 with"), _AGAIN.format("Disconnect"), _WHOLE),  # it has answered since
    ],
)
def test_a_rebalance_is_not_for_a_coordinator_that_moved(lines: tuple[str, ...]) -> None:
    assert [item.kind for item in read(*lines).evidence("g", 2)] == [None]


def _at(seconds: int, line: str) -> str:
    return f"[2026-05-01 10:{seconds // 60:02}:{seconds % 60:02},000] INFO {line} (org.apache.kafka.Group)"


@pytest.mark.parametrize(("seconds", "moved"), [(31, True), (90, True), (91, False), (3_000, False)])
def test_sessions_ended_after_a_move_are_reported_with_it(seconds: int, *, moved: bool) -> None:
    failed = f"{_HAD}Member a-1 in group g has failed, removing it from the group."
    expired = (
        f"{_HAD}Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
        "(reason: removing member a-1 on heartbeat expiration)."
    )
    lines = [_at(0, _LOADS), *(_at(seconds, line) for line in (failed, expired, _WHOLE))]
    kinds = [item.kind for item in read(*lines).evidence("g", 2)]
    assert kinds.count("member.fenced") == 1
    assert ("coordinator.moved" in kinds) is moved


def test_coordinator_move_is_reported_once_for_one_generation() -> None:
    later = _WHOLE.replace("generation 2", "generation 3")
    comes = _COMES.replace("old generation 1", "old generation 2")
    log = read(*(_at(place, line) for place, line in enumerate((_LOADS, _COMES, _COMES, _WHOLE, comes, later))))
    assert [item.kind for item in log.evidence("g", 2)].count("coordinator.moved") == 1
    assert "coordinator.moved" not in [item.kind for item in log.evidence("g", 3)]


def test_an_application_s_reason_is_the_story_s() -> None:
    line = (
        f"{_HAD}Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
        "(reason: Leader a-1 re-joining group during Stable; client reason: app asked)."
    )
    found = read(line, _WHOLE).evidence("g", 2)
    assert application_reasons(found) == ["app asked"]
    assert [item.member_ids for item in found] == [["a-1"]]


#: 2026-11-21 11:45 in UTC.
MINUTE = 1_795_261_500_000


def line(at: str, said: str) -> str:
    return f"[2026-11-21 11:45:{at}] INFO [GroupCoordinator 1]: {said} (org.apache.kafka.coordinator.group.X)"


def prepared(at: str, reason: str = "removing member m-2 on heartbeat expiration") -> str:
    return line(at, f"Preparing to rebalance group g in state Stable with old generation 4 (reason: {reason})")


JOINED = "Adding new member m-3 with group instance id null"
REJOINED = "Updating metadata for member m-1 during Stable"


def stabilized(at: str) -> str:
    return line(at, "Stabilized group g generation 5 with 2 members.")


def assigned(at: str) -> str:
    return line(at, "Assignment received from leader m-1 for group g for generation 5. The group has 2 members.")


def undated(text: str) -> str:
    return text.partition("] ")[2]


def stop(*lines: str, record: int = 5_010, group: str = "g", number: int = 5) -> Stop | None:
    return read_lines(lines).phases.stop(group, number, MINUTE + record)


def test_a_real_coordinator() -> None:
    lines = (GOLDEN / "coordinator-4.3.1.log").read_text().splitlines()
    at = MINUTE + 11_268  # timestamp of the record
    assert stop(*lines, record=at - MINUTE, group="g-classic", number=2) == Stop(
        stopped_after=MINUTE + 10_828, stopped_before=MINUTE + 11_264
    )
    assert stop(*lines, record=12_275, group="g-classic", number=3) == Stop(stopped_before=MINUTE + 12_271)


@pytest.mark.parametrize("zone", [0, 3_600_000, -12_600_000, 20_700_000])
def test_log_time_zone_does_not_matter(zone: int) -> None:
    lines = prepared("01,000"), stabilized("04,900"), assigned("05,000")
    assert stop(*lines, record=5_010 + zone) == Stop(
        stopped_after=MINUTE + zone + 1_000, stopped_before=MINUTE + zone + 4_900
    )


def test_phase_without_assignment_is_the_start_of_the_next() -> None:
    first = prepared("01,000"), stabilized("02,000")
    lines = *first, prepared("02,500", JOINED), stabilized("04,900"), assigned("05,000")
    assert stop(*lines) == Stop(stopped_after=MINUTE + 1_000, stopped_before=MINUTE + 4_900)


@pytest.mark.parametrize("reasons", [(REJOINED,), (JOINED, REJOINED), (REJOINED, JOINED)])
def test_member_that_rejoins_by_itself_stopped_before(reasons: tuple[str, ...]) -> None:
    lines = [prepared("01,000", reason) for reason in reasons]
    found = stop(*lines, stabilized("04,900"), assigned("05,000"))
    assert found is not None
    assert found.stopped_after is UNSET


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (assigned("05,000"),),
        (prepared("01,000"), stabilized("04,900")),
        (prepared("01,000", REJOINED), assigned("05,000")),
        (undated(prepared("01,000")), undated(stabilized("04,900")), assigned("05,000")),
        (prepared("99,000"), assigned("05,000")),
    ],
)
def test_missing_phases_are_left_out(lines: tuple[str, ...]) -> None:
    assert stop(*lines) is None


def test_lines_of_other_generations_are_no_evidence() -> None:
    lines = prepared("01,000"), stabilized("04,900"), assigned("05,000")
    assert stop(*lines, record=6_001) is None
    assert stop(*lines, number=6) is None


def test_each_generation_has_a_phase_of_its_own() -> None:
    lines = prepared("01,000"), stabilized("04,900"), assigned("05,000")
    assert stop(*lines, assigned("06,000")) == stop(*lines)


def test_repeated_generation_has_no_join_phase() -> None:
    log = read_lines((prepared("01,000"), stabilized("04,900"), assigned("05,000")))
    assert log.phases.stop("g", 5, MINUTE + 65_010) is None
    assert log.phases.stop("g", 5, MINUTE + 5_010) is not None
    assert log.phases.stop("g", 5, MINUTE + 5_020) is None


def test_whole_seconds_are_bounds_in_whole_seconds() -> None:
    lines = [text.replace(",000]", "]").replace(",900]", "]") for text in (prepared("01,000"), stabilized("04,900"))]
    assert stop(*lines, assigned("05,000").replace(",000]", "]"), record=5_990) == Stop(
        stopped_after=MINUTE + 1_000, stopped_before=MINUTE + 4_999
    )
