"""A separate process that kills this process if it stops making progress.

A client library that waits for a lock while it holds Python's interpreter lock stops all threads of a process. So the
watchdog is a separate process (``python -I -S watchdog.py PROCESS SECONDS``), which reads beats from a pipe.
"""

import faulthandler
import logging
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

_log = logging.getLogger(__name__)

#: Seconds between SIGABRT, on which the fault handler prints the threads' stacks, and SIGKILL.
_REPORT_INTERVAL_SECONDS: Final = 2.0


class Watchdog:
    """Watches this process during the ``with`` block; kills it after ``seconds`` without :meth:`report_progress`."""

    def __init__(self, seconds: float) -> None:
        self._stall_seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with suppress(OSError, ValueError, RuntimeError):  # Standard error is closed or is not a file.
            faulthandler.enable()
        self._start_process()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_process()

    def report_progress(self) -> None:
        """Report progress without blocking; the watched loop must call this method at least once per second."""
        pipe = None if self._process is None else self._process.stdin
        if pipe is None:
            return
        try:
            with suppress(BlockingIOError):  # The pipe is full of beats.
                os.write(pipe.fileno(), b".")
        except BrokenPipeError:
            _log.warning("the watchdog process has ended: starting another")
            self._stop_process()
            self._start_process()

    def _start_process(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(self._stall_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # The watched process, not the watchdog, handles Ctrl-C.
        )
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)

    def _stop_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()


def _is_paused(process: int) -> bool:
    """Return True if the process is paused (SIGSTOP, a debugger); always False on systems without ``/proc``."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False


def _watch(process: int, seconds: float) -> None:
    while os.getppid() == process:
        ready, _, _ = select.select([0], [], [], seconds)
        if ready and not os.read(0, 65536):
            return
        if not ready and not _is_paused(process):
            sys.stderr.write(f"error: no progress for {seconds:g} s: process {process} is killed; start it again\n")
            sys.stderr.flush()
            _kill_process(process)
            return


def _kill_process(process: int) -> None:
    for number in (signal.SIGABRT, signal.SIGKILL):
        if os.getppid() == process:
            os.kill(process, number)
        by = time.monotonic() + _REPORT_INTERVAL_SECONDS
        while os.getppid() == process and time.monotonic() < by:
            time.sleep(0.05)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), float(sys.argv[2]))
