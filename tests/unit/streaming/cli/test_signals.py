"""The first signal asks, the second does not wait."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

CODE = """
from streaming.cli.signals import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
stop.wait()
print("asked", flush=True)
try:
    while True:
        stop.wait()
finally:
    print("in order", flush=True)
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(first)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(second)
        assert child.stdout.read() == ""
    assert child.returncode == 128 + second
