import os
import signal
import subprocess
import sys
import time

import pytest

from streaming.process.watchdog import Watchdog
from tests.support.wait import eventually

#: Program that beats for a second, then executes its argument.
SCRIPT = """
import ctypes, faulthandler, sys, time
from streaming.process.watchdog import Watchdog
faulthandler.enable()
with Watchdog(float(sys.argv[2])) as dog:
    for _ in range(12):
        dog.report_progress()
        time.sleep(0.1)
    print("beating", flush=True)
    if sys.argv[1] == "freeze":  # PyDLL keeps the interpreter lock while it sleeps: no thread runs, no handler
        ctypes.PyDLL(None).sleep(60)
    elif sys.argv[1] == "beat":
        for _ in range(30):
            dog.report_progress()
            time.sleep(0.1)
print("ended", flush=True)
"""


def start(what: str, seconds: float = 1.0) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, what, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "beating\n"
    return child


def test_frozen_process_is_killed_with_its_stack() -> None:
    child = start("freeze")
    began = time.monotonic()
    _, errors = child.communicate(timeout=20)
    assert child.returncode == -signal.SIGABRT
    assert time.monotonic() - began < 10
    assert f"error: no progress for 1 s: process {child.pid} is killed; start it again" in errors
    assert 'File "<string>"' in errors  # the fault handler's thread dump


@pytest.mark.parametrize("what", ["beat", "leave"])
def test_running_or_ended_process_is_left_alone(what: str) -> None:
    child = start(what)
    assert child.stdout is not None
    out = child.stdout.read()  # the pipe's buffer may already contain a line
    _, errors = child.communicate(timeout=20)
    assert (child.returncode, out, errors) == (0, "ended\n", "")


def test_paused_process_is_left_alone() -> None:
    child = start("beat", 4.0)  # a busy machine may delay the process by a second or two
    os.kill(child.pid, signal.SIGSTOP)
    time.sleep(6)  # the tested condition: a pause longer than the watchdog allows
    os.kill(child.pid, signal.SIGCONT)
    out, errors = child.communicate(timeout=20)
    assert (child.returncode, out, errors) == (0, "ended\n", "")


def test_a_watchdog_that_ended_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    with Watchdog(60) as watchdog:
        first = watchdog._process
        assert first is not None
        first.kill()
        first.wait()
        eventually(lambda: watchdog.report_progress() or watchdog._process is not first)
        second = watchdog._process
        assert second is not None
        assert second.poll() is None
    assert second.poll() == 0
    assert caplog.messages == ["the watchdog process has ended: starting another"]


def test_unread_heartbeats_do_not_block() -> None:
    with Watchdog(60) as watchdog:
        assert watchdog._process is not None
        os.kill(watchdog._process.pid, signal.SIGSTOP)
        began = time.monotonic()
        for _ in range(100_000):
            watchdog.report_progress()
        assert time.monotonic() - began < 5
        os.kill(watchdog._process.pid, signal.SIGCONT)
