"""Cost of many groups while few of them change; the last part of ``make bench-stream``."""

from __future__ import annotations

import json
import statistics
import time
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks._stream_latency import folder_size
from streaming.records.events import Event, MemberJoined

if TYPE_CHECKING:
    from benchmarks.stream import Bench


class FewChangesCost(NamedTuple):
    """Cost of many groups while ten of them change: the median batch, and the checkpoint's bytes."""

    groups: int
    buckets: int
    batch_ms: float
    loaded: int
    after: int
    batches: int


def state(bench: Bench, spark: Any, groups: int, buckets: int, rounds: int = 30) -> FewChangesCost:
    """Load many small groups, then change ten at a time."""
    topic, out = (bench.topic(f"{name}-{uuid.uuid4().hex[:6]}") for name in ("in", "out"))
    ticks, folder = bench.topic(f"ticks-{uuid.uuid4().hex[:6]}", 1), bench.folder / uuid.uuid4().hex
    producer = bench.producer()

    def join(group: int, member: int) -> None:
        joined = MemberJoined(group_id=f"g{group}", timestamp=1, member_id=f"m{member}", topics=["orders"])
        bench.send(producer, topic, Event(f"/g{group}", str(member), joined))

    for group in range(groups):
        join(group, 0)
    producer.flush()
    rows = bench.ours(spark, topic, ticks, out, buckets)
    bench.start(rows, "append", available_now=True, checkpoint=folder).awaitTermination()
    loaded = folder_size(folder)
    query = bench.start(rows, "append", available_now=False, checkpoint=folder)
    for number in range(1, rounds + 1):
        for group in range(10):
            join((number * 10 + group) % groups, number)
        producer.flush()
        _processed(query, 10 * number)
    batches = [json.loads(item.json) for item in query.recentProgress if item.numInputRows]
    query.stop()
    middle = statistics.median(item["durationMs"]["triggerExecution"] for item in batches[5:])
    kept = FewChangesCost(groups, buckets, middle, loaded, folder_size(folder), len(batches))
    print(f"  {kept}", flush=True)
    return kept


def _processed(query: Any, wanted: int) -> None:
    while sum(item.numInputRows for item in query.recentProgress) < wanted:
        time.sleep(0.05)


def state_table(kept: list[FewChangesCost]) -> str:
    lines = [
        "| groups | buckets | batch with ten changing, ms | of the first | checkpoint loaded | after, batches |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in kept:
        ratio = one.batch_ms / kept[0].batch_ms
        sizes = f"{one.loaded / 2**20:.1f} MB | {one.after / 2**20:.1f} MB, {one.batches}"
        lines.append(f"| {one.groups:,} | {one.buckets} | {one.batch_ms:.0f} | {ratio:.2f} | {sizes} |")
    return "\n".join(lines)
