"""Results of the partitioner of kafka-clients 4.3.1 (``oracle-4.3.1.jsonl``).

``python -m tests.oracle.record_producer`` writes the file of results again.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from assignors.partitioner import murmur2, partition_for_key, to_positive

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "oracle-4.3.1.jsonl").read_text().splitlines()]


def of(ask: str) -> list[dict[str, Any]]:
    return [record for record in RECORDED if record["request"]["ask"] == ask]


@pytest.mark.parametrize("record", of("key"), ids=lambda record: record["request"]["key"][:20])
def test_recorded_key_has_the_same_partition(record: dict[str, Any]) -> None:
    key, partitions = base64.b64decode(record["request"]["key"]), record["request"]["partitions"]
    hashed = murmur2(key)
    assert record["answer"] == {
        "hash": hashed,
        "positive": to_positive(hashed),
        "partition": partition_for_key(key, partitions),
    }
