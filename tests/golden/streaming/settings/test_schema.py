"""Every setting, with its bounds and default: each release has to read its predecessor's configuration files.

``python -m tests.golden.streaming.settings.test_schema`` writes ``schema.json`` again after an intended change.
"""

import json
from pathlib import Path
from typing import Any

from streaming.settings.config import Settings

GOLDEN = Path(__file__).with_name("schema.json")


def schema() -> Any:
    """Return the schema of all tables of settings, without descriptions."""
    return _remove_descriptions(Settings.model_json_schema())


def _remove_descriptions(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: _remove_descriptions(value) for name, value in schema.items() if name not in ("description", "title")
        }
    return [_remove_descriptions(value) for value in schema] if isinstance(schema, list) else schema


def test_settings_schema_equals_the_golden_file() -> None:
    assert schema() == json.loads(GOLDEN.read_text())


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(schema(), indent=1) + "\n")
