"""The first signal requests a clean stop; the second signal ends the process at once."""

import signal
import subprocess
import sys

import pytest

TWO_SIGNALS_PROGRAM = """
from streaming.process.service import stop_on_signals
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
    with subprocess.Popen([sys.executable, "-c", TWO_SIGNALS_PROGRAM], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(first)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(second)
        assert child.stdout.read() == ""
    assert child.returncode == 128 + second


#: The signal arrives between acquiring the event's lock and waiting, as one of some hundred signals does.
EARLY_SIGNAL_PROGRAM = """
import os, signal, sys
from streaming.process.service import stop_on_signals
stop = stop_on_signals()
with stop._cond:
    os.kill(os.getpid(), int(sys.argv[1]))
stop.wait()
print("in order", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_just_before_waiting_is_received(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY_SIGNAL_PROGRAM, str(int(number))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "in order\n"), done.stderr
