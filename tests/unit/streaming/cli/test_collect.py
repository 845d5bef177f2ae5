"""The command ``collect`` passes its options to the collector."""

import re
from urllib.request import urlopen

import pytest

from streaming.kafka.runtime import free_ports
from tests.support.memory_kafka import MemoryKafka, group
from tests.support.offsets_topic import GOLDEN, captured_records
from tests.unit.streaming.cli.conftest import Command, stopped_when


@pytest.fixture
def kafka_with_recorded_log(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster with the recorded offsets topic."""
    rows = captured_records()
    kafka.create("__consumer_offsets", max(rows) + 1)
    for partition, numbers in rows.items():
        for row in numbers:
            kafka.append("__consumer_offsets", row.value, key=row.key, partition=partition, timestamp=row.timestamp)
    return kafka


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        ([], {b"g-classic", b"g-consumer"}),
        (["--exclude-group", ".*-classic"], {b"g-consumer"}),
        (["--include-group", "g-cl.*", "--include-group", "nobody"], {b"g-classic"}),
        (["--include-group", "g-.*", "--exclude-group", "g-consumer"], {b"g-classic"}),
    ],
)
def test_collector_filters_groups_and_stops_on_sigterm(
    command: Command, kafka_with_recorded_log: MemoryKafka, words: list[str], groups: set[bytes]
) -> None:
    (port,) = free_ports(1)
    records = len(kafka_with_recorded_log.records("__consumer_offsets"))

    def has_published() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text = answer.read().decode()
        except OSError:
            return False
        figures = dict(re.findall(r"^rebalance_monitor_collect_(\w+) ([\d.]+)$", text, re.MULTILINE))
        return figures.get("records_total") == f"{records:.1f}" and figures["partitions_behind"] == "0.0"

    log = str(GOLDEN / "coordinator-4.3.1.log")
    with stopped_when(has_published):
        status, out, _ = command("collect", "--metrics-port", str(port), "--coordinator-log", log, *words)
    assert (status, out) == (0, "")
    published = kafka_with_recorded_log.records("rebalance.membership")
    assert {message.key() for message in published} == groups
    assert any(b"coordinator-log" in (message.value() or b"") for message in published)


def test_polling_collector_filters_groups_and_stops(command: Command, kafka: MemoryKafka) -> None:
    for name in ("orders", "console-1"):
        kafka.groups[name] = group(name, shares={"a": [("t", 0)]})

    with stopped_when(lambda: "rebalance.membership" in kafka.topics and kafka.records("rebalance.membership")):
        status, out, _ = command("collect", "--by", "polling", "--exclude-group", "console.*")
    assert (status, out) == (0, "")
    assert {message.key() for message in kafka.records("rebalance.membership")} == {b"orders"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "guessing"], "'guessing' is not one of 'offsets', 'polling'"),
        (["--by", "polling", "--coordinator-log", "server.log"], "have no effect with by"),
        (["--exclude-group", "("], "'(' is not a regular expression"),
    ],
)
def test_conflicting_options_are_refused(command: Command, kafka: MemoryKafka, words: list[str], message: str) -> None:
    status, out, errors = command("collect", *words)
    assert (status, out) == (2, "")
    assert message in errors
