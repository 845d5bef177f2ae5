import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_is_what_the_code_says() -> None:
    answer = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
