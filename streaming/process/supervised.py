"""A child process in a session of its own that never outlives this one, and files that only this user may read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from assignors.errors import OutsideFailure

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file, and let only this user read it, whatever the umask is and whether it existed before."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, _FILE_MODE))  # noqa: SIM115 - the caller closes it
    os.fchmod(file.fileno(), _FILE_MODE)
    return file


def make_private(folder: Path) -> None:
    """Create a folder that only this user may read; an existing one stays as it is."""
    folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)


class ProcessNotStarted(OutsideFailure):
    """A child process did not start."""


class SupervisedProcess:
    """Runs a command under :mod:`streaming.process.supervisor`.

    Ctrl-C in the terminal does not reach it. Its standard output and error go to a file.

    Args:
        command: program and arguments.
        log: where its output is appended.
        grace: seconds between SIGTERM and SIGKILL when this process ends without :meth:`stop`.
        environment: its variables; None for this process's own.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        grace: float = 5.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        script = Path(__file__).with_name("supervisor.py")
        with open_private(log, "ab") as output:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(script), str(grace), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
                env=environment,
            )
        first = self._supervisor.stdout.readline() if self._supervisor.stdout else b""
        if not first:
            self._supervisor.wait()
            raise ProcessNotStarted(f"{command[0]} does not start; see {log}")
        #: Process id of the command itself.
        self.pid = int(first)

    def poll(self) -> int | None:
        """Return its exit status (128 + n after signal n); None while it runs."""
        return self._supervisor.poll()

    def wait(self, timeout: float | None = None) -> int | None:
        """Return its exit status once it ends; None if ``timeout`` seconds pass first."""
        try:
            return self._supervisor.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, timeout: float = 10.0) -> None:
        """Send SIGTERM, and SIGKILL after ``timeout`` seconds; return once it is gone."""
        self._order(b"stop\n")
        if self.wait(timeout) is None:
            self.kill()
        self._close()

    def kill(self) -> None:
        """Send SIGKILL; return once it is gone."""
        self._order(b"kill\n")
        if self.wait(5.0) is None:  # the supervisor hangs: the command dies with it
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._supervisor.kill()
            self._supervisor.wait()
        self._close()

    def _order(self, order: bytes) -> None:
        if self.poll() is None and self._supervisor.stdin is not None and not self._supervisor.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it ended by itself just now
                self._supervisor.stdin.write(order)
                self._supervisor.stdin.flush()

    def _close(self) -> None:
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
