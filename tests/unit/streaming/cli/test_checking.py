import json
from typing import Any

import pytest

from assignors.errors import BadInput, InvalidGroup, UnknownAssignor
from assignors.placement.replicas import InvalidPlacement
from streaming.cli.checking import check_answer
from streaming.cli.json_lines import MalformedJson

GROUP = {
    "assignor": "range",
    "topics": {"t": {"partitions": 3}},
    "members": [{"memberId": "a", "topics": ["t"]}, {"memberId": "b", "topics": ["t"]}],
}


def group(assignment: Any, **fields: Any) -> bytes:
    return json.dumps({**GROUP, "assignment": assignment, **fields}).encode()


def test_valid_assignment_has_no_violations() -> None:
    valid_assignment = {"a": {"t": [0, 1]}, "b": {"t": [2]}}
    assert check_answer(group(valid_assignment)) == {"ok": True, "rules": ["valid", "balanced"], "violations": []}
    assert check_answer(group(valid_assignment), exact=True) == {
        "ok": True,
        "rules": ["valid", "balanced", "exact"],
        "violations": [],
    }


def test_violations_are_listed() -> None:
    assert check_answer(group({"a": {"t": [0, 1, 2]}, "b": {"t": [2]}})) == {
        "ok": False,
        "rules": ["valid", "balanced"],
        "violations": [
            "valid: t-2 given to a and to b",
            "balanced: a owns 3 partitions of t, b 1; a partition of t could move",
        ],
    }


def test_group_without_assignor_is_checked_for_validity() -> None:
    assert check_answer(group({"a": {"t": [0, 1, 2]}}, assignor=None)) == {
        "ok": True,
        "rules": ["valid"],
        "violations": [],
    }


def test_exact_requires_the_identical_assignment() -> None:
    assert check_answer(group({"a": {"t": [0]}, "b": {"t": [1, 2]}}), exact=True)["violations"] == [
        "exact: a should hold t-1 under range",
        "exact: b should not hold t-1 under range",
    ]
    with pytest.raises(InvalidGroup, match="assignor: missing"):
        check_answer(group({"a": {"t": [0, 1, 2]}}, assignor=None), exact=True)


def test_invalid_groups_are_refused() -> None:
    with pytest.raises(UnknownAssignor):
        check_answer(group({}, assignor="best"))
    with pytest.raises(UnknownAssignor, match="protocol: 'best' is not one of classic"):
        check_answer(group({}, assignor=None, protocol="best"))
    with pytest.raises(MalformedJson):
        check_answer(b"{")


def placement(placed: Any, brokers: Any = "0:r1,1:r2") -> bytes:
    return json.dumps({"brokers": brokers, "placement": placed}).encode()


def test_even_placement_is_ok() -> None:
    assert check_answer(placement({"0": [0, 1], "1": [1, 0]})) == {
        "ok": True,
        "rules": ["rack-spread", "even-replicas", "even-leaders"],
        "violations": [],
        "leaders": {"0": 1, "1": 1},
        "replicas": {"0": 2, "1": 2},
        "moves": [],
        "leaderChanges": [],
    }


def test_violated_placement_lists_moves_to_a_valid_one() -> None:
    assert check_answer(placement({"t": {"0": [0, 2], "1": [0, 1]}, "u": {"0": [0]}}, "0:r1,1:r2,2:r1")) == {
        "ok": False,
        "rules": ["rack-spread", "even-replicas", "even-leaders"],
        "violations": [
            "rack-spread: partition t-0 has two replicas in a rack while another rack has none",
            "even-replicas: broker 0 has 3, broker 1 1",
            "even-leaders: broker 0 has 3, broker 1 0",
        ],
        "leaders": {"0": 3, "1": 0, "2": 0},
        "replicas": {"0": 3, "1": 1, "2": 1},
        "moves": [{"partition": "t-0", "from": 0, "to": 1}],
        "leaderChanges": [{"partition": "t-0", "from": 1, "to": 2}, {"partition": "t-1", "from": 0, "to": 1}],
    }


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (placement({}), BadInput, "placement: contains no partition"),
        (placement({"x": [0]}), BadInput, "placement: 'x' is not a partition number"),
        (placement({"0": ["a"]}), BadInput, "placement.0[0]: expected `int`, got `str`"),
        (placement({"t": {"0": [1.5]}}), BadInput, "placement.t.0[0]: expected `int`, got `float`"),
        (placement({"0": 5}), BadInput, "placement.0: expected `array`, got `int`"),
        (placement(7), BadInput, "placement: expected `object`, got `int`"),
        (placement({"0": [0], "00": [1]}), BadInput, "placement: partition 0 is listed twice"),
        (placement({"t": {"1": [0], "01": [1]}}), BadInput, "placement: partition t-1 is listed twice"),
        (placement({str(2**31): [0]}), BadInput, "placement: '2147483648' is not a partition number"),
        (placement({"0": [7]}), InvalidPlacement, "placement: partition 0 is on broker 7"),
        (placement({"0": [0]}, "a"), InvalidPlacement, "brokers: 'a' is not ID"),
        (b'{"placement": {"0": [0]}}', BadInput, "brokers: missing"),
    ],
)
def test_invalid_placements_are_refused(data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        check_answer(data)
    assert str(refused.value).startswith(message)
