"""The figures and words that modules begin with: limits, waits, names, tables. Each stands once more in a file."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def modules(room: str) -> list[str]:
    """The modules of a room that begin with any, by their paths; not those that need Spark."""
    found = sorted(
        path
        for path in (ROOT / "streaming" / room).rglob("*.py")
        if "pyspark" not in path.parts
        and re.search(r"^_?[A-Z][A-Z0-9_]*\b.* = ", path.read_text(), re.MULTILINE)
    )
    return [str(path.relative_to(ROOT)) for path in found]


def figures(module: str) -> dict[str, Any]:
    """What stands in a module under names in capitals that it gives itself, as JSON has it."""
    text = (ROOT / module).read_text()
    own = re.findall(r"^(_?[A-Z][A-Z0-9_]*)\b[^=\n]* = ", text, re.MULTILINE)
    # Run anew, not looked up: so much is the module's own.
    there = runpy.run_path(str(ROOT / module), run_name=module.removesuffix(".py").replace("/", "."))
    values = {name: _plain(there[name]) for name in own if name in there}
    return {name: value for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    """As JSON has it; None for what is no figure, word or table of such."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, re.Pattern):
        return _plain(value.pattern)
    if isinstance(value, dict):
        found = {str(_plain(name)): _plain(one) for name, one in value.items()}
        return found if None not in found.values() else None
    if isinstance(value, list | tuple | set | frozenset):
        several = [_plain(one) for one in value]
        ordered = sorted(several, key=str) if isinstance(value, set | frozenset) else several
        return ordered if None not in ordered else None
    return None


def recorded(file: Path) -> Any:
    """What was written for each module."""
    return json.loads(file.read_text())


def record(file: Path, room: str) -> None:
    """Write them anew."""
    found = {module: figures(module) for module in modules(room)}
    file.write_text(json.dumps(found, indent=1) + "\n")
