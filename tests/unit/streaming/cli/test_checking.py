"""The commands ``check`` and ``place``: assignments and placements, exit statuses and error messages."""

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

from assignors.errors import BadInput, InvalidGroup, UnknownAssignor
from assignors.placement.replicas import Broker, InvalidPlacement
from streaming.cli.checking import check_answer, parse_brokers, place_replicas
from streaming.cli.json_lines import MalformedJson
from tests.unit.streaming.cli.conftest import Command, json_answers

COOPERATIVE_GROUP: dict[str, Any] = {
    "assignor": "cooperative-sticky",
    "topics": {"p": {"partitions": 4}},
    "members": [
        {"memberId": "a", "topics": ["p"], "owned": {"p": [0, 1, 2, 3]}, "generation": 1},
        {"memberId": "b", "topics": ["p"]},
    ],
}
VALID_ASSIGNMENT = {**COOPERATIVE_GROUP, "assignment": {"a": {"p": [0, 1]}, "b": {}}}
ASSIGNMENT_WITH_OLD_OWNER = {**COOPERATIVE_GROUP, "assignment": {"a": {"p": [0, 1]}, "b": {"p": [2, 3]}}}
RULES = ["valid", "balanced", "sticky", "cooperative-safe"]


def test_valid_assignment_exits_with_0(command: Command) -> None:
    answer = {"ok": True, "rules": [*RULES, "exact"], "violations": []}
    assert json_answers(command, "check", "--exact", lines=[VALID_ASSIGNMENT]) == (0, [answer])


def test_violation_exits_with_1(command: Command) -> None:
    safety_violation = "cooperative-safe: p-2,3 given to b while a still owns it"
    valid = {"ok": True, "rules": RULES, "violations": []}
    violated = {"ok": False, "rules": RULES, "violations": [safety_violation]}
    lines = [VALID_ASSIGNMENT, ASSIGNMENT_WITH_OLD_OWNER]
    assert json_answers(command, "check", lines=lines) == (1, [valid, violated])


def test_invalid_line_and_violation_exit_with_2(command: Command) -> None:
    lines = [ASSIGNMENT_WITH_OLD_OWNER, COOPERATIVE_GROUP, VALID_ASSIGNMENT]
    status, responses = json_answers(command, "check", lines=lines)
    message = "assignment: missing; give the observed one, {member: {topic: [partition]}}"
    assert (status, responses[1]) == (2, {"error": {"type": "InvalidGroup", "message": message}})
    assert [answer.get("ok") for answer in responses] == [False, None, True]


@pytest.mark.parametrize("words", [["assign"], ["check"], ["partition", "--partitions", "3"]])
def test_closed_standard_input_is_reported_in_one_line(words: list[str]) -> None:
    command_line = shlex.join([sys.executable, "-m", "streaming", *words])
    done = subprocess.run(["/bin/sh", "-c", f"{command_line} <&-"], capture_output=True, text=True, check=False)
    message = "error: Standard input is closed; give it a file, a pipe or nothing at all (< /dev/null).\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


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
    answer = check_answer(group({"a": {"t": [0, 1, 2]}}, assignor=None))
    assert answer == {"ok": True, "rules": ["valid"], "violations": []}


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


PLACE_COMMAND = ("place", "--partitions", "6", "--replication-factor", "3")


def test_placement_equals_kafkas_documented_example(command: Command) -> None:
    placement = '{"0":[2,0,1],"1":[0,1,2],"2":[1,2,0],"3":[2,1,0],"4":[0,2,1],"5":[1,0,2]}\n'
    words = (*PLACE_COMMAND, "--brokers", "0,1,2", "--start-index", "2", "--shift", "0")
    assert command(*words) == (0, placement, "")


def test_new_partitions_continue_with_the_default_shift(command: Command) -> None:
    words = (*PLACE_COMMAND, "--brokers", "0,1,2,3,4", "--start-index", "2", "--start-partition", "4")
    assert json.loads(command(*words)[1]) == {
        "4": [1, 4, 0], "5": [2, 1, 3], "6": [3, 2, 4], "7": [4, 3, 0], "8": [0, 4, 1], "9": [1, 0, 2],
    }  # fmt: skip


def test_replicas_are_in_different_racks(command: Command) -> None:
    brokers = "0:rack1,1:rack3,2:rack3,3:rack2,4:rack2,5:rack1"
    assert json.loads(command(*PLACE_COMMAND, "--brokers", brokers, "--start-index", "0")[1]) == {
        "0": [0, 3, 1], "1": [3, 1, 5], "2": [1, 5, 4], "3": [5, 4, 2], "4": [4, 2, 0], "5": [2, 0, 3],
    }  # fmt: skip


@pytest.mark.parametrize("placer", ["admin-utils", "striped"])
def test_random_placement_spreads_racks_and_follows_the_seed(placer: str, command: Command) -> None:
    arguments = (*PLACE_COMMAND, "--brokers", "0:a,1:b,2:c,3:a", "--placer", placer)
    placed = json.loads(command(*arguments)[1])
    assert list(placed) == [str(partition) for partition in range(6)]
    for replicas in placed.values():
        assert {"0123".index(str(broker)) % 3 for broker in replicas} == {0, 1, 2}  # three racks, one per replica
    assert command(*arguments, "--seed", "4") == command(*arguments, "--seed", "4")
    assert len({command(*arguments)[1] for _ in range(40)}) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--brokers", "0,1"),
            "--replication-factor: 3 is larger than the number of brokers, 2; add brokers or lower it",
        ),
        (("--brokers", "0:r1,1:r3,2"), "--brokers: 2 have no rack, but others do; give all a rack, or none"),
        (("--brokers", "0,0,1"), "--brokers: id 0 is listed twice"),
        (("--brokers", "a,b,c"), "--brokers: 'a' is not ID, ID:RACK or ID:RACK:fenced"),
        (("--brokers", "0,1,2", "--start-index", "-1"), "--start-index: -1; must be between 0 and 2147483647"),
        (("--brokers", "0,1,2", "--start-partition", "-4"), "--start-partition: -4 is negative"),
        (
            ("--brokers", "0,1,2", "--partitions", "999999999"),
            "--partitions: 999999999 × replication_factor 3 is over the limit of 20000000 replicas an answer",
        ),
        (("--brokers", "0,1,2", "--partitions", "0"), "--partitions: 0; must be larger than 0"),
        (("--brokers", "0,1,2", "--replication-factor", "0"), "--replication-factor: 0; must be larger than 0"),
        (
            ("--brokers", "0::fenced,1::fenced,2::fenced", "--placer", "striped"),
            "--brokers: all of them are fenced; a leader must be in service",
        ),
    ],
)
def test_invalid_option_is_reported_in_one_line(arguments: tuple[str, ...], message: str, command: Command) -> None:
    assert command(*PLACE_COMMAND, *arguments) == (2, "", f"error: {message}\n")


def test_brokers_are_parsed() -> None:
    assert parse_brokers("0:r1, 1:r3,2,3:r1:fenced,4::fenced,5:") == [
        Broker(0, "r1"),
        Broker(1, "r3"),
        Broker(2),
        Broker(3, "r1", fenced=True),
        Broker(4, None, fenced=True),
        Broker(5),
    ]


@pytest.mark.parametrize("text", ["", " ", "a", "0,,1", "-1", "0:r1:x", "99999999999", "1.5", "٣", "0:a:b:fenced"])
def test_invalid_brokers_are_refused(text: str) -> None:
    with pytest.raises(InvalidPlacement, match="brokers: "):
        parse_brokers(text)


def test_striped_places_on_unfenced_brokers_first() -> None:
    placement = place_replicas("0:a,1:a:fenced,2:b", 20, 2, placer="striped", start_partition=7)
    assert list(placement) == list(range(7, 27))
    assert all(sorted(replicas) == [0, 2] for replicas in placement.values())


@pytest.mark.parametrize(
    ("brokers", "options", "message"),
    [
        ("0,1", {"placer": "striped", "start_index": 0}, "--start-index"),
        ("0,1", {"placer": "striped", "shift": 0}, "--shift"),
        ("0,1::fenced", {}, "brokers: admin-utils supports no fenced brokers"),
        ("0", {"start_partition": 2**31 - 1, "partitions": 2}, "--start-partition: the last partition would be"),
    ],
)
def test_unsupported_options_of_a_placer_are_refused(brokers: str, options: Any, message: str) -> None:
    with pytest.raises(InvalidPlacement, match=message):
        place_replicas(brokers, **{"partitions": 1, "replication_factor": 1, **options})
