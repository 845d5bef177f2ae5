"""Each line of the security audit names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/web-security.md"
_NAMED_TEST = re.compile(r"`(test_\w+\.py)::(\w+)`")


def functions(file: str) -> set[str]:
    trees = [ast.parse(path.read_text()) for path in ROOT.glob(f"tests/**/{file}")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_line_of_the_audit_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d", line)]
    assert len(rows) > 20
    for row in rows:
        named = _NAMED_TEST.findall(row.rpartition(" | ")[2])
        assert named, row
        assert [name for file, name in named if name not in functions(file)] == [], row
