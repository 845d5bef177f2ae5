"""Writes docs/reference/commands.md and docs/reference/records.md from the code, or checks them with ``--check``.

``python scripts/reference.py`` after a change of an option or a record; a test runs ``--check``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from streaming.cli.main import COMMANDS, build
from streaming.freshness.sign import SIGN_TYPE, Sign
from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.episodes import EPISODE_TYPE, INCIDENT_TYPE, Episode, Incident
from streaming.wire.events import EVENT_TYPES

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by scripts/reference.py from the code: change it there. -->\n"


def commands() -> str:
    """Every command's ``--help``, as a terminal of 100 columns shows it without colour."""
    parts = ["# Commands\n", NOTE]
    terminal = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
    for name, line in COMMANDS.items():
        answer = terminal.invoke(build(name), [name, "--help"], prog_name="python -m streaming")
        text = "\n".join(row.rstrip() for row in answer.stdout.strip("\n").splitlines())
        parts.append(f"## {name}\n\n{line}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _type(schema: dict[str, Any]) -> str:  # noqa: PLR0911 - one return a kind of schema
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return "[" + ", ".join(_type(one) for one in schema["prefixItems"]) + "]"
        case "array":
            return f"list of {_type(schema['items'])}"
        case "object" if "additionalProperties" in schema:
            return f"map of text to {_type(schema['additionalProperties'])}"
        case None:
            return "any"
        case kind:
            return {"string": "text", "integer": "number"}.get(str(kind), str(kind))


def _table(schema: dict[str, Any]) -> Iterator[str]:
    yield inspect.cleandoc(schema.get("description", "")).replace("``", "`") + "\n"
    yield "| field | type | needed |"
    yield "|---|---|---|"
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        yield f"| `{name}` | {_type(field)} | {'yes' if name in required else 'no'} |"
    yield ""


def records() -> str:
    """The value of every record, from the structs that decode it."""
    types = [*EVENT_TYPES.values(), Diff, LatestAssignment, Episode, Incident, Sign]
    _, components = msgspec.json.schema_components(types, ref_template="#/{name}")
    names = {struct.__name__: f"`{name}`" for name, struct in EVENT_TYPES.items()}
    names |= {"Diff": "Diff (`rebalance.diff`)", "LatestAssignment": "Latest assignment"}
    names |= {"Episode": f"Episode (`{EPISODE_TYPE}`)", "Incident": f"Incident (`{INCIDENT_TYPE}`)"}
    names |= {"Sign": f"Sign of life (`{SIGN_TYPE}`)"}
    lines = ["# Records\n", NOTE]
    lines.append(
        "Values are JSON; the type stands in the header `ce_type`. What is not needed may be left out or null. "
        "Times are milliseconds since 1970.\n"
    )
    for struct in [*names, *sorted(components.keys() - names.keys())]:
        lines.append(f"## {names.get(struct, struct)}\n")
        lines.extend(_table(components[struct]))
    return "\n".join(lines)


def main() -> None:
    """Write, or with ``--check`` exit 1 and name the page that is not current."""
    pages = {"commands.md": commands(), "records.md": records()}
    stale = []
    for name, text in pages.items():
        path = ROOT / "docs" / "reference" / name
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                stale.append(str(path.relative_to(ROOT)))
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what the code says; run python scripts/reference.py")


if __name__ == "__main__":
    main()
