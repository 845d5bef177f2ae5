"""What arguments and fields are when nobody says is what it was: who changes one means it.

``python -m tests.golden.streaming.test_defaults`` writes ``defaults.json`` anew. Those new or gone are not missed.
"""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from importlib import import_module
from inspect import Parameter, isfunction, signature
from pathlib import Path
from typing import Any

import pytest
from msgspec import StructMeta

from tests.golden.streaming.test_figures import ROOMS, ROOT, plain

GOLDEN = Path(__file__).with_name("defaults.json")
RECORDED: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


def defaults(module: str) -> dict[str, Any]:
    """Of all functions and classes of a module, as JSON has it."""
    name = module.removesuffix(".py").replace("/", ".")
    found: dict[str, Any] = {}
    for thing in vars(import_module(name)).values():
        if getattr(thing, "__module__", None) == name:
            found |= _of(thing)
    return {name: value for name, value in found.items() if value is not None}


def _of(thing: Any) -> dict[str, Any]:
    """Of a function, or of a class and its methods."""
    made = isinstance(thing, type) and (
        is_dataclass(thing) or isinstance(thing, StructMeta) or hasattr(thing, "_field_defaults")
    )
    found: dict[str, Any] = {}
    for method in vars(thing).values() if isinstance(thing, type) else ():
        written = getattr(method, "__func__", method)
        if isfunction(written) and not (made and written.__name__.startswith("__")):
            found |= _of(written)
    known: dict[str, Any] = {}
    if isinstance(thing, StructMeta):
        values = thing.__struct_defaults__
        known = dict(zip(thing.__struct_fields__[-len(values) :], values, strict=True)) if values else {}
    elif made or isfunction(thing):
        told = signature(thing).parameters.values()
        known = {one.name: one.default for one in told if one.default is not Parameter.empty}
    return found | {f"{thing.__qualname__}({name})": plain(value) for name, value in known.items()}


@pytest.mark.parametrize("module", RECORDED)
def test_what_nobody_says_is_the_recorded_one(module: str) -> None:
    found = defaults(module)
    known = {name: value for name, value in RECORDED[module].items() if name in found}
    assert known == {name: found[name] for name in known}


def record() -> None:
    """Write them anew, of all modules of the rooms but those that need Spark."""
    folders = [ROOT / "assignors", *(ROOT / "streaming" / room for room in ROOMS)]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    modules = [str(path.relative_to(ROOT)) for path in paths if "pyspark" not in path.parts]
    found = {module: defaults(module) for module in modules if not module.endswith("__.py")}
    kept = {module: known for module, known in found.items() if known}
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    record()
