import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_picture_is_what_the_imports_say_and_the_walk_what_a_record_does() -> None:
    answer = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "architecture.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
