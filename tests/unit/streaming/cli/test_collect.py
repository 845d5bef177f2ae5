"""The command ``collect`` passes its options to the collector."""

import os
import re
import signal
import threading
from urllib.request import urlopen

import pytest

from streaming.kafka.runtime import free_ports
from tests.support.memory_kafka import MemoryKafka, group
from tests.support.offsets_topic import GOLDEN, captured_records
from tests.support.wait import eventually
from tests.unit.streaming.cli.conftest import Command


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
    figures: list[str] = []

    def later() -> None:
        def has_published() -> bool:
            try:
                with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                    text = answer.read().decode()
            except OSError:
                return False
            figures[:] = re.findall(r"^rebalance_monitor_collect_(\w+) ([\d.]+)$", text, re.MULTILINE)
            named = dict(figures)
            records = len(kafka_with_recorded_log.records("__consumer_offsets"))
            return named.get("records_total") == f"{records:.1f}" and named["partitions_behind"] == "0.0"

        try:
            eventually(has_published)
        finally:
            if callable(signal.getsignal(signal.SIGTERM)):  # the default handler would end the test process
                os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=later)
    thread.start()
    log = str(GOLDEN / "coordinator-4.3.1.log")
    status, out, _ = command("collect", "--metrics-port", str(port), "--coordinator-log", log, *words)
    thread.join()
    assert (status, out) == (0, "")
    assert {message.key() for message in kafka_with_recorded_log.records("rebalance.membership")} == groups
    assert any(
        b"coordinator-log" in (message.value() or b"")
        for message in kafka_with_recorded_log.records("rebalance.membership")
    )


def test_polling_collector_filters_groups_and_stops(command: Command, kafka: MemoryKafka) -> None:
    for name in ("orders", "console-1"):
        kafka.groups[name] = group(name, shares={"a": [("t", 0)]})

    def later() -> None:
        try:
            eventually(lambda: "rebalance.membership" in kafka.topics and kafka.records("rebalance.membership"))
        finally:
            if callable(signal.getsignal(signal.SIGTERM)):  # the default handler would end the test process
                os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=later)
    thread.start()
    status, out, _ = command("collect", "--by", "polling", "--exclude-group", "console.*")
    thread.join()
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
