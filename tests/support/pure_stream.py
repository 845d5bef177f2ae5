"""Runs the stream without Spark: the pure functions over a topic in memory, in batches and buckets."""

from collections import defaultdict
from zlib import crc32

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord, Sinks
from streaming.records.codec import Record
from tests.support.histories import Topic

SINKS = Sinks(*("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e", "i"), 4)), episodes="e", incidents="i")
#: Record types of the compacted topics.
_LATEST = (b"rebalance.assignment", b"rebalance.episode", b"rebalance.incident")


def run(topic: Topic, *, batch: int, buckets: int, sinks: Sinks = SINKS) -> list[OutputRecord]:
    """Return all writes in the order of batches and buckets. ``batch``: number of records per partition in a batch."""
    blobs: dict[int, bytes] = {}
    writes: list[OutputRecord] = []
    for start in range(0, max(map(len, topic)), batch):
        parts: dict[int, list[Record]] = defaultdict(list)
        for partition, rows in enumerate(topic):
            for offset, (key, value, headers) in enumerate(rows[start : start + batch], start):
                record = Record.of(partition, offset, key, value, headers)
                parts[crc32(record.key or b"") % buckets].append(record)
        for number, part in sorted(parts.items()):
            bucket = Bucket(blobs.get(number))
            writes += process(bucket, part, start, sinks)
            if bucket.changed:
                blobs[number] = bucket.pack()
    return writes


def by_key(writes: list[OutputRecord]) -> dict[tuple[str, bytes | None], list[tuple[bytes | None, object]]]:
    """Return the records of each topic and key, in order; for compacted topics only the newest record."""
    records: dict[tuple[str, bytes | None], list[tuple[bytes | None, object]]] = defaultdict(list)
    for write in writes:
        rows = records[write.topic, write.key]
        if dict(write.headers).get("ce_type") in _LATEST:
            rows.clear()
        rows.append((write.value, write.headers))
    return records
