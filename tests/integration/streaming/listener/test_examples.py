import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen, run

import pytest

from streaming.kafka.jars import fetch, java, kafka_coordinates
from streaming.kafka.runtime import DEFAULT_VERSION
from streaming.settings.config import load
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.live_stream import LiveStream

EXAMPLES = Path(__file__).parents[4] / "examples" / "listener"


@contextmanager
def program(*command: str) -> Iterator[Popen[bytes]]:
    """Run an example program; the end of the block stops the program."""
    with Popen(command, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) in (0, 143)
        finally:
            process.kill()


def command(name: str, folder: Path) -> list[str]:
    source = EXAMPLES / name
    if source.suffix == ".py":
        return [sys.executable, str(source)]
    jars = os.pathsep.join(map(str, fetch(kafka_coordinates(DEFAULT_VERSION))))
    options = ["-Xlint:all", "-proc:none", "-cp", jars, "-d", str(folder)]
    done = run(["javac", *options, str(source)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [str(java()[0]), "-cp", f"{folder}{os.pathsep}{jars}", source.stem]


@pytest.mark.full
@pytest.mark.parametrize("name", ["confluent_consumer.py", "kafka_python_consumer.py", "ReportingListener.java"])
def test_consumer_is_reported_until_it_leaves(broker: Kafka, written: str, name: str, tmp_path: Path) -> None:
    servers, group = broker.bootstrap_servers, unique_name("example")
    settings = load(bootstrap_servers=servers)
    with LiveStream(settings) as listener:
        with program(*command(name, tmp_path), servers, servers, group, written):
            eventually(
                lambda: [*listener.current_partitions(group).values()] == [{written: [0, 1, 2, 3, 4, 5]}], timeout=60
            )
        eventually(lambda: listener.current_partitions(group) == {}, timeout=60)
        causes = [diff.cause.kind for diff in listener.rounds(group)]
        # kafka-python may join before it has the topic's metadata: the first generation then assigns nothing.
        assert [kind for kind in causes if kind != "group.observed"] == ["member.joined", "member.left"]
