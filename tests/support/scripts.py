"""Runs the scripts that write pages of the documentation."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def check(script: str) -> tuple[int, str]:
    """Return exit status and standard error of a script's ``--check``; ``(0, "")`` if its pages are current."""
    completed_process = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return completed_process.returncode, completed_process.stderr
