"""Faults that kill or stop the processes of a component, or the broker."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.site import SPARK_SECONDS, Report, TestedMonitor
from tests.support.stream_job import processes_of


@contextmanager
def kill_process(tested_monitor: TestedMonitor, name: str) -> Iterator[list[Report]]:
    """Kill the component's process and its children with SIGKILL."""
    tested_monitor.parts[name].kill()
    yield [tested_monitor.metrics_unavailable(name)]
    tested_monitor.begin(name)


@contextmanager
def jvm_killed(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Send SIGKILL to Spark's JVM alone."""
    report = tested_monitor.ends("stream", "Spark's JVM is gone", within=SPARK_SECONDS)
    for pid in processes_of(tested_monitor.stream.pid)["jvm"]:
        os.kill(pid, signal.SIGKILL)
    yield [report]
    tested_monitor.begin("stream")


@contextmanager
def stopped(tested_monitor: TestedMonitor, name: str) -> Iterator[list[Report]]:
    """Stop a component's processes with SIGSTOP until the end of the block; yield the reports expected of others."""
    pids = tested_monitor.pids(name)
    reports = tested_monitor.wait_without_reports() if name == "broker" else [tested_monitor.metrics_unavailable(name)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield reports
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def kill_broker(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Send SIGKILL to the broker, and start it again after the monitor has reported it as unavailable."""
    report = tested_monitor.wait_without_reports()
    tested_monitor.broker.kill()
    yield report
    tested_monitor.begin("broker")


@contextmanager
def restart_broker(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Stop the broker cleanly and start it again."""
    tested_monitor.broker.restart()
    yield [tested_monitor.nothing(name) for name in tested_monitor.parts]
