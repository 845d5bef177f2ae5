"""The command ``migrate`` checks whether a group can move to another protocol, in text and JSON."""

import json

import pytest

from tests.support.histories import Log
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command


@pytest.fixture
def live(kafka: MemoryKafka) -> MemoryKafka:
    for topic in ("membership", "assignments", "episodes", "diffs"):
        kafka.create(f"rebalance.{topic}", 1)
    log = Log("checkout")
    shares = {name: {"t": [2 * number, 2 * number + 1]} for number, name in enumerate(("a-1", "b-1"))}
    kafka.publish(log.topics(t=4), log.observe(4, shares, clients={"a-1": ("a", "/h"), "b-1": ("b", "/h")}))
    return kafka


def test_text_lists_the_steps_to_each_protocol(command: Command, live: MemoryKafka) -> None:
    status, out, errors = command("migrate", "checkout")

    assert (status, errors) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "checkout  2 members, now eager, range"
    assert [line for line in lines if not line.startswith((" ", "not exact", "checkout"))] == [
        "cooperative: ready",
        "static members: ready",
        "consumer (KIP-848): ready",
    ]
    assert "  until step 1: a, b: has no group.instance.id" in lines
    assert "     0 rebalances, 0 rounds, 0 partitions moved, 80 s of downtime, 20 s at worst" in lines


def test_json_output_is_one_object(command: Command, live: MemoryKafka) -> None:
    _, out, _ = command("migrate", "checkout", "--to", "consumer", "--json")
    document = json.loads(out)

    assert list(document["targets"]) == ["consumer"]
    assert document["targets"]["consumer"]["steps"][1]["forecast"]["rebalances"] == 4
    assert document["happened"] == []


def test_unknown_target_is_refused(command: Command, live: MemoryKafka) -> None:
    assert command("migrate", "checkout", "--to", "raft") == (
        2,
        "",
        "error: --to: 'raft' is not one of cooperative, static, consumer\n",
    )
