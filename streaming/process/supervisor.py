"""Script that runs a command, and ends the command when the script's parent ends, even by SIGKILL.

``python -I -S supervisor.py GRACE_SECONDS COMMAND…`` prints the command's process id. Then it reads from standard input
``stop`` (send SIGTERM, and SIGKILL after the grace period) or ``kill`` (send SIGKILL). The end of standard input, or of
the parent, has the same effect as ``stop``. Both are checked: a process that the parent forked may hold the pipe
open, and a parent that is process 1 is never replaced. The script ends with the command's exit status (128 + n after
signal n). On Linux SIGKILL of the script also ends the command (PR_SET_PDEATHSIG).
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_CHECK_INTERVAL_SECONDS = 0.5


def _end_with_parent(parent: int) -> None:
    """In the child process, before exec: let the kernel kill this process when ``parent`` ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # The parent ended before the call above.
            os.kill(os.getpid(), signal.SIGKILL)


def _signal_pipe(*signals: signal.Signals) -> int:
    """Return a file descriptor that becomes readable when one of the signals arrives."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return read_end


def _run(command: list[str], grace_s: float) -> int:
    parent, supervisor_pid = os.getppid(), os.getpid()
    signals = _signal_pipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=2,
            preexec_fn=lambda: _end_with_parent(supervisor_pid),  # noqa: PLW1509 - this process has only one thread
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    os.write(1, f"{child.pid}\n".encode())
    stop_deadline: float | None = None
    input_descriptors = [0, signals]
    while child.poll() is None:
        ready, _, _ = select.select(input_descriptors, [], [], _CHECK_INTERVAL_SECONDS)
        order = b""
        if 0 in ready:
            order = os.read(0, 100)
            if not order:
                input_descriptors.remove(0)
                order = b"stop"
        if signals in ready and set(os.read(signals, 100)) - {signal.SIGCHLD}:
            order = b"stop"
        if b"kill" in order or (stop_deadline is not None and time.monotonic() > stop_deadline):
            child.kill()
        elif stop_deadline is None and (b"stop" in order or os.getppid() != parent):
            child.terminate()
            stop_deadline = time.monotonic() + grace_s
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(_run(sys.argv[2:], float(sys.argv[1])))
