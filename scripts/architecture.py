"""Writes the diagram and the path of an event in docs/design/architecture.md, or checks them with ``--check``.

Run ``python scripts/architecture.py`` after a change of imports between packages, or of the path of an event; a test
runs ``--check``. The rest of the page is written by hand.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "design" / "architecture.md"
#: The module is called wherever bytes are read or written; the table lists it where an event passes it first.
CODEC_MODULE = "streaming.records.codec"
#: Packages on an event's path, in order. `derived` computes what `observed` reads.
EVENT_PATH = (
    "streaming.monitor.bucket",
    CODEC_MODULE,
    "streaming.monitor.group",
    "streaming.monitor.derived",
    "assignors.classic.range",
    "streaming.monitor.rounds",
    "streaming.monitor.outputs",
    "streaming.monitor.episodes",
    "streaming.monitor.notes",
    "streaming.episodes.fold",
    "streaming.episodes.detection",
    "streaming.episodes.record",
)


def imported_packages() -> dict[str, set[str]]:
    """Return the packages (``assignors`` and those in ``streaming``) that each package imports directly."""
    graph = grimp.build_graph("assignors", "streaming", cache_dir=None)
    packages_by_name: dict[str, set[str]] = {}
    for module in graph.modules:
        package = _package(module)
        if package is not None:
            packages = {_package(name) for name in graph.find_modules_directly_imported_by(module)}
            packages_by_name.setdefault(package, set()).update(
                name for name in packages - {package} if name is not None
            )
    return packages_by_name


def _package(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] == "assignors":
        return "assignors"
    return None if len(parts) == 1 or parts[1] == "__main__" else parts[1]


def import_diagram() -> str:
    """Return the packages as a Mermaid flowchart; an arrow that other arrows imply is omitted."""
    imports_by_package = imported_packages()

    def indirect_imports(package: str) -> set[str]:
        return imports_by_package[package].union(*map(indirect_imports, imports_by_package[package]))

    lines = ["```mermaid", "flowchart TD"]
    for package in sorted(imports_by_package):
        indirect_imports_of_package = set[str]().union(*map(indirect_imports, imports_by_package[package]))
        lines += [
            f"    {package} --> {name}" for name in sorted(imports_by_package[package] - indirect_imports_of_package)
        ]
    return "\n".join([*lines, "```"])


def modules_of_join_event() -> list[str]:
    """Return the modules that process a join event until the event's episode is written, in order.

    A module that calls other modules is listed once; a module that is entered again later is listed again.
    """
    from streaming.monitor.bucket import process
    from streaming.monitor.bucket_state import Bucket
    from streaming.monitor.outputs import Sinks
    from streaming.records.codec import Record, encode_event
    from streaming.records.events import Event, MemberJoined

    data = MemberJoined(group_id="g", timestamp=1, member_id="c1", topics=["t"])
    record = Record.of(0, 0, *encode_event(Event("s", "1", data)))
    counts = dict.fromkeys(("m", "d", "a", "dlt", "e", "i"), 1)
    sinks = Sinks("m", "d", "a", "dlt", counts, episodes="e", incidents="i")
    module_names: list[str] = []

    def module(frame: FrameType | None) -> str:
        return "" if frame is None else frame.f_globals.get("__name__", "")

    def record_module(frame: FrameType, kind: str, _: Any) -> None:
        name = module(frame)
        if kind == "call" and name in EVENT_PATH and name not in (module(frame.f_back), *module_names[-1:]):
            module_names.append(name)

    sys.setprofile(record_module)
    try:
        process(Bucket(), [record], 0, sinks)
    finally:
        sys.setprofile(None)
    return module_names


def module_table() -> str:
    """Return a Markdown table of the modules, each with the first sentence of its docstring."""
    way = modules_of_join_event()
    order = list(dict.fromkeys(way))  # bytes are written at the end, by the modules that define the records
    if order != list(EVENT_PATH):
        sys.exit(f"a record's way is {' → '.join(way)}: not that of EVENT_PATH")
    return "\n".join(_table_lines())


def _table_lines() -> Iterator[str]:
    yield "| | module | what it does |"
    yield "|---:|---|---|"
    for number, name in enumerate(EVENT_PATH, 1):
        docstring = inspect.getdoc(importlib.import_module(name)) or ""
        first = " ".join(docstring.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")
        plain = re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", first)
        yield f"| {number} | `{name.replace('.', '/')}` | {plain} |"


def main() -> None:
    """Write the generated parts of docs/design/architecture.md, or with ``--check`` exit 1 if they are outdated."""
    text = PAGE.read_text()
    for name, part in (("picture", import_diagram()), ("walk", module_table())):
        section_marker = f"<!-- {name}: scripts/architecture.py -->"
        pattern = rf"{re.escape(section_marker)}\n.*?\n<!-- /{name} -->"
        text = re.sub(
            pattern, lambda _, m=section_marker, p=part, n=name: f"{m}\n{p}\n<!-- /{n} -->", text, flags=re.DOTALL
        )
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit("docs/design/architecture.md: not what the code says; run python scripts/architecture.py")


if __name__ == "__main__":
    main()
