"""Hash tables iterate as in a JVM, also with tree buckets and after removals (``tests/oracle/record_java.py``)."""

import json
from pathlib import Path

from assignors.java import HashTable, topic_partition_hash


def test_order_equals_that_of_the_jvm() -> None:
    provenance, *cases = map(json.loads, (Path(__file__).parent / "tables.jsonl").read_text().splitlines())
    assert provenance["provenance"].startswith("org.apache.kafka")
    for case in cases:
        table = HashTable()
        for position, partition in enumerate(case["partitions"]):
            table.add(position, topic_partition_hash("t", partition))
        for position in case["removed"]:
            table.remove(position)
        assert list(table) == case["order"]
