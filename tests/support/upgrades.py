"""What the release before left behind (``tests/golden/upgrades``), as the tests of an upgrade take it."""

from __future__ import annotations

import json
import lzma
import tarfile
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec

from streaming.spark.checkpoint import NAME
from tests.support.histories import Topic

GOLDEN = Path(__file__).parents[1] / "golden/upgrades"
#: The last release, or the revision that counts as it: the folder that its record is in.
BEFORE = "5e10ebf"
PREFIX = "upgrade."
TOPICS = ("rebalance.membership", "rebalance.diffs", "rebalance.assignments", "rebalance.membership-dlt")


def record(row: list[Any]) -> dict[str, Any]:
    """A recorded row as a producer takes it, less the topic."""
    partition, key, value, headers = row
    return {
        "partition": partition,
        "key": None if key is None else b64decode(key),
        "value": None if value is None else b64decode(value),
        "headers": [(name, b64decode(data)) for name, data in headers],
    }


def topics() -> dict[str, list[dict[str, Any]]]:
    """The records of each topic, by its name without the prefix; ``later``: membership events from then on."""
    with lzma.open(GOLDEN / BEFORE / "topics.json.xz") as file:
        return {name: list(map(record, rows)) for name, rows in json.load(file).items()}


def as_topic(rows: list[dict[str, Any]]) -> Topic:
    """Records of the membership topic by partition."""
    log: Topic = [[] for _ in range(4)]
    for row in rows:
        log[row["partition"]].append((row["key"], row["value"], row["headers"]))
    return log


def history(folder: Path) -> Path:
    """The history in a folder."""
    path = folder / "history.sqlite"
    path.write_bytes(lzma.decompress((GOLDEN / BEFORE / "history.sqlite.xz").read_bytes()))
    return path


def checkpoint(folder: Path, **moved: str) -> Path:
    """The checkpoint in a folder; ``moved``: fields of its card, as the cluster of a test is another one."""
    with tarfile.open(GOLDEN / BEFORE / "checkpoint.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    path = folder / "checkpoint"
    card = json.loads((path / NAME).read_text())
    assert card.keys() >= moved.keys()
    (path / NAME).write_bytes(msgspec.json.encode(card | moved))
    return path


def narrowed(new: Any, old: Any) -> Any:
    """``new`` without the fields that ``old`` does not have: fields are added from release to release."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {name: narrowed(value, old[name]) for name, value in new.items() if name in old}
    return new
