"""Child processes, each in a session of its own; none outlives the parent. And files that only this user may read.

One of our own commands (:class:`Child`) checks every half second that its parent is alive, and otherwise ends
itself. Any other program (:class:`SupervisedProcess`) runs under a small supervisor that does. Both work on every
POSIX system, and after SIGKILL of the parent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Self

from assignors.errors import OutsideFailure

_PARENT = "REBALANCE_MONITOR_PARENT"
#: Seconds that a child has to drain after SIGTERM before it is killed.
DRAIN_SECONDS = 20.0
#: A child that ran for so many seconds is started again when a failure outside or a signal ends it.
STEADY_SECONDS = 30.0
#: Exit status of a failure outside (``assignors.errors.OutsideFailure``).
_OUTSIDE = 3

_log = logging.getLogger(__name__)


class ChildDied(OutsideFailure):
    """A part of the monitor ended by itself."""


def follow_parent() -> None:
    """In a child: end by SIGTERM, later at once, when the process that started it is gone."""
    parent = os.environ.pop(_PARENT, None)
    if parent is None:
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(DRAIN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="follow-parent", daemon=True).start()


class Child:
    """One of our own commands as a child process, its output in a file.

    ``log`` and ``output``: files for standard error (without one the child shares ours) and standard output (without
    one: ``log``). ``variables``: defaults for variables that our environment does not set.
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
        self.name = name
        self._command = [sys.executable, "-m", *module_arguments]
        self._log, self._output = log, output
        self._variables = variables
        self.start()

    def start(self) -> None:
        """Start the process, or another one after it has ended."""
        with ExitStack() as stack:
            errors = stack.enter_context(self._log.open("ab")) if self._log else None
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(self._output.open("ab")) if self._output else errors,
                stderr=errors,
                env={**self._variables, **os.environ, _PARENT: str(os.getpid())},
                start_new_session=True,  # Ctrl-C reaches the parent alone, which ends its children in order
            )
        self._began = time.monotonic()

    @property
    def can_restart(self) -> bool:
        """True if a failure outside or a signal ended it, after it had run for a while."""
        status = self._process.poll()
        from_outside = status is not None and (status == _OUTSIDE or status < 0)
        return from_outside and time.monotonic() - self._began >= STEADY_SECONDS

    @property
    def is_running(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise ChildDied, with the last line of its log, when the process has ended by itself."""
        status = self._process.poll()
        if status is None:
            return
        if self._log is None:
            raise ChildDied(f"{self.name} ended with status {status}; its error is above")
        lines = self._log.read_text(errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("error: ") if lines else "no output"
        raise ChildDied(f"{self.name} ended with status {status}: {last} (log: {self._log})")

    def terminate(self) -> None:
        """Send SIGTERM, on which it drains and ends; return at once."""
        if self.is_running:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL, as a crash; return once it is gone."""
        if self.is_running:
            self._process.kill()
        self._process.wait()

    def wait(self, seconds: float = DRAIN_SECONDS) -> int:
        """Return its exit status once it has drained; after ``seconds`` kill its whole session."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()


class Children:
    """Child processes that end together, the last started first."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def add(self, child: Child) -> Child:
        """Add a child, and return it."""
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise ChildDied for the first child that ended by itself."""
        for child in self._children:
            child.check()

    def watch(self, stop: threading.Event, before_restart: Callable[[str], None]) -> None:
        """Wait until ``stop`` is set, and restart children that a failure outside or a signal ended.

        ``before_restart`` is called with the child's name; it raises if a restart would fail again.
        """
        while not stop.wait(0.5):
            for child in self._children:
                if child.can_restart:
                    before_restart(child.name)
                    _log.warning("%s ended by a failure outside: it is started again", child.name)
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
    """Open a file, and let only this user read it, whatever the umask is and whether it existed before."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115 - the caller closes it
    os.fchmod(file.fileno(), 0o600)
    return file


def make_private(folder: Path) -> None:
    """Create a folder that only this user may read; an existing one stays as it is."""
    folder.mkdir(0o700, parents=True, exist_ok=True)


class SupervisedProcess:
    """Runs a command under :mod:`streaming.process.supervisor`.

    Ctrl-C in the terminal does not reach it. Its output is appended to ``log``. ``grace``: seconds between SIGTERM and
    SIGKILL when this process ends without :meth:`stop`.
    """

    def __init__(
        self, command: Sequence[str], log: Path, *, grace: float = 5.0, environment: Mapping[str, str] | None = None
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
            raise OutsideFailure(f"{command[0]} does not start; see {log}")
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
        orders = self._supervisor.stdin
        if self.poll() is None and orders is not None and not orders.closed:
            with contextlib.suppress(BrokenPipeError):  # it ended by itself just now
                orders.write(order)
                orders.flush()

    def _close(self) -> None:
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
