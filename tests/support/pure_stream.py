"""Runs the stream without Spark: the pure functions over a topic in memory, in batches and buckets."""

from collections import defaultdict
from collections.abc import Iterable
from zlib import crc32

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord, Sinks
from streaming.records.codec import Record, ce_attributes, decode_event, encode_event
from streaming.records.episodes import Episode, Incident, decode_episode, decode_incident
from streaming.records.events import Event, GroupQuiet
from tests.support.histories import Log, Topic

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


def apply_events(bucket: Bucket, events: Iterable[Event], now_ms: int = 0, sinks: Sinks = SINKS) -> list[OutputRecord]:
    """Apply the events to the bucket as one batch, and return the written records."""
    records = [Record.of(0, offset, *encode_event(event)) for offset, event in enumerate(events)]
    return process(bucket, records, now_ms, sinks)


def written_episodes(writes: Iterable[OutputRecord]) -> list[Episode]:
    return [decode_episode(write.value or b"") for write in writes if write.topic == "e"]


def written_incidents(writes: Iterable[OutputRecord]) -> list[Incident]:
    return [decode_incident(write.value or b"") for write in writes if write.topic == "i"]


def written_event(write: OutputRecord) -> Event:
    return decode_event(write.key, write.value, ce_attributes(write.headers))


class StreamedGroup:
    """The log of one group, and its bucket, which is packed and read again after each batch."""

    def __init__(self, sinks: Sinks = SINKS) -> None:
        self.log, self.bucket, self.sinks = Log(), Bucket(), sinks

    def apply(self, *events: Event, now_ms: int = 0) -> tuple[list[Episode], list[Incident]]:
        """Apply the events as one batch; return the written episodes and incidents."""
        writes = apply_events(self.bucket, events, now_ms, self.sinks)
        self.bucket = Bucket(self.bucket.pack())
        return written_episodes(writes), written_incidents(writes)

    def quiet(self) -> tuple[list[Episode], list[Incident]]:
        """Report that the quiet time after the last note has passed."""
        episode = self.bucket.get("g").episode
        assert episode is not None
        return self.apply(self.log.event(GroupQuiet, after=episode.last_note_id))
