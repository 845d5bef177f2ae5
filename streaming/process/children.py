"""Child processes that end with their parent, even if SIGKILL ends it; and files that only this user can read.

A child that runs one of our own commands (:class:`Child`) checks every half second that its parent is alive, and ends
itself if the parent is gone. Any other program (:class:`SupervisedProcess`) runs under a small supervisor that makes
this check.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Self

from assignors.errors import OutsideFailure

_PARENT_VARIABLE = "REBALANCE_MONITOR_PARENT"
#: Seconds for which a child may drain after SIGTERM before it is killed.
STOP_TIMEOUT_SECONDS = 20.0
#: A child that ran for at least this many seconds is restarted if an outside failure or a signal ends it.
MIN_UPTIME_FOR_RESTART_SECONDS = 30.0
#: Exit status after a failure outside this program (``assignors.errors.OutsideFailure``).
_OUTSIDE_FAILURE_STATUS = 3

_log = logging.getLogger(__name__)


class ChildDied(OutsideFailure):
    """A child process of the monitor ended unexpectedly."""


def end_with_parent() -> None:
    """End this child process once its parent has ended: by SIGTERM, and by force if it does not drain in time."""
    parent = os.environ.pop(_PARENT_VARIABLE, None)
    if parent is None:
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_TIMEOUT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="follow-parent", daemon=True).start()


class Child:
    """A child process that runs one of our own commands and writes its output to a file.

    ``log``: file for standard error; None: the parent's standard error. ``output``: file for standard output; None:
    ``log``. ``variables``: defaults for environment variables that the parent's environment does not set.
    """

    def __init__(
        self,
        name: str,
        module_arguments: Sequence[str],
        *,
        log: Path | None = None,
        output: Path | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name, self._command = name, [sys.executable, "-m", *module_arguments]
        self._log, self._output, self._variables = log, output, variables
        self.start()

    def start(self) -> None:
        """Start the process, or start it again after it has ended."""
        with ExitStack() as stack:
            errors = stack.enter_context(self._log.open("ab")) if self._log else None
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(self._output.open("ab")) if self._output else errors,
                stderr=errors,
                env={**self._variables, **os.environ, _PARENT_VARIABLE: str(os.getpid())},
                start_new_session=True,  # Ctrl-C only reaches the parent, which ends its children in order.
            )
        self._started_at = time.monotonic()

    @property
    def can_restart(self) -> bool:
        """True if a signal or a failure outside the monitor ended the process after it ran long enough to restart."""
        status = self._process.poll()
        is_outside_failure = status is not None and (status == _OUTSIDE_FAILURE_STATUS or status < 0)
        return is_outside_failure and time.monotonic() - self._started_at >= MIN_UPTIME_FOR_RESTART_SECONDS

    @property
    def is_running(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise ChildDied, with the last line of the child's log, if the process has ended by itself."""
        status = self._process.poll()
        if status is None:
            return
        if self._log is None:
            raise ChildDied(f"{self.name} ended with status {status}; its error is above")
        lines = self._log.read_text(errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("error: ") if lines else "no output"
        raise ChildDied(f"{self.name} ended with status {status}: {last} (log: {self._log})")

    def terminate(self) -> None:
        """Send SIGTERM, after which the process drains and ends, and return at once."""
        if self.is_running:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL, to simulate a crash, and return once the process is gone."""
        if self.is_running:
            self._process.kill()
        self._process.wait()

    def wait(self, seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Return the exit status once the child has ended; kill its processes after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()


class ChildProcesses:
    """A group of child processes that end together, in reverse order of their start."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def add(self, child: Child) -> Child:
        """Add a child process to these children, and return the child."""
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise ChildDied for the first child that has ended by itself, if there is one."""
        for child in self._children:
            child.check()

    def watch(self, stop: threading.Event, on_restart: Callable[[str], None]) -> None:
        """Wait until ``stop`` is set; restart children that an outside failure or a signal ended.

        ``on_restart`` is called with the child's name, and raises an error if a restart would fail again.
        """
        while not stop.wait(0.5):
            for child in self._children:
                if child.can_restart:
                    on_restart(child.name)
                    _log.warning("%s ended after a failure outside the monitor: starting it again", child.name)
                    child.start()
                child.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._children):
            child.terminate()
        for child in reversed(self._children):
            child.wait()


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file that only this user can read, whatever the umask is and whether the file existed before."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115 - the caller closes it
    os.fchmod(file.fileno(), 0o600)
    return file


def make_private(folder: Path) -> None:
    """Create a folder that only this user can read; an existing folder stays as it is."""
    folder.mkdir(0o700, parents=True, exist_ok=True)


class SupervisedProcess:
    """Runs a command under :mod:`streaming.process.supervisor`.

    Ctrl-C in the terminal does not reach the command. Its output is appended to ``log``. ``grace_s``: seconds between
    SIGTERM and SIGKILL if this Python process ends without calling :meth:`stop`.
    """

    def __init__(
        self, command: Sequence[str], log: Path, *, grace_s: float = 5.0, environment: Mapping[str, str] | None = None
    ) -> None:
        supervisor_path = Path(__file__).with_name("supervisor.py")
        with open_private(log, "ab") as output:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(supervisor_path), str(grace_s), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
                env=environment,
            )
        first = self._supervisor.stdout.readline() if self._supervisor.stdout else b""
        if not first:
            self._supervisor.wait()
            raise OutsideFailure(f"{command[0]} does not start; see {log}")
        #: Process id of the command itself.
        self.pid = int(first)

    def poll(self) -> int | None:
        """Return the exit status of the command (128 + n after signal n); None while the command runs."""
        return self._supervisor.poll()

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the exit status once the command ends; None if ``timeout`` seconds pass first."""
        with suppress(subprocess.TimeoutExpired):
            return self._supervisor.wait(timeout)
        return None

    def stop(self, timeout: float = 10.0) -> None:
        """Send SIGTERM and, after ``timeout`` seconds, SIGKILL; return once the command is gone."""
        self._order(b"stop\n")
        if self.wait(timeout) is None:
            self.kill()
        self._close()

    def kill(self) -> None:
        """Send SIGKILL to the command, and return once it is gone."""
        self._order(b"kill\n")
        if self.wait(5.0) is None:  # The supervisor hangs; if it is killed, the command dies, too.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._supervisor.kill()
            self._supervisor.wait()
        self._close()

    def _order(self, order: bytes) -> None:
        supervisor_input = self._supervisor.stdin
        if self.poll() is None and supervisor_input is not None and not supervisor_input.closed:
            with suppress(BrokenPipeError):  # The process has just ended by itself.
                supervisor_input.write(order)
                supervisor_input.flush()

    def _close(self) -> None:
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
