"""The sidecar copies a topic of log lines into the file that `collect --coordinator-log` follows."""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.topics import create_topic

pytestmark = pytest.mark.broker

SCRIPT = Path(__file__).parents[4] / "deploy" / "docker" / "coordinator_log.py"


def test_log_lines_of_a_topic_reach_the_file(broker: Kafka, tmp_path: Path) -> None:
    file, config = tmp_path / "coordinator.log", tmp_path / "monitor.toml"
    config.write_text(f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n')
    topic = create_topic(broker.bootstrap_servers, unique_name("log"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"before it started")
    producer.flush()
    command = [sys.executable, str(SCRIPT), f"--config={config}", f"--topic={topic}", f"--file={file}"]
    with subprocess.Popen(command) as copy_process:
        try:
            eventually(lambda: file.exists() and file.read_bytes() == b"before it started\n")
            producer.produce(topic, b"afterwards")
            producer.flush()
            eventually(lambda: file.read_bytes() == b"before it started\nafterwards\n")
            assert copy_process.poll() is None
        finally:
            copy_process.terminate()
