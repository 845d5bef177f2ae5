"""Runs ``rebalance-monitor`` as a child process, as users start it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.support.wait import TIMEOUT_SECONDS


def command(*arguments: str, module: str = "streaming") -> list[str]:
    """Return the command line that starts ``rebalance-monitor`` with this interpreter."""
    return [sys.executable, "-m", module, *arguments]


def run(
    *arguments: str, stdin: str = "", timeout: float = TIMEOUT_SECONDS, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; return the completed process with UTF-8 output and unchanged line ends.

    ``environment``: additional variables.
    """
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(
        command(*arguments), input=stdin.encode(), capture_output=True, check=False, timeout=timeout, env=variables
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class RunningCommand:
    """A context manager for a command that runs until it is stopped; a test may start it again.

    Args:
        arguments: arguments of ``rebalance-monitor``.
        log: file to which each start appends the command's output; None: the test's own output receives it.

    Attributes:
        environment: additional variables, used from the next start on.
    """

    def __init__(self, *arguments: str, log: Path | None = None) -> None:
        self.command = command(*arguments)
        self.log = log
        self.environment: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with ExitStack() as stack:
            log = None if self.log is None else stack.enter_context(self.log.open("ab"))
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env={**os.environ, **self.environment}, start_new_session=True
            )
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def output(self) -> str:
        """Return the text that the command has printed until now."""
        return "" if self.log is None else self.log.read_text()

    def check(self) -> None:
        """Raise an AssertionError with the command's output if the command has ended too early."""
        assert self.process is not None
        assert self.process.poll() is None, self.output()

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = TIMEOUT_SECONDS) -> int:
        """Send the signal to the process and return the exit status."""
        assert self.process is not None
        self.process.send_signal(number)  # no effect on a process that has ended
        return self.ended(seconds)

    def ended(self, seconds: float = TIMEOUT_SECONDS) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Kill the process and its children with SIGKILL, as a crash would."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
