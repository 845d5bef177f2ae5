import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_diagrams_are_what_the_tables_say() -> None:
    answer = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "protocols.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (answer.returncode, answer.stderr) == (0, "")
