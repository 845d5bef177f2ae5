"""``run`` ends when it receives SIGTERM."""

from pathlib import Path

import pytest

from streaming.kafka.runtime import free_ports
from tests.support.command import RunningCommand
from tests.support.kafka import Kafka, eventually, unique_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_sigterm_while_spark_starts_ends_run_at_once(broker: Kafka, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "run.log"
    common = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", f"{unique_name('run')}.")
    with RunningCommand("run", *common, "--checkpoint", str(checkpoint), "--port", str(port), log=log) as run:
        run.environment = {"XDG_STATE_HOME": str(tmp_path)}  # folder of its history
        run.start()
        eventually(lambda: run.check() or (checkpoint / "spark.log").exists())  # its JVM has just started
        assert run.stop() == 0, run.output()
    assert not (checkpoint / "offsets").exists(), "it waited until the query ran"
    assert "Traceback" not in run.output()
