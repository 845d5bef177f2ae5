"""Child processes of ``demo`` and ``run``: each in a session of its own, none outlives the parent.

A child that is one of our own commands asks every half second whether its parent is still there and asks itself
to end when it is not: that works on every POSIX system and after any death of the parent, SIGKILL included.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Self

from assignors.errors import OutsideFailure

_PARENT = "REBALANCE_MONITOR_PARENT"
#: Seconds a child has to drain after SIGTERM before it is killed.
DRAIN_SECONDS = 20.0


class ChildDied(OutsideFailure):
    """A part of the monitor ended by itself."""


def follow_parent() -> None:
    """In a child: end (SIGTERM, later at once) when the process that started it is gone."""
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

    Args:
        name: what errors call it.
        module_arguments: what follows ``python -m``.
        log: the file for standard error; without one the child shares ours.
        output: the file for standard output; without one it goes to ``log``.
        variables: of its environment, where ours has no such.
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
        self._log = log
        with ExitStack() as stack:
            errors = stack.enter_context(log.open("ab")) if log else None
            self._process = subprocess.Popen(
                [sys.executable, "-m", *module_arguments],
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(output.open("ab")) if output else errors,
                stderr=errors,
                env={**variables, **os.environ, _PARENT: str(os.getpid())},
                start_new_session=True,  # Ctrl-C reaches the parent alone, which ends its children in order
            )

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise ChildDied, with the last line of its log, when the process has ended by itself."""
        status = self._process.poll()
        if status is None:
            return
        if self._log is None:
            raise ChildDied(f"{self.name} ended with status {status}; its reason stands above")
        lines = self._log.read_text(errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("error: ") if lines else "no output"
        raise ChildDied(f"{self.name} ended with status {status}: {last} (log: {self._log})")

    def terminate(self) -> None:
        """Ask it to drain and end; returns at once."""
        if self.running:
            self._process.terminate()

    def kill(self) -> None:
        """End it as a crash would."""
        if self.running:
            self._process.kill()
        self._process.wait()

    def wait(self, seconds: float = DRAIN_SECONDS) -> int:
        """Wait until it has drained; after ``seconds`` its whole session is killed. Returns the exit status."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()


class Children:
    """Children that end together, the last started first."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def add(self, child: Child) -> Child:
        """Look after this child too."""
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise ChildDied for the first that has ended by itself."""
        for child in self._children:
            child.check()

    def watch(self, stop: threading.Event) -> None:
        """Wait until ``stop`` is set; raise ChildDied for the first that ends before."""
        while not stop.wait(0.5):
            self.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._children):
            child.terminate()
            child.wait()
