"""Every setting, with its bounds and its default: files that were written for one release are read by the next.

``python -m tests.golden.streaming.settings.test_schema`` writes ``schema.json`` anew, when a change is meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streaming.settings.config import Settings

GOLDEN = Path(__file__).with_name("schema.json")


def schema() -> Any:
    """All tables of settings, without what is said of them."""
    return _bare(Settings.model_json_schema())


def _bare(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _bare(one) for name, one in found.items() if name not in ("description", "title")}
    return [_bare(one) for one in found] if isinstance(found, list) else found


def test_the_settings_are_the_recorded_ones() -> None:
    assert schema() == json.loads(GOLDEN.read_text())


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(schema(), indent=1) + "\n")
