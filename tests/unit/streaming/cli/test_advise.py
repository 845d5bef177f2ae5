"""The command ``advise`` in text and JSON: for one group, for all groups, and for a configuration file alone."""

import json
from pathlib import Path

import pytest

from streaming.cli import advise
from tests.support.advice import deploy
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import records
from tests.support.histories import Log
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, publish_diffs


@pytest.fixture
def live(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    """Return a cluster with two groups: ``checkout`` (range) was deployed twice, ``quiet`` was never deployed."""
    for topic in ("membership", "assignments", "episodes", "incidents", "diffs"):
        kafka.create(f"rebalance.{topic}", 1)
    large_group = DiffBuilder(60, "checkout").join(*[f"pay-{number}@h{number}#1" for number in range(10)])
    quiet = DiffBuilder(6, "quiet").join("a@h1#1", "b@h2#1")
    for builder in (deploy(deploy(large_group, downtime_s=2), downtime_s=2), quiet):
        for topic, key, value in records(builder):
            kafka.append(topic, value, key=key)
    publish_diffs(kafka, large_group)
    monkeypatch.setattr(advise, "now_ms", lambda: large_group.now + 60_000)
    log = Log("checkout")
    kafka.publish(log.topics(t=60), log.observe(41, dict(large_group.members)))
    return kafka


def test_advise_prints_the_advice_as_text(command: Command, live: MemoryKafka) -> None:
    status, out, errors = command("advise", "checkout")
    assert (status, errors) == (0, "")
    lines = out.splitlines()
    start = lines.index("info     checkout  cooperative-assignor: an eager assignor stops all members")
    assert lines[start + 1] == (
        "  why    range revokes every partition in each rebalance: 40 rebalances in episodes 3, 2 since "
        "2023-11-14 23:13 UTC"
    )
    assert lines[start + 2] == (
        "  change Put cooperative-sticky before range in partition.assignment.strategy and restart all members one "
        "by one; then remove range and restart them again"
    )
    assert lines[start + 3].startswith("         partition.assignment.strategy=org.apache.kafka.clients.consumer.")
    assert lines[start + 4].startswith("  saves  ")
    assert lines[start + 5 : start + 7] == ["  sure   high", "  docs   docs/reference/advice.md#cooperative-assignor"]


def test_advise_all_prints_json_and_exits_with_1(command: Command, live: MemoryKafka) -> None:
    status, out, errors = command("advise", "--all", "--json", "--fail-on", "info")
    assert (status, errors) == (1, "")
    documents = [json.loads(line) for line in out.splitlines()]
    assert {(advice["groupId"], advice["severity"]) for advice in documents} == {("checkout", "info")}
    assert {advice["rule"] for advice in documents} >= {"cooperative-assignor", "consumer-protocol"}
    assert command("advise", "--all", "--fail-on", "warning")[0] == 0


def test_advise_without_advice_prints_a_line(command: Command, live: MemoryKafka) -> None:
    assert command("advise", "quiet") == (0, "no advice for 1 group\n", "")


def test_config_file_is_checked_without_a_cluster(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=checkout\nsession.timeout.ms=10000\nheartbeat.interval.ms=5000\n")
    status, out, errors = command("advise", "--config", str(file), "--json", "--fail-on", "warning")
    assert (status, errors) == (1, "")
    assert json.loads(out) == {
        "rule": "heartbeat-interval",
        "groupId": "checkout",
        "severity": "warning",
        "evidence": [
            {
                "text": "consumer.properties: heartbeat.interval.ms=5000, session.timeout.ms=10000: "
                "a session has 2 heartbeats only",
                "episodes": [],
                "figures": {"heartbeatIntervalMs": 5000, "sessionTimeoutMs": 10_000},
            }
        ],
        "change": "Set heartbeat.interval.ms to a third of session.timeout.ms at most",
        "saving": None,
        "confidence": "high",
        "title": "too few heartbeats in a session",
        "client": "Java",
        "settings": {"heartbeat.interval.ms": "3333"},
        "unsure": [],
        "episodes": [],
        "docs": "docs/reference/advice.md#heartbeat-interval",
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "give GROUP or --all, not both"),
        (("--all", "checkout"), "give GROUP or --all, not both"),
        (("--all", "--fail-on", "bad"), "--fail-on bad: write info, warning, critical"),
        (("--config", "/no/such/file"), "--config /no/such/file: No such file"),
        (("nobody",), "group nobody: the monitor has no data about it"),
    ],
)
def test_invalid_advise_arguments_are_refused(
    command: Command, live: MemoryKafka, words: tuple[str, ...], problem: str
) -> None:
    status, out, errors = command("advise", *words)
    assert (status, out) == (2, "")
    assert problem in errors
