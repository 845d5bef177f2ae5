import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from streaming.kafka.broker import EmbeddedBroker
from tests.support.command import command, run
from tests.support.processes import alive
from tests.support.topics import create_topic
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def topics(broker: EmbeddedBroker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics)


def test_broker_keeps_port_data_and_cluster_id_after_a_crash(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        create_topic(broker.bootstrap_servers, "kept")
        address, port = broker.bootstrap_servers, broker.port
        broker.kill()
        assert broker.pid is None
        broker.start()
        assert (broker.bootstrap_servers, "kept" in topics(broker)) == (address, True)
    began = time.monotonic()
    with EmbeddedBroker(data_dir=tmp_path, port=port) as again:
        assert time.monotonic() - began < 15  # it reuses the files that the first start created
        assert (again.bootstrap_servers, "kept" in topics(again)) == (address, True)


def test_broker_leaves_no_process_and_no_files() -> None:
    with EmbeddedBroker() as broker:
        folder, pid = broker.data_dir, broker.pid
    assert pid is not None
    assert not alive(pid)
    assert not folder.exists()


@pytest.mark.parametrize("end", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_broker_command_exits_0(end: signal.Signals) -> None:
    with subprocess.Popen(command("broker"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert re.fullmatch(r"Kafka 4\.3\.1 at 127\.0\.0\.1:\d+, log .*\n", first)
        process.send_signal(end)
        try:
            assert process.wait(20) == 0
        finally:
            process.kill()  # otherwise the block's end waits for a broker that hangs


def test_broker_ends_when_its_command_is_killed() -> None:
    with subprocess.Popen(command("broker", "--json"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        pid = int(re.search(r'"pid":(\d+)', first_line)[1])
        process.kill()
        eventually(lambda: not alive(pid))
    shutil.rmtree(Path(re.search(r'"log":"([^"]+)"', first_line)[1]).parent)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--property", "no-equals"], 2, "error: --property no-equals: NAME=VALUE is needed\n"),
        (["--port", "99999"], 2, "error: Invalid value for '--port'"),
    ],
)
def test_invalid_usage_prints_one_line(arguments: list[str], status: int, message: str) -> None:
    answer = run("broker", *arguments)
    assert (answer.returncode, answer.stderr.count("\n")) == (status, 1)
    assert message in answer.stderr
