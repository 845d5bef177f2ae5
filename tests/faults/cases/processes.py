"""Processes that are killed or stopped: one part's, or the broker's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.site import SPARK_SECONDS, Report, Site
from tests.support.stream_job import processes_of


@contextmanager
def killed(site: Site, name: str) -> Iterator[list[Report]]:
    """SIGKILL, with all that it started."""
    site.parts[name].kill()
    yield [site.gone_dark(name)]
    site.begin(name)


@contextmanager
def jvm_killed(site: Site) -> Iterator[list[Report]]:
    """SIGKILL of Spark's JVM alone."""
    told = site.ends("stream", "Spark's JVM is gone", within=SPARK_SECONDS)
    for pid in processes_of(site.stream.pid)["jvm"]:
        os.kill(pid, signal.SIGKILL)
    yield [told]
    site.begin("stream")


@contextmanager
def stopped(site: Site, name: str) -> Iterator[list[Report]]:
    """SIGSTOP of all its processes, until it was noticed."""
    pids = site.pids(name)
    told = site.silence() if name == "broker" else [site.gone_dark(name)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield told
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def broker_killed(site: Site) -> Iterator[list[Report]]:
    """SIGKILL of the broker, which stays away until that is reported."""
    told = site.silence()
    site.broker.kill()
    yield told
    site.begin("broker")


@contextmanager
def broker_restarted(site: Site) -> Iterator[list[Report]]:
    """A clean stop and start."""
    site.broker.restart()
    yield [site.nothing(name) for name in site.parts]
