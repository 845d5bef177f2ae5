"""The command ``place`` assigns replicas to brokers: its output, exit statuses and error messages."""

import json
from typing import Any

import pytest

from assignors.placement.replicas import Broker, InvalidPlacement
from streaming.cli.checking import parse_brokers, place_replicas
from tests.unit.streaming.cli.conftest import RunCommand

PLACE_COMMAND = ("place", "--partitions", "6", "--replication-factor", "3")


def test_placement_equals_kafkas_documented_example(run: RunCommand) -> None:
    done = run(*PLACE_COMMAND, "--brokers", "0,1,2", "--start-index", "2", "--shift", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{"0":[2,0,1],"1":[0,1,2],"2":[1,2,0],"3":[2,1,0],"4":[0,2,1],"5":[1,0,2]}\n'


def test_new_partitions_continue_with_the_default_shift(run: RunCommand) -> None:
    done = run(*PLACE_COMMAND, "--brokers", "0,1,2,3,4", "--start-index", "2", "--start-partition", "4")
    assert json.loads(done.stdout) == {
        "4": [1, 4, 0], "5": [2, 1, 3], "6": [3, 2, 4], "7": [4, 3, 0], "8": [0, 4, 1], "9": [1, 0, 2],
    }  # fmt: skip


def test_replicas_are_in_different_racks(run: RunCommand) -> None:
    brokers = "0:rack1,1:rack3,2:rack3,3:rack2,4:rack2,5:rack1"
    done = run(*PLACE_COMMAND, "--brokers", brokers, "--start-index", "0")
    assert json.loads(done.stdout) == {
        "0": [0, 3, 1], "1": [3, 1, 5], "2": [1, 5, 4], "3": [5, 4, 2], "4": [4, 2, 0], "5": [2, 0, 3],
    }  # fmt: skip


@pytest.mark.parametrize("placer", ["admin-utils", "striped"])
def test_random_placement_spreads_racks_and_follows_the_seed(placer: str, run: RunCommand) -> None:
    arguments = (*PLACE_COMMAND, "--brokers", "0:a,1:b,2:c,3:a", "--placer", placer)
    placed = json.loads(run(*arguments).stdout)
    assert list(placed) == [str(partition) for partition in range(6)]
    for replicas in placed.values():
        assert {"0123".index(str(broker)) % 3 for broker in replicas} == {0, 1, 2}  # three racks, one per replica
    assert run(*arguments, "--seed", "4").stdout == run(*arguments, "--seed", "4").stdout
    assert len({run(*arguments).stdout for _ in range(40)}) > 1


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
def test_invalid_option_is_reported_in_one_line(arguments: tuple[str, ...], message: str, run: RunCommand) -> None:
    done = run(*PLACE_COMMAND, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


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
def test_invalid_input_is_refused(brokers: str, options: Any, message: str) -> None:
    with pytest.raises(InvalidPlacement, match=message):
        place_replicas(brokers, **{"partitions": 1, "replication_factor": 1, **options})
