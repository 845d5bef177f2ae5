"""Programs on the simulated host experience its faults; otherwise tests with these faults would prove nothing."""

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import environ
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.host import SimulatedHost, library

TIMEOUT_SECONDS = 60.0
#: Program that reports its clock, the duration of waits (of threads and of librdkafka), and the duration of writes.
PROGRAM = """
import json, os, sys, threading, time
from confluent_kafka import Consumer
def seconds(act):
    begin = time.monotonic()
    act()
    return time.monotonic() - begin
file, (_, pipe) = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), os.pipe()
consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "none", "log_level": 0})
consumer.poll(0)
for _ in sys.stdin:
    waits = [lambda: threading.Event().wait(0.2), lambda: consumer.consume(1, 0.2)]
    writes = [lambda: os.write(file, b"x"), lambda: os.writev(file, [b"x"]), lambda: os.pwrite(file, b"x", 0)]
    writes += [lambda: os.fsync(file), lambda: os.fdatasync(file)]
    pipes = [lambda: os.write(pipe, b"x")]
    print(json.dumps([time.time(), *(list(map(seconds, acts)) for acts in (waits, writes, pipes))]), flush=True)
"""


class ProgramReport(NamedTuple):
    """The clock, and the durations (s) of waits and writes, as a program on a simulated host reports them."""

    clock: float
    waits: list[float]
    writes: list[float]
    pipes: list[float]


class Program:
    """A program that runs on its own simulated host."""

    def __init__(self, host: SimulatedHost, process: subprocess.Popen[str]) -> None:
        self.host = host
        self._process = process

    def read_report(self) -> ProgramReport:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], TIMEOUT_SECONDS)[0], "it waits for ever"
        return ProgramReport(*json.loads(self._process.stdout.readline()))


@contextmanager
def running(folder: Path) -> Iterator[Program]:
    built = library(folder)
    if built is None:
        pytest.skip("there is no C compiler: apt-get install gcc libc6-dev")
    host = SimulatedHost(built, folder / "control")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environ, **host.environment},
    ) as process:
        try:
            yield Program(host, process)
        finally:
            process.kill()


@pytest.mark.parametrize("clock_offset_hours", [0, 1, -1])
def test_changed_clock_does_not_change_wait_times(tmp_path: Path, clock_offset_hours: int) -> None:
    with running(tmp_path) as program:
        program.read_report()
        program.host.set_clock(clock_offset_hours * 3600)
        answer = program.read_report()
        assert abs(answer.clock - time.time() - clock_offset_hours * 3600) < 60
        assert all(0.15 < wait < 60 for wait in answer.waits), answer
        program.host.set_clock(0)
        assert abs(program.read_report().clock - time.time()) < 60


def test_slow_disk_delays_file_writes_but_not_pipes(tmp_path: Path) -> None:
    with running(tmp_path) as program:
        with program.host.slow_disk(1500):
            answer = program.read_report()
            assert min(answer.writes) >= 1.5
            assert max(answer.pipes) < 1.5
        assert max(program.read_report().writes) < 1.5
