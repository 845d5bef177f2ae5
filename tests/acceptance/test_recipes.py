"""The programs of docs/how-to/read-the-feed.md, run exactly as printed there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.jars import fetch, kafka_coordinates
from streaming.kafka.runtime import DEFAULT_VERSION
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import load
from streaming.spark.session import kafka_connector
from tests.support.feed import message
from tests.support.histories import Group
from tests.support.kafka import unique_name

pytestmark = pytest.mark.broker

SPARK_OPTIONS = "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
FAST_JVM = "--driver-java-options -XX:TieredStopAtLevel=1"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "read-the-feed.md"


def program(language: str, mark: str) -> str:
    """Return the code block in this language that contains ``mark``; exactly one block of the page must contain it."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (block_text,) = [block for block in blocks if mark in block]
    return block_text


@pytest.fixture(scope="module")
def own_broker() -> Iterator[EmbeddedBroker]:
    """Yield a separate cluster, because the recipes use the diff topic's name without a prefix."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def written(own_broker: EmbeddedBroker) -> dict[str, int]:
    """Write the diffs of two groups twice, as after a retried batch; return the number of moved partitions by group."""
    from confluent_kafka import Producer

    settings = load(bootstrap_servers=own_broker.bootstrap_servers)
    ensure_topics(settings)
    producer = Producer({"bootstrap.servers": own_broker.bootstrap_servers})
    moved = {}
    for seed in range(2):
        group_diffs = Group(unique_name("recipe"), {"t": 6}, seed).diffs(8)
        moved[group_diffs[0].group_id] = sum(diff.moved for diff in group_diffs)
        for diff in (*group_diffs, *group_diffs):
            producer.produce(settings.topics.diffs, **message(diff))
    producer.flush(20)
    return moved


def run(command: list[str], **environment: str) -> list[str]:
    answer = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout.splitlines()


def test_python_recipe_reads_all_the_diffs(own_broker: EmbeddedBroker, written: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"
    path.write_text(program("python", "diff.moved"))
    lines = run([sys.executable, str(path)], REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS=own_broker.bootstrap_servers)
    moved = dict.fromkeys(written, 0)
    for group, _, count in (line.split() for line in lines):
        if group in moved:
            moved[group] += int(count)
    assert moved == written


@pytest.mark.spark
def test_spark_recipe_reads_all_the_diffs(own_broker: EmbeddedBroker, written: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"
    path.write_text(program("python", "SparkSession"))
    jars = ",".join(map(str, kafka_connector()))
    lines = run(
        [sys.executable, str(path), own_broker.bootstrap_servers],
        PYSPARK_SUBMIT_ARGS=f"--jars {jars} {SPARK_OPTIONS} {FAST_JVM} pyspark-shell",
        SPARK_LOCAL_IP="127.0.0.1",
    )
    moved = dict.fromkeys(written, 0)
    for group, _, count in (line.strip("|").split("|") for line in lines if line.startswith("|recipe")):
        if group.strip() in moved:
            moved[group.strip()] += int(count)
    assert moved == written


def test_java_recipe_reads_all_the_diffs(own_broker: EmbeddedBroker, written: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "Diffs.java"
    path.write_text(program("java", "class Diffs"))
    jars = ":".join(map(str, fetch(kafka_coordinates(DEFAULT_VERSION))))
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars, str(path)]
    with subprocess.Popen([*command, own_broker.bootstrap_servers], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        moved = dict.fromkeys(written, 0)
        for line in process.stdout:
            group, _, value = line.partition(" ")
            if group in moved:
                moved[group] += msgspec.json.decode(value)["moved"]
            if moved == written:
                break
        process.kill()
    assert moved == written
