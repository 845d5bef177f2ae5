"""Generated parts of the documentation are up to date, and the tests that pages name exist."""

import ast
import re

import pytest

from tests.support.scripts import ROOT, check

_NAMED_TEST = re.compile(r"`(test_\w+\.py)::(\w+)`")


@pytest.mark.parametrize("script", ["architecture.py", "protocols.py", "reference.py"])
def test_generated_pages_match_the_code(script: str) -> None:
    assert check(script) == (0, "")


def test_monitor_imports_only_the_vote_from_protocols() -> None:
    imported_names: dict[str, set[str]] = {}
    for path in (ROOT / "streaming").rglob("*.py"):
        package = path.relative_to(ROOT / "streaming").parts[0]
        if package in ("protocols", "simulation", "advice"):  # advice simulates the changes that it proposes
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streaming.protocols"):
                imported_names.setdefault(package, set()).update(alias.name for alias in node.names)
    # the vote for a common assignor raises this error
    assert imported_names == {
        "monitor": {"vote", *imported_names["monitor"] & {"InconsistentGroupProtocol"}},
        "cli": {"PROTOCOL_FAMILIES"},
    }


def test_compatibility_claims_name_existing_tests() -> None:
    named = re.findall(r"`(tests/[\w./]+)`", (ROOT / "docs/reference/compatibility.md").read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def functions(file: str) -> set[str]:
    trees = [ast.parse(path.read_text()) for path in ROOT.glob(f"tests/**/{file}")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_line_of_the_security_audit_names_a_test() -> None:
    lines = (ROOT / "docs/reference/web-security.md").read_text().splitlines()
    rows = [line for line in lines if re.match(r"\| \d", line)]
    assert len(rows) > 20
    for row in rows:
        named = _NAMED_TEST.findall(row.rpartition(" | ")[2])
        assert named, row
        assert [name for file, name in named if name not in functions(file)] == [], row
