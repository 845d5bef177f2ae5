"""The command ``topics`` lists and creates the monitor's topics."""

import json

from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command

NAMES = [
    f"p.rebalance.{name}"
    for name in ("membership", "diffs", "assignments", "membership-dlt", "episodes", "incidents", "signs")
]


def test_missing_topics_are_shown_and_created_on_request(command: Command, kafka: MemoryKafka) -> None:
    words = ("topics", "--topic-prefix", "p.")
    status, out, _ = command(*words)
    assert (status, [line.split()[1] for line in out.splitlines() if "missing" in line]) == (1, NAMES)
    assert not kafka.topics
    status, out, errors = command(*words, "--create", "--json")
    assert (status, errors) == (0, "")
    assert [json.loads(line) for line in out.splitlines()][2] == {
        "name": NAMES[2],
        "holds": "latest assignment of each group",
        "wantedCleanupPolicy": "compact",
        "partitions": 4,
        "replicationFactor": 1,
        "cleanupPolicy": "compact",
        "maxMessageBytes": 10485760,
    }
    status, out, _ = command(*words)
    assert status == 0
    rows = [line.replace("│", " ").split() for line in out.splitlines() if "ok" in line]
    policies = [
        ("delete", "4"),
        ("delete", "4"),
        ("compact", "4"),
        ("delete", "4"),
        ("compact,delete", "4"),
        ("compact,delete", "4"),
        ("compact", "1"),
    ]
    assert rows == [[name, *policy, "1", "ok"] for name, policy in zip(NAMES, policies, strict=True)]


def test_wrong_cleanup_policy_is_shown_with_its_remedy(command: Command, kafka: MemoryKafka) -> None:
    kafka.create("rebalance.assignments")
    status, out, _ = command("topics")
    assert status == 1
    assert "wrong cleanup policy" in out
    assert out.splitlines()[-1].startswith("topic rebalance.assignments: cleanup.policy is delete, compact is needed")
    status, out, errors = command("topics", "--create")
    assert (status, out, errors.startswith("error: topic rebalance.assignments: cleanup.policy")) == (2, "", True)
