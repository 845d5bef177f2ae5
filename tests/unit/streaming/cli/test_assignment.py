import json
from typing import Any

import pytest

from assignors.errors import BadInput, InvalidGroup, UnknownAssignor
from streaming.cli.assignment import assignment_answer, comparison_answer

MEMBERS = [
    {"memberId": "a", "topics": ["t"], "owned": {"t": [0, 3]}},
    {"memberId": "b", "topics": ["t"], "owned": {"t": [1, 2]}},
]


def line(**fields: Any) -> bytes:
    return json.dumps({"topics": {"t": {"partitions": 4}}, "members": MEMBERS, **fields}).encode()


def test_assignment_answer_lists_every_member() -> None:
    members = [{"memberId": "a", "topics": []}, {"memberId": "b", "topics": ["none"]}]
    assert assignment_answer(line(assignor="roundrobin", members=members)) == {"assignment": {"a": {}, "b": {}}}
    assert assignment_answer(line(assignor="range", members=[])) == {"assignment": {}}


def test_explained_answer_lists_the_changes_of_each_member() -> None:
    response = assignment_answer(line(assignor="range"), explained=True)
    assert response["members"]["a"] == {
        "owned": {"t": [0, 3]},
        "revoked": {"t": [3]},
        "assigned": {"t": [1]},
        "kept": {"t": [0]},
        "decisions": (
            {"rule": "range", "topic": "t", "partitions": (0, 1), "why": "subscriber 1 of 2: 2 each"},
            {
                "rule": "recomputed",
                "topic": "t",
                "partitions": (3,),
                "why": "given to b: this assignor doesn't look at what was owned",
            },
        ),
    }


def test_zookeeper_assignment_accepts_known_kafka_versions() -> None:
    members = [{"memberId": "b", "streams": {"t": 2}}, {"memberId": "a", "streams": {"t": 1}}]
    request = {"protocol": "zookeeper", "assignor": "range", "members": members}
    expected = {"assignment": {"a-0": {"t": [0, 1]}, "b-0": {"t": [2]}, "b-1": {"t": [3]}}}
    assert assignment_answer(line(**request)) == assignment_answer(line(**request, kafkaVersion="0.8.2")) == expected
    with pytest.raises(BadInput, match="kafkaVersion: '7'"):
        assignment_answer(line(**request, kafkaVersion="7"))


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(UnknownAssignor, match="protocol: 'carrier-pigeon' is not one of classic"):
        assignment_answer(line(assignor="range", protocol="carrier-pigeon"))
    with pytest.raises(UnknownAssignor, match="protocol: 'carrier-pigeon' is not one of classic"):
        comparison_answer(line(protocol="carrier-pigeon"))


def test_compare_lists_every_client_assignor() -> None:
    compared = comparison_answer(line())["compared"]
    assert compared["range"] == {
        "assignment": {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}},
        "revoked": 2,
        "assigned": 2,
        "kept": 2,
        "moved": 2,
        "most": 2,
        "least": 2,
    }
    moves = [(name, answer["moved"]) for name, answer in compared.items()]
    assert moves == [("range", 2), ("roundrobin", 2), ("sticky", 0), ("cooperative-sticky", 0)]


def test_order_of_owned_partitions_does_not_matter() -> None:
    claims_in_reverse_order = [member | {"owned": {"t": member["owned"]["t"][::-1]}} for member in MEMBERS]
    assert comparison_answer(line(members=claims_in_reverse_order)) == comparison_answer(line())


def test_comparison_shows_the_error_of_an_assignor() -> None:
    members = [{"memberId": "a", "streams": {"t": 1, "u": 1}}, {"memberId": "b", "streams": {"t": 1}}]
    topics = {"t": {"partitions": 2}, "u": {"partitions": 1}}
    request = line(protocol="zookeeper", kafkaVersion="0.8.2", topics=topics, members=members)
    compared = comparison_answer(request)["compared"]
    assert compared["roundrobin"]["error"]["type"] == "InvalidGroup"
    assert compared["range"]["assignment"] == {"a-0": {"t": [0], "u": [0]}, "b-0": {"t": [1]}}


def remove_last_partitions(
    assignor: str, owned: dict[str, dict[str, list[int]]], *, has_unequal_subscriptions: bool = False
) -> bytes:
    members = [
        {
            "memberId": name,
            "topics": ["t", "u"] if has_unequal_subscriptions and name == "c1" else ["t"],
            "owned": share,
            "generation": 1,
        }
        for name, share in owned.items()
    ]
    topics = {"t": {"partitions": 3}, "u": {"partitions": 2}}
    return json.dumps({"assignor": assignor, "topics": topics, "members": members}).encode()


@pytest.mark.parametrize(
    ("assignor", "answered"),
    [
        ("range", {"c1": {"t": [0, 1]}, "c2": {"t": [2]}}),
        ("roundrobin", {"c1": {"t": [0, 2]}, "c2": {"t": [1]}}),
        ("sticky", {"c1": {"t": [1, 2]}, "c2": {"t": [0]}}),
        ("cooperative-sticky", {"c1": {"t": [1, 2]}, "c2": {"t": [0]}}),
    ],
)
def test_removed_partitions_are_dropped(assignor: str, answered: dict[str, dict[str, list[int]]]) -> None:
    response = assignment_answer(
        remove_last_partitions(assignor, {"c1": {"t": [1, 2, 7, 8, 9]}, "c2": {}}), explained=True
    )
    assert response["assignment"] == answered
    assert {
        "rule": "no-such-partition",
        "topic": "t",
        "partitions": (7, 8, 9),
        "why": "t has 3 partitions: dropped",
    } in response["members"]["c1"]["decisions"]


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_keeps_owners_with_different_subscriptions(assignor: str) -> None:
    line = remove_last_partitions(
        assignor, {"c1": {"t": [0, 7], "u": [1]}, "c2": {"t": [1, 8]}}, has_unequal_subscriptions=True
    )
    response = assignment_answer(line, explained=True)
    assert response["assignment"] == {"c1": {"t": [0, 7], "u": [0, 1]}, "c2": {"t": [1, 2, 8]}}
    assert [
        decision["why"]
        for decision in response["members"]["c2"]["decisions"]
        if decision["rule"] == "no-such-partition"
    ] == ["t has 3 partitions; this assignor keeps what was owned"]


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_refuses_owned_partitions_that_do_not_exist(assignor: str) -> None:
    with pytest.raises(InvalidGroup) as refused:
        assignment_answer(remove_last_partitions(assignor, {"c1": {"t": [7, 8]}, "c2": {"t": [9]}}))
    assert str(refused.value) == (
        "members: some own partitions that do not exist (t has 3), so others can't be "
        "assigned; Kafka's assignor fails with IllegalStateException"
    )
