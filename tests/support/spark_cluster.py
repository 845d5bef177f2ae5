"""A standalone Spark cluster on this machine: a master, its workers, and their executors."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streaming.process.children import SupervisedProcess
from tests.support.kafka import eventually
from tests.support.processes import alive, children

_LOOPBACK = ("--host", "127.0.0.1", "--webui-port", "0")


@dataclass(frozen=True)
class SparkWorker:
    """A worker of a standalone Spark cluster: its process and the processes that it starts."""

    process: SupervisedProcess

    @property
    def executor_pids(self) -> list[int]:
        """Return the process ids of this worker's executor JVMs, without zombies that Spark's script leaves."""
        return [pid for pid in children(self.process.pid) if alive(pid)]

    def gone(self) -> None:
        """Kill the worker, its executors and their Python processes at once, as a power failure would."""
        executor_pids = self.executor_pids
        pythons = [
            pid
            for executor_pid in executor_pids
            for daemon in children(executor_pid)
            for pid in (daemon, *children(daemon))
        ]
        for pid in (self.process.pid, *executor_pids, *pythons):
            kill(pid)


@dataclass(frozen=True)
class Cluster:
    """A standalone Spark cluster: the master's address, and the workers."""

    url: str
    workers: list[SparkWorker]

    @property
    def executor_pids(self) -> list[int]:
        """Return the process ids of all workers' executor JVMs."""
        return [pid for worker in self.workers for pid in worker.executor_pids]


def kill(pid: int) -> None:
    """Send SIGKILL to a process; ignore that the process may have ended already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def standalone_cluster(python: Path, folder: Path) -> Iterator[Cluster]:
    """Run a cluster of the PySpark that ``python`` imports; two workers have one core each and write to ``folder``."""
    program = "import pyspark; print(pyspark.__path__[0])"
    home = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}

    def start(role: str, log: Path, *arguments: str) -> SupervisedProcess:
        main = f"org.apache.spark.deploy.{role.lower()}.{role}"
        process = SupervisedProcess(
            [f"{home}/bin/spark-class", main, *_LOOPBACK, *arguments], log, environment=environment
        )
        stack.callback(process.kill)
        return process

    def wait_for_line(log: Path, pattern: str) -> str:
        match = eventually(lambda: re.search(pattern, log.read_text()), timeout=60, every=0.1)
        assert isinstance(match, re.Match)
        return match[0]

    with ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        start("Master", folder / "master.log", "--port", "0")
        url = wait_for_line(folder / "master.log", r"spark://127\.0\.0\.1:\d+")
        cluster = Cluster(url, [])
        for number in range(2):
            log = folder / f"worker-{number}.log"
            worker_options = ("--cores", "1", "--memory", "2g", "--work-dir", str(folder / f"worker-{number}"))
            cluster.workers.append(SparkWorker(start("Worker", log, "--port", "0", *worker_options, url)))
            wait_for_line(log, "Successfully registered with master")
        stack.callback(lambda: [kill(pid) for pid in cluster.executor_pids])
        yield cluster
