from __future__ import annotations

import re

import pytest

from streaming.collect.coordinator_log import CoordinatorLog
from streaming.wire.events import Evidence
from tests.support.offsets_topic import GOLDEN


def read(*lines: str) -> CoordinatorLog:
    log = CoordinatorLog()
    for line in lines:
        log.feed(line)
    return log


@pytest.fixture
def captured() -> CoordinatorLog:
    return read(*(GOLDEN / "coordinator-4.3.1.log").read_text().splitlines())


def short(items: list[Evidence]) -> list[tuple[str | None, list[str]]]:
    """Kind and client ids: a classic member id is the client's id and a random UUID."""
    return [
        (item.kind, [re.sub(r"-\w{8}-\w{4}-.*", "", member) for member in item.member_ids]) for item in items
    ]


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
    captured: CoordinatorLog, generation: int, expected: list[tuple[str | None, list[str]]]
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
    captured: CoordinatorLog, epoch: int, expected: list[tuple[str | None, list[str]]]
) -> None:
    assert short(captured.evidence("g-consumer", epoch)) == expected


def test_kafka_s_log_layout_and_the_older_coordinator() -> None:
    log = read(
        "[2024-05-01 10:00:00,123] INFO [GroupCoordinator 1]: Preparing to rebalance group my group in state "
        "PreparingRebalance with old generation 41 (__consumer_offsets-7) (reason: removing member "
        "c-1 on heartbeat expiration) (kafka.coordinator.group.GroupCoordinator)",
    )

    assert log.evidence("my group", 42) == [
        Evidence(
            source="coordinator-log",
            reason="removing member c-1 on heartbeat expiration",
            member_ids=["c-1"],
            kind="member.fenced",
        )
    ]


def test_several_members_in_one_request_and_the_client_s_reason_first() -> None:
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


def test_reasons_do_not_stay_for_the_next_generation() -> None:
    log = read(
        "Member a in group g has failed, removing it from the group.",
        "Group g with generation 2 is now empty.",
        "Stabilized group g generation 3 with 1 members.",
    )

    assert [item.kind for item in log.evidence("g", 2)] == ["member.fenced"]
    assert log.evidence("g", 3) == []


def test_a_grown_topic_is_why_the_leader_came_again() -> None:
    log = read(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Leader a "
        "re-joining group during Stable; client reason: cached metadata has changed from (version1: {t=[0]}) at "
        "the beginning of the rebalance to (version2: {t=[0, 1]}))."
    )

    assert [item.kind for item in log.evidence("g", 2)] == ["topic.partitions_changed"]


def test_other_lines_are_passed_over() -> None:
    log = read("INFO Loading group metadata", "", "Group of something else", "[GroupId g] something new")

    assert log.evidence("g", 1) == []


@pytest.mark.parametrize(("length", "kinds"), [(500, ["member.joined"]), (501, [])])
def test_ids_that_only_an_attacker_chooses_are_not_looked_for(length: int, kinds: list[str]) -> None:
    group = "g" * length
    log = read(
        f"[GroupId {group}] Member m joins the consumer group using the consumer protocol.",
        f"[GroupId {group}] Bumped group epoch to 2 with metadata hash 1.",
    )

    assert [item.kind for item in log.evidence(group, 2)] == kinds


def test_a_reason_that_names_nobody_is_evidence_about_nobody() -> None:
    log = read(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: something new)."
    )

    assert log.evidence("g", 2) == [
        Evidence(source="coordinator-log", reason="something new", member_ids=[], kind=None)
    ]
