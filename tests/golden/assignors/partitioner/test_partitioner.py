"""Results of the partitioner of kafka-clients 4.3.1 (``oracle-4.3.1.jsonl``).

``python -m tests.oracle.record_producer`` writes the file of results again.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from assignors.partitioner import murmur2, partition_for_key, to_positive

RECORDED_CASES = [json.loads(line) for line in (Path(__file__).parent / "oracle-4.3.1.jsonl").read_text().splitlines()]


def of(request_name: str) -> list[dict[str, Any]]:
    return [record for record in RECORDED_CASES if record["request"]["ask"] == request_name]


@pytest.mark.parametrize("record", of("key"), ids=lambda record: record["request"]["key"][:20])
def test_recorded_key_has_the_same_partition(record: dict[str, Any]) -> None:
    key, partitions = base64.b64decode(record["request"]["key"]), record["request"]["partitions"]
    key_hash = murmur2(key)
    assert record["answer"] == {
        "hash": key_hash,
        "positive": to_positive(key_hash),
        "partition": partition_for_key(key, partitions),
    }
