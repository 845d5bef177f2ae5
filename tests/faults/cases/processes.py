"""Faults that kill or stop the processes of a component, or the broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.site import SPARK_SECONDS, Report, Site
from tests.support.stream_job import processes_of


@contextmanager
def killed(site: Site, name: str) -> Iterator[list[Report]]:
    """Send SIGKILL to the component's process and its children."""
    site.parts[name].kill()
    yield [site.metrics_unavailable(name)]
    site.begin(name)


@contextmanager
def jvm_killed(site: Site) -> Iterator[list[Report]]:
    """Send SIGKILL to Spark's JVM alone."""
    report = site.ends("stream", "Spark's JVM is gone", within=SPARK_SECONDS)
    for pid in processes_of(site.stream.pid)["jvm"]:
        os.kill(pid, signal.SIGKILL)
    yield [report]
    site.begin("stream")


@contextmanager
def stopped(site: Site, name: str) -> Iterator[list[Report]]:
    """Stop all processes of a component with SIGSTOP until the end of the block; yield the expected reports."""
    pids = site.pids(name)
    reports = site.silence() if name == "broker" else [site.metrics_unavailable(name)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield reports
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def broker_killed(site: Site) -> Iterator[list[Report]]:
    """Send SIGKILL to the broker, and start it again after the monitor has reported it as unavailable."""
    report = site.silence()
    site.broker.kill()
    yield report
    site.begin("broker")


@contextmanager
def broker_restarted(site: Site) -> Iterator[list[Report]]:
    """Stop the broker cleanly and start it again."""
    site.broker.restart()
    yield [site.nothing(name) for name in site.parts]
