"""What telling episodes costs the stream: groups of 20 members restart in a rolling way, all at once.

The same batches are played with and without episodes, in turns in one process and without Kafka or Spark: as in the
job, each batch unpacks its buckets, applies its records and packs the buckets again.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from benchmarks._stream_load import ASSIGNORS, MEMBERS, PARTITIONS, START_MS, TOPIC
from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import process
from streaming.monitor.envelope import Sinks
from streaming.wire import codec
from streaming.wire.codec import Record
from streaming.wire.events import Event, EventData, MemberJoined, MemberLeft, PartitionsChanged, TopicMetadata

BUCKETS = 16
_SINKS = Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e"), 4))


class Cost(NamedTuple):
    """CPU time an event, µs, without episodes and with them, and the share of events a second that these leave.

    All are medians, over the batches of all buckets.
    """

    without: float
    told: float
    ratio: float


def cost(groups: int, per_batch: int) -> Cost:
    """Measure a rolling restart of every group in batches of so many events of each."""
    log = [_rows(group) for group in range(groups)]
    setup, length = MEMBERS + 1, len(log[0])
    blobs: dict[tuple[str | None, int], bytes] = {}
    pairs: list[dict[str | None, float]] = []
    for start, end in ((0, setup), *((at, at + per_batch) for at in range(setup, length, per_batch))):
        parts: dict[int, list[Record]] = {}
        for at in range(start, min(end, length)):
            for rows in log:
                parts.setdefault(crc32(rows[at].key or b"") % BUCKETS, []).append(rows[at])
        for number, records in parts.items():
            pair: dict[str | None, float] = {}
            for side in (None, "e") if number % 2 else ("e", None):
                begun = time.process_time()
                bucket = Bucket(blobs.get((side, number)))
                process(bucket, records, start, _SINKS._replace(episodes=side))
                blobs[side, number] = bucket.pack()
                pair[side] = (time.process_time() - begun) / len(records) * 1e6
            if start:  # the first batch sets the groups up
                pairs.append(pair)
    median = statistics.median
    return Cost(
        median(pair[None] for pair in pairs),
        median(pair["e"] for pair in pairs),
        median(pair[None] / pair["e"] for pair in pairs),
    )


def _rows(group: int) -> list[Record]:
    return [
        Record.of(0, offset, *codec.encode_event(event)) for offset, event in enumerate(_restarting(group))
    ]


def _restarting(group: int) -> Iterator[Event]:
    """A group that is set up, and each of whose members then leaves and comes back under a new member id."""
    now = START_MS

    def event(kind: type[EventData], **fields: object) -> Event:
        nonlocal now
        now += 1000
        return Event(f"/app/{group}", str(now), kind(group_id=f"group-{group:06d}", timestamp=now, **fields))

    def join(member: int, life: int) -> Event:
        return event(
            MemberJoined,
            member_id=f"consumer-{group:06d}-{member:04d}-{life}",
            client_id=f"app-{member}",
            client_host=f"/10.0.{group % 250}.{member}",
            topics=[TOPIC],
            assignors=ASSIGNORS[group % len(ASSIGNORS)],
        )

    yield event(PartitionsChanged, topics={TOPIC: TopicMetadata(partitions=PARTITIONS)})
    for member in range(MEMBERS):
        yield join(member, 0)
    now += 3_600_000
    for member in range(MEMBERS):
        yield event(
            MemberLeft,
            member_id=f"consumer-{group:06d}-{member:04d}-0",
            reason="the consumer is being closed",
        )
        yield join(member, 1)
