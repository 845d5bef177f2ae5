"""Puts a table between the markers of a document, by default docs/benchmarks.md."""

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

BENCHMARKS_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
TRUST_PAGE = BENCHMARKS_PAGE.with_name("explanation") / "trust.md"
_HEADING = "# Benchmarks\n\nEvery table is written by its `make` target; times are the best of several rounds.\n"


def describe_machine() -> str:
    """Return one line that describes the machine and the versions of a measurement."""
    cores = f"{os.cpu_count()} cores"
    return f"{platform.system()} {platform.machine()}, {cores}, Python {platform.python_version()}"


def write_section(name: str, text: str, document: Path = BENCHMARKS_PAGE) -> None:
    """Replace the text between the markers of ``name``; append marked text if the document has no such markers."""
    start, end = f"<!-- {name}: start -->", f"<!-- {name}: end -->"
    section = f"{start}\n{text.strip()}\n{end}"
    old = document.read_text(encoding="utf-8") if document.exists() else _HEADING
    between_markers = re.compile(re.escape(start) + r".*?" + re.escape(end), re.DOTALL)
    new, replaced = between_markers.subn(lambda _: section, old)
    document.parent.mkdir(exist_ok=True)
    document.write_text(new if replaced else f"{old.rstrip()}\n\n{section}\n", encoding="utf-8")


def section(name: str, document: Path = BENCHMARKS_PAGE) -> str:
    """Return the text between the markers of ``name``; empty if the document has no such markers."""
    start, end = f"<!-- {name}: start -->", f"<!-- {name}: end -->"
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    return text.partition(start)[2].partition(end)[0]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
