"""The command ``dlt`` lists dead letters and publishes dead letters again."""

import json
from base64 import b64encode

import pytest

from streaming.records.codec import MalformedEvent
from streaming.records.dead_letters import dead_letter_headers
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command

MEMBERSHIP_TOPIC, DEAD_LETTER_TOPIC = "rebalance.membership", "rebalance.membership-dlt"


@pytest.fixture
def letters(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(MEMBERSHIP_TOPIC, 3)
    kafka.create(DEAD_LETTER_TOPIC, 2)
    for number, key in enumerate((b"g", b"\xff", None)):
        headers = dead_letter_headers([("x", b"1")], MalformedEvent("why"), topic="m", partition=2, offset=number)
        kafka.append(DEAD_LETTER_TOPIC, b"v%d" % number, key=key, partition=number % 2, headers=headers)
    return kafka


def test_dead_letters_are_listed_as_table_and_json(command: Command, letters: MemoryKafka) -> None:
    _, out, _ = command("dlt", "list")
    rows = [line.replace("│", " ").split() for line in out.splitlines() if "Malformed" in line]
    assert rows == [
        ["0:0", "MalformedEvent", "why", "m", "2:0", "g"],
        ["0:1", "MalformedEvent", "why", "m", "2:2"],
        ["1:0", "MalformedEvent", "why", "m", "2:1", "\\xff"],
    ]
    _, out, _ = command("dlt", "list", "--json")
    assert json.loads(out.splitlines()[2]) == {
        "partition": 1,
        "offset": 0,
        "exception": "MalformedEvent",
        "message": "why",
        "sourceTopic": "m",
        "sourcePartition": 2,
        "sourceOffset": 1,
        "key": b64encode(b"\xff").decode(),
        "value": b64encode(b"v1").decode(),
        "headers": [["x", b64encode(b"1").decode()]],
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("words", "sent"), [(["--all"], [b"v0", b"v1", b"v2"]), (["1:0"], [b"v1"]), (["0:1", "0:0"], [b"v0", b"v2"])]
)
def test_selected_or_all_dead_letters_are_published_again(
    command: Command, letters: MemoryKafka, words: list[str], sent: list[bytes]
) -> None:
    assert command("dlt", "resubmit", *words) == (0, f"{len(sent)} published to {MEMBERSHIP_TOPIC}\n", "")
    assert sorted(message.value() or b"" for message in letters.records(MEMBERSHIP_TOPIC)) == sent


@pytest.mark.parametrize("words", [[], ["0:0", "--all"]])
def test_resubmit_without_offsets_or_all_is_refused(command: Command, letters: MemoryKafka, words: list[str]) -> None:
    assert command("dlt", "resubmit", *words) == (
        2,
        "",
        "error: Name the dead letters to publish again: PARTITION:OFFSET …, or --all.\n",
    )
    assert letters.records(MEMBERSHIP_TOPIC) == []
