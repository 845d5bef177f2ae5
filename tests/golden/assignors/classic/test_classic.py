"""Assignments of the client classes of Kafka 4.3.1 (``tests/oracle/record_classic.py``), and published walkthroughs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from assignors.model import Member, Topic
from assignors.registry import find
from tests.support.groups import assignment_lists, group_of

PROVENANCE, *LINES = map(json.loads, Path(__file__).with_name("oracle-4.3.1.jsonl").read_text().splitlines())


def test_recorded_cases_are_of_kafka_4_3_1() -> None:
    assert PROVENANCE["provenance"] == "org.apache.kafka:kafka_2.13:4.3.1"
    assert {line["assignor"] for line in LINES} == {"range", "roundrobin", "sticky", "cooperative-sticky"}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["assignor"])
def test_assignments_equal_those_recorded_from_the_jars(line: dict[str, Any]) -> None:
    assert assignment_lists(find("classic", line["assignor"]).assign(*group_of(line["case"]))) == line["assignment"]


OwnedPartitions = Mapping[str, Mapping[str, Sequence[int]]]


def assigned(
    name: str, counts: dict[str, int], subscriptions: Mapping[str, Sequence[str]], owned: OwnedPartitions | None = None
) -> dict[str, dict[str, list[int]]]:
    topics = {topic: Topic(topic, count) for topic, count in counts.items()}
    members = [
        Member(member, tuple(names), owned=dict((owned or {}).get(member, {})), generation=1)
        for member, names in subscriptions.items()
    ]
    return assignment_lists(find("classic", name).assign(topics, members))


def subscribe_all_to(topics: Sequence[str], *members: str) -> dict[str, Sequence[str]]:
    return dict.fromkeys(members, topics)


UNEQUAL_SUBSCRIPTIONS = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}


@pytest.mark.parametrize(
    ("name", "counts", "subscriptions", "answer"),
    [
        pytest.param(
            "range",
            {"t": 5},
            subscribe_all_to(["t"], "c0", "c1", "c2"),
            {"c0": {"t": [0, 1]}, "c1": {"t": [2, 3]}, "c2": {"t": [4]}},
            id="range: extras to the first",
        ),
        pytest.param(
            "range",
            {"Ta": 2, "Tb": 2},
            subscribe_all_to(["Ta", "Tb"], "Ca", "Cb", "Cc"),
            {"Ca": {"Ta": [0], "Tb": [0]}, "Cb": {"Ta": [1], "Tb": [1]}, "Cc": {}},
            id="range: the last stays idle",
        ),
        pytest.param(
            "roundrobin",
            {"Ta": 2, "Tb": 2},
            subscribe_all_to(["Ta", "Tb"], "Ca", "Cb", "Cc"),
            {"Ca": {"Ta": [0], "Tb": [1]}, "Cb": {"Ta": [1]}, "Cc": {"Tb": [0]}},
            id="roundrobin: one circle over topics",
        ),
        pytest.param(
            "roundrobin",
            {"t0": 3, "t1": 3},
            subscribe_all_to(["t0", "t1"], "C0", "C1"),
            {"C0": {"t0": [0, 2], "t1": [1]}, "C1": {"t0": [1], "t1": [0, 2]}},
            id="roundrobin: odd topics alternate",
        ),
        pytest.param(
            "roundrobin",
            {"T0": 3, "T1": 2, "T2": 4},
            {"C0": ["T0", "T1"], "C1": ["T1", "T2"], "C2": ["T0", "T2"]},
            {"C0": {"T0": [0, 2], "T1": [1]}, "C1": {"T1": [0], "T2": [0, 2]}, "C2": {"T0": [1], "T2": [1, 3]}},
            id="roundrobin: who doesn't subscribe is passed",
        ),
        pytest.param(
            "roundrobin",
            {"t0": 1, "t1": 2, "t2": 3},
            UNEQUAL_SUBSCRIPTIONS,
            {"C0": {"t0": [0]}, "C1": {"t1": [0]}, "C2": {"t1": [1], "t2": [0, 1, 2]}},
            id="roundrobin: unequal subscriptions, uneven",
        ),
        pytest.param(
            "sticky",
            {"t0": 1, "t1": 2, "t2": 3},
            UNEQUAL_SUBSCRIPTIONS,
            {"C0": {"t0": [0]}, "C1": {"t1": [0, 1]}, "C2": {"t2": [0, 1, 2]}},
            id="sticky: unequal subscriptions, even",
        ),
    ],
)
def test_documented_examples_are_assigned(
    name: str, counts: dict[str, int], subscriptions: dict[str, Sequence[str]], answer: dict[str, dict[str, list[int]]]
) -> None:
    assert assigned(name, counts, subscriptions) == answer


def test_sticky_moves_fewer_partitions_than_round_robin() -> None:
    counts, topics = {"T0": 3, "T1": 3}, ["T0", "T1"]
    before = assigned("sticky", counts, subscribe_all_to(topics, "C0", "C1", "C2"))
    assert before == {"C0": {"T0": [0], "T1": [0]}, "C1": {"T0": [1], "T1": [1]}, "C2": {"T0": [2], "T1": [2]}}
    left = subscribe_all_to(topics, "C0", "C1")
    assert assigned("sticky", counts, left, before) == {
        "C0": {"T0": [0, 2], "T1": [0]},
        "C1": {"T0": [1], "T1": [1, 2]},
    }
    assert assigned("roundrobin", counts, left) == {"C0": {"T0": [0, 2], "T1": [1]}, "C1": {"T0": [1], "T1": [0, 2]}}


def test_cooperative_assigns_a_new_member_in_two_rounds() -> None:
    owned = {"consumer 1": {"p": [0, 1, 2]}, "consumer 2": {"p": [3, 4, 5]}, "consumer 3": {}}
    group = subscribe_all_to(["p"], *owned)
    first = assigned("cooperative-sticky", {"p": 6}, group, owned)
    assert first == {"consumer 1": {"p": [0, 1]}, "consumer 2": {"p": [3, 4]}, "consumer 3": {}}
    second = assigned("cooperative-sticky", {"p": 6}, group, first)
    assert second == {"consumer 1": {"p": [0, 1]}, "consumer 2": {"p": [3, 4]}, "consumer 3": {"p": [2, 5]}}


def test_only_last_owner_in_map_order_loses_a_partition() -> None:
    """A fourth member joins: one of three owners gives up a partition, which is unassigned in round one."""
    owned = {"c1": {"t": [0, 3]}, "c2": {"t": [1, 4]}, "c3": {"t": [2, 5]}}
    answer = assigned("cooperative-sticky", {"t": 6}, subscribe_all_to(["t"], "c1", "c2", "c3", "new"), owned)
    assert answer == {"c1": {"t": [0, 3]}, "c2": {"t": [1]}, "c3": {"t": [2, 5]}, "new": {}}


@pytest.mark.parametrize(
    ("order", "answer"),
    [(("a", "b"), {"a": {"t": [0]}, "b": {"t": [1]}}), (("b", "a"), {"a": {"t": [0]}, "b": {"t": [1]}})],
)
def test_sticky_gives_an_unsubscribed_first_member_partitions(
    order: tuple[str, str], answer: dict[str, dict[str, list[int]]]
) -> None:
    """The coordinator's HashMap determines the order of members: "a" is before "b", even if "b" joined first."""
    subscriptions = {"a": [], "b": ["t"]}
    assert assigned("sticky", {"t": 2}, {name: subscriptions[name] for name in order}) == answer
