"""Limits, waits, names and tables that modules begin with are what they were: who changes one means it.

``python -m tests.golden.streaming.test_figures`` writes ``figures.json`` anew.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).with_name("figures.json")
ROOMS = ("cli", "collect", "kafka", "monitor", "protocols", "serve", "settings", "simulate", "spark", "wire")
_NAMED = re.compile(r"^(_?[A-Z][A-Z0-9_]*)\b[^=\n]* = ", re.MULTILINE)


def modules() -> list[str]:
    """The modules of the rooms that begin with any, by their paths; not those that need Spark."""
    return [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in sorted((ROOT / "streaming" / room).rglob("*.py"))
        if "pyspark" not in path.parts and _NAMED.search(path.read_text())
    ]


def figures(module: str) -> dict[str, Any]:
    """What stands in a module under names in capitals that it gives itself, as JSON has it."""
    # Run anew, not looked up: so much is the module's own.
    there = runpy.run_path(str(ROOT / module), run_name=module.removesuffix(".py").replace("/", "."))
    own = _NAMED.findall((ROOT / module).read_text())
    values = {name: plain(there[name]) for name in own if name in there}
    return {name: value for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """As JSON has it; None for what is no figure, word or table of such."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, re.Pattern):
        return plain(value.pattern)
    if isinstance(value, dict):
        found = {str(plain(name)): plain(one) for name, one in value.items()}
        return found if None not in found.values() else None
    if isinstance(value, list | tuple | set | frozenset):
        several = [plain(one) for one in value]
        ordered = sorted(several, key=str) if isinstance(value, set | frozenset) else several
        return ordered if None not in ordered else None
    return None


@pytest.mark.parametrize("module", modules())
def test_the_figures_are_the_recorded_ones(module: str) -> None:
    assert figures(module) == json.loads(GOLDEN.read_text())[module]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({module: figures(module) for module in modules()}, indent=1) + "\n")
