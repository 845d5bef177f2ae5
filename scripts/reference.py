"""Writes pages of docs/reference (:func:`main`) from the code, or checks them with ``--check``.

Run ``python scripts/reference.py`` after a change of an option, a record or a broker's message; a test runs
``--check``.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from streaming.cli.main import COMMANDS, build
from streaming.collect.broker_log.messages import KAFKA_REASONS, MESSAGES
from streaming.freshness import HEARTBEAT_TYPE, ComponentHeartbeat
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import ANNOTATION_TYPE, EPISODE_TYPE, INCIDENT_TYPE, Episode, Incident, StoredAnnotation
from streaming.records.events import EVENT_TYPES

ROOT = Path(__file__).resolve().parent.parent
GENERATED_NOTE = "<!-- Written by scripts/reference.py from the code: change it there. -->\n"


def commands() -> str:
    """Return the text of every command's ``--help``, as in a terminal of 100 columns without colour."""
    parts = ["# Commands\n", GENERATED_NOTE]
    terminal = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
    for name in COMMANDS:
        answer = terminal.invoke(build(name), [name, "--help"], prog_name="python -m streaming")
        text = "\n".join(row.rstrip() for row in answer.stdout.strip("\n").splitlines())
        parts.append(f"## {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _type_text(schema: dict[str, Any]) -> str:  # noqa: PLR0911 - one return a kind of schema
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type_text(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return "[" + ", ".join(_type_text(option) for option in schema["prefixItems"]) + "]"
        case "array":
            return f"list of {_type_text(schema['items'])}"
        case "object" if "additionalProperties" in schema:
            return f"map of text to {_type_text(schema['additionalProperties'])}"
        case None:
            return "any"
        case kind:
            return {"string": "text", "integer": "number"}.get(str(kind), str(kind))


def _schema_table(schema: dict[str, Any]) -> Iterator[str]:
    yield inspect.cleandoc(schema.get("description", "")).replace("``", "`") + "\n"
    yield "| field | type | needed |"
    yield "|---|---|---|"
    required_fields = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        yield f"| `{name}` | {_type_text(field)} | {'yes' if name in required_fields else 'no'} |"
    yield ""


def records() -> str:
    """Return the documentation of every record's value, generated from the structs that decode the value."""
    types = [*EVENT_TYPES.values(), Diff, LatestAssignment, Episode, Incident, StoredAnnotation, ComponentHeartbeat]
    _, components = msgspec.json.schema_components(types, ref_template="#/{name}")
    names = {struct.__name__: f"`{name}`" for name, struct in EVENT_TYPES.items()}
    names |= {"Diff": "Diff (`rebalance.diff`)", "LatestAssignment": "Latest assignment"}
    names |= {"Episode": f"Episode (`{EPISODE_TYPE}`)", "Incident": f"Incident (`{INCIDENT_TYPE}`)"}
    names |= {"StoredAnnotation": f"Annotation (`{ANNOTATION_TYPE}`)"}
    names |= {"ComponentHeartbeat": f"Component heartbeat (`{HEARTBEAT_TYPE}`)"}
    lines = ["# Records\n", GENERATED_NOTE]
    lines.append(
        "Values are JSON; the type is in the header `ce_type`. Optional fields may be left out or null. "
        "Times are milliseconds since 1970.\n"
    )
    for struct in [*names, *sorted(components.keys() - names.keys())]:
        lines.append(f"## {names.get(struct, struct)}\n")
        lines.extend(_schema_table(components[struct]))
    return "\n".join(lines)


_BROKER_LOG_PAGE = """\
`collect --coordinator-log FILE`, repeated for each broker, reads these messages of Kafka 2.0 to 4.3 and adds
[the reasons of rebalances](../explanation/reasons.md) to its events. No other source has all reasons.

**Layouts.** Text around a message is skipped: log4j patterns (`[%d] %p %m (%c)%n`, Strimzi's `(%c)
[%t]`, line numbers, logger first), JSON (log4j2's JsonTemplateLayout and JsonLayout, logstash, GELF, docker's
json-file, Kubernetes CRI, also nested), logfmt, CSV, colours, and prefixes of `docker compose logs`,
`kubectl logs --timestamps`, `stern` and journald. In a layout without a known logger or thread, brackets after a
message count as part of the layout.

**Times.** ISO 8601 with or without a fraction and a zone, log4j's `DATE` and basic formats, seconds and
milliseconds since the epoch. Timestamps without a zone are in the log's own zone. `collect` computes its offset
from the line `Assignment received` and the record of the same generation. Without a fraction, bounds are a second
wide.

**Nothing understood?** `collect` logs one warning with an example line; `doctor --coordinator-log FILE` reports
the same at once. The metrics are `rebalance_monitor_collect_log_lines_total`, `…_log_lines_understood_total`
and `…_log_lines_undated_total`.

**Not read.** Messages that name no group (`Static member … with unknown member id rejoins` of 2.3 and 2.4,
`Group leader … failed to join`), ids of more than 500 characters, lines of more than 128 KiB, levels below
INFO. A leave in 2.0 and 2.1 has no line of its own; 2.0 gives no reason for a rebalance. Kafka Raft and
ZooKeeper brokers log the same.
"""


def _template_text(template: str) -> str:
    """Return a message template for readers: fields in angle brackets, optional parts in square brackets."""
    text = re.sub(r"<([^>]*)>", "⟦\\1⟧", template.replace("^", ""))
    text = re.sub(r"\{(\w+)\}", "<\\1>", text).replace("⟦", "[").replace("⟧", "]")
    return "`" + text.replace("|", "\\|").replace("`", "'") + "`"


def _release_range_text(since: str, until: str) -> str:
    return since if since == until else f"{since}–{until}"


def broker_log() -> str:
    """Return the documentation page of the log messages of group coordinators, by Kafka release."""
    lines = ["# Messages of group coordinators\n", GENERATED_NOTE, _BROKER_LOG_PAGE]
    lines += ["## Messages\n", "| releases | message | class | read as |", "|---|---|---|---|"]
    lines += [
        f"| {_release_range_text(message.since, message.until)} | {_template_text(message.template)} "
        f"| {message.source} | {message.kind} |"
        for message in MESSAGES
    ]
    lines += ["", "## Reasons in `Preparing to rebalance … (reason: …)`\n"]
    lines += ["| releases | reason | read as |", "|---|---|---|"]
    lines += [
        f"| {_release_range_text(since, until)} | {_template_text(text)} | {kind} |"
        for kind, since, until, text in KAFKA_REASONS
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the generated pages of docs/reference, or with ``--check`` exit 1 and name the outdated pages."""
    pages = {"commands.md": commands(), "records.md": records(), "broker-log.md": broker_log()}
    changed_pages = []
    for name, text in pages.items():
        path = ROOT / "docs" / "reference" / name
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                changed_pages.append(str(path.relative_to(ROOT)))
        else:
            path.write_text(text)
    if changed_pages:
        sys.exit(f"{', '.join(changed_pages)}: not what the code says; run python scripts/reference.py")


if __name__ == "__main__":
    main()
