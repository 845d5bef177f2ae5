"""The command ``what-if``: its output as text, as JSON and in pipelines, and the questions that it rejects."""

import json
from typing import Any

import pytest

from tests.support.histories import Log
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, table_cells


@pytest.fixture
def live(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create("rebalance.membership")
    kafka.create("rebalance.assignments")
    log = Log("checkout")
    clients = {f"{name}-6f1b0000-0000-4000-8000-000000000000": (name, "/h") for name in ("pay-1", "pay-2")}
    shares = dict(zip(clients, ({"t": [0, 1]}, {"t": [2, 3]}), strict=True))
    kafka.publish(log.topics(t=4, u=3), log.observe(7, shares, clients=clients))
    return kafka


def document(command: Command, *words: str) -> dict[str, Any]:
    status, out, errors = command("what-if", "checkout", "--json", *words)
    assert (status, errors) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_json_has_every_protocol_and_the_requested_one(command: Command, live: MemoryKafka) -> None:
    answer = document(command, "--add", "1", "--partitions", "t=6")
    group = [answer[name] for name in ("groupId", "protocol", "assignor", "generation")]
    assert group == ["checkout", "classic", "range", 7]
    assert answer["partitions"] == {"t": 6}
    assert [answer["names"][member_id] for member_id in answer["added"]] == ["new-1"]
    ways = [(way["protocol"], way["assignor"], way["own"], way["chosen"]) for way in answer["answers"]]
    assert ways == [
        ("eager", "range", True, True),
        ("eager", "roundrobin", False, False),
        ("eager", "sticky", False, False),
        ("cooperative", "cooperative-sticky", False, False),
        ("consumer", "uniform", False, False),
        ("consumer", "range", False, False),
    ]
    own = answer["answers"][0]
    assert {answer["names"][member_id]: share for member_id, share in own["assignment"].items()} == {
        "new-1": {"t": [0, 1]},
        "pay-1": {"t": [2, 3]},
        "pay-2": {"t": [4, 5]},
    }
    assert (own["moved"], own["given"], own["rounds"], own["inexact"]) == (4, 2, 1, [])


def test_chosen_assignor_is_marked(command: Command, live: MemoryKafka) -> None:
    def chosen(*words: str) -> list[tuple[str, str]]:
        ways = document(command, *words)["answers"]
        return [(answer["protocol"], answer["assignor"]) for answer in ways if answer["chosen"]]

    assert chosen("--assignor", "sticky") == [("eager", "sticky")]
    assert chosen("--protocol", "consumer") == [("consumer", "uniform")]
    assert chosen("--protocol", "consumer", "--assignor", "range") == [("consumer", "range")]
    assert chosen("--assignor", "range") == [("eager", "range")]


def test_text_has_table_changes_and_uncertainty(command: Command, live: MemoryKafka) -> None:
    status, out, errors = command("what-if", "checkout", "--remove", "pay-1")
    assert (status, errors) == (0, "")
    assert out.startswith("checkout  classic, range  2 → 1 members, 4 partitions\n")
    rows = table_cells(out)
    assert ["→", "eager", "range", "2", "0", "4", "1", "", "now"] in rows
    assert ["pay-1  goes", "t:0-1", ""] in rows
    assert ["pay-2", "", "t:0-1"] in rows
    assert "consumer uniform, consumer range: members get other ids under this protocol" in out


@pytest.mark.parametrize(("most", "status"), [("4", 0), ("3", 1)])
def test_moves_above_the_limit_exit_with_1(command: Command, live: MemoryKafka, most: str, status: int) -> None:
    words = ("what-if", "checkout", "--json", "--add", "new-1", "--partitions", "t=6")
    assert command(*words, "--fail-if-moved-more-than", most)[0] == status


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--add", "0"), "--add 0: give a member name, or a number from 1 to 10000"),
        (("--partitions", "t"), "--partitions t: give TOPIC=N, N from 1 to 1000000"),
        (("--remove", "x"), "--remove x: no member has this name; there are pay-1, pay-2"),
        (
            ("--assignor", "mine"),
            "--assignor mine: not supported; choose from eager (range, roundrobin, sticky); cooperative (",
        ),
        (("--subscribe", "u", "--subscribe", "w"), "--subscribe w: its partition count is not in the membership log"),
    ],
)
def test_impossible_change_is_reported_in_one_line(
    command: Command, live: MemoryKafka, words: tuple[str, ...], message: str
) -> None:
    status, out, errors = command("what-if", "checkout", *words)
    assert (status, out) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_partitions_of_unsubscribed_topics_are_known(command: Command, live: MemoryKafka) -> None:
    answer = document(command, "--subscribe", "u")
    assert answer["partitions"] == {"u": 3}
    assert sorted(answer["answers"][0]["assignment"].values(), key=str) == [{"u": [0, 1]}, {"u": [2]}]


def test_limit_requires_a_known_assignor(command: Command, live: MemoryKafka) -> None:
    log = Log("own")
    live.publish(log.topics(t=1), log.observe(1, {"a": {"t": [0]}}, protocol="mine"))
    assert command("what-if", "own")[0] == 0
    status, _, errors = command("what-if", "own", "--fail-if-moved-more-than", "1")
    assert status == 2
    assert "the number of moves is unknown: mine is not one of Kafka's assignors; name an --assignor" in errors
