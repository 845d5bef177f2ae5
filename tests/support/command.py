"""Runs ``rebalance-monitor`` as a child process, as its users do."""

from __future__ import annotations

import subprocess
import sys


def run(*arguments: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """The finished command; text is UTF-8 and line ends are left alone."""
    done = subprocess.run(
        [sys.executable, "-m", "streaming", *arguments],
        input=stdin.encode(),
        capture_output=True,
        check=False,
        timeout=timeout,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
