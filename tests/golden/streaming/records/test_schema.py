"""Every field of every record, with its bounds and default: other programs rely on this schema.

``python -m tests.golden.streaming.records.test_schema`` writes ``schema.json`` again after an intended change.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from streaming.freshness import ComponentHeartbeat
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.events import EVENT_TYPES

GOLDEN = Path(__file__).with_name("schema.json")


def schema() -> dict[str, Any]:
    """Return the schema of each record type by name, without descriptions."""
    types = [*EVENT_TYPES.values(), Diff, LatestAssignment, ComponentHeartbeat]
    _, components = msgspec.json.schema_components(types, ref_template="#/{name}")
    return {
        name: {key: value for key, value in components[name].items() if key != "description"}
        for name in sorted(components)
    }


def test_record_schema_equals_the_golden_file() -> None:
    assert schema() == json.loads(GOLDEN.read_text())


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(schema(), indent=1) + "\n")
