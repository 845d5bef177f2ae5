import ast
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


def test_the_monitor_takes_the_vote_from_the_machines_and_nothing_else() -> None:
    taken: dict[str, set[str]] = {}
    for path in (ROOT / "streaming").rglob("*.py"):
        room = path.relative_to(ROOT / "streaming").parts[0]
        if room in ("protocols", "simulate"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streaming.protocols"):
                taken.setdefault(room, set()).update(alias.name for alias in node.names)
    # The error is the vote's.
    assert taken == {
        "monitor": {"vote", *taken["monitor"] & {"InconsistentGroupProtocol"}},
        "cli": {"FAMILIES"},
    }
