"""The command ``watch`` prints diffs in text and JSON."""

import os
import signal

import msgspec
import pytest

from streaming.cli import stories
from streaming.freshness import ComponentHeartbeat, encode_heartbeat
from tests.support.histories import sample
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, stopped_when

TOPIC = "rebalance.diffs"


@pytest.fixture
def diffs(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(TOPIC, 1)
    for number, group in enumerate(("a", "b", "a")):
        value = msgspec.json.encode(sample(group_id=group, generation=number + 1))
        kafka.append(TOPIC, value, key=group.encode(), headers=[("ce_id", b"%d" % number)])
    kafka.append(TOPIC, b"no diff", key=b"a", headers=[("ce_id", b"3")])
    return kafka


def test_json_prints_each_diff_byte_for_byte(command: Command, diffs: MemoryKafka) -> None:
    status, out, errors = command("watch", "--from-beginning", "--exit-at-end", "--json")
    assert status == 0
    assert out.splitlines() == [(message.value() or b"").decode() for message in diffs.records(TOPIC)[:3]]
    assert errors.count("skipped: rebalance.diffs partition 0 offset 3: ") == 1


def test_watch_prints_the_rounds_of_the_requested_group(command: Command, diffs: MemoryKafka) -> None:
    _, out, _ = command("watch", "--from-beginning", "--exit-at-end", "--group", "a")
    heads = [line.split(" ", 1)[1] for line in out.splitlines() if "generation" in line]
    assert [head.split("  ")[0] for head in heads] == ["a generation 1", "a generation 3"]


def test_watch_starts_at_the_end_of_the_topic(command: Command, diffs: MemoryKafka) -> None:
    assert command("watch", "--exit-at-end", "--json") == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watch_prints_new_diffs_until_it_is_stopped(
    command: Command, diffs: MemoryKafka, number: signal.Signals
) -> None:
    with stopped_when(lambda: any((TOPIC, 0) in consumer.reported_ends for consumer in diffs.consumers), number):
        status, out, _ = command("watch", "--json", "--from-beginning")
    assert (status, len(out.splitlines())) == (0, 3)


def test_stopped_component_is_reported_when_diffs_are_readable(
    command: Command, diffs: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat = ComponentHeartbeat(
        part="stream", id="rebalance-monitor", state="stopped", timestamp=2000, up_to=1000, every_ms=5000
    )
    diffs.create("rebalance.signs")
    key, value, headers = encode_heartbeat(heartbeat)
    diffs.append("rebalance.signs", value, key=key, headers=headers, timestamp=2000)
    warnings: list[str] = []

    def record_and_stop(text: str) -> None:
        warnings.append(text)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(stories, "warn", record_and_stop)
    assert command("watch", "--json")[0] == 0
    (line,) = warnings
    assert line.startswith("The stream has been stopped since ")
    assert line.endswith("d ago): groups may have changed since")
