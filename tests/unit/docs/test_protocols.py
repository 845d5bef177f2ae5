import ast

from tests.support.scripts import ROOT, check


def test_diagrams_match_the_transition_tables() -> None:
    assert check("protocols.py") == (0, "")


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
