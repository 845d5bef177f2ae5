"""Collector's cost of one step of a KIP-848 member, and the bytes of a rolling restart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from benchmarks import _document
from streaming.collect.coordinator.records import RawRecord
from streaming.collect.fold import CollectedEvent, Fold
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import Event, PartitionsChanged, TopicMetadata
from tests.support.epoch_log import EpochLog, wave

#: Partitions of each member, in ten topics.
_SHARE = 10
_TOPICS = 10
#: Coordinator writes in a batch of the stream: few, as output that is written once a batch costs most then.
_BATCH = 10
_SINKS = Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e"), 1), episodes="e")


class Written(NamedTuple):
    """Bytes of the stream's output for events: diffs, latest assignments, episodes."""

    diffs: int
    assignments: int
    episodes: int


class Restart(NamedTuple):
    """Bytes of a rolling restart: the coordinator's records, the published events, the stream's output."""

    own: int
    published: int
    diffs: int
    assignments: int
    episodes: int


class Stream:
    """Runs the stream for events in one process.

    Args:
        topics: the partitions of each, published first.
        group_id: the group.
    """

    def __init__(self, topics: dict[str, int], group_id: str) -> None:
        self._bucket = Bucket(None)
        self._read = 0
        counts = {topic: TopicMetadata(partitions=count) for topic, count in topics.items()}
        self.written([Event("topics", "0", PartitionsChanged(group_id=group_id, timestamp=0, topics=counts))])

    def written(self, events: Iterable[Event]) -> Written:
        """Return the bytes of the output for these events in one batch, keys and headers included."""
        records = []
        for event in events:
            records.append(Record.of(0, self._read, *codec.encode_event(event)))
            self._read += 1
        writes = process(self._bucket, records, 0, _SINKS)
        if refused := [write.value for write in writes if write.topic == _SINKS.dead_letters]:
            raise RuntimeError(f"the stream refused {refused[0]!r}")
        sizes = dict.fromkeys((_SINKS.diffs, _SINKS.assignments, "e"), 0)
        for write in writes:
            sizes[write.topic] += codec.record_bytes(write.key, write.value, write.headers)
        return Written(*sizes.values())


def group(members: int) -> tuple[EpochLog, list[str]]:
    """Return a group before its first write, and its members' ids."""
    topics = {f"topic-{number}": members * _SHARE // _TOPICS for number in range(_TOPICS)}
    return EpochLog(topics), [f"group-member-{number:05d}-0a1b2c3d" for number in range(members)]


def events(fold: Fold, rows: Iterable[RawRecord]) -> list[Event]:
    """Return the events that the collector publishes for these records."""
    items = [item for row in rows for item in fold.add(row)] + fold.settle()
    return [item.event for item in items if isinstance(item, CollectedEvent)]


def size(events: Iterable[Event]) -> int:
    """Return the bytes of these events, keys and headers included."""
    return sum(codec.record_bytes(*codec.encode_event(event)) for event in events)


def restarted(members: int, waves: int) -> Restart:
    """Return a rolling restart in this many waves; every member sends a heartbeat in each epoch."""
    log, ids = group(members)
    fold = Fold("kafka://c/__consumer_offsets", 0, log.names.__getitem__)
    topics: dict[str, int] = {}
    for topic, _ in log.places:
        topics[topic] = topics.get(topic, 0) + 1
    stream = Stream(topics, log.group_id)
    stream.written(events(fold, [*log.join(*ids), *log.settle()]))
    own = published = 0
    sums = [0, 0, 0]
    runs = _waves(log, ids, waves)
    while batch := list(islice(runs, _BATCH)):
        own += sum(len(row.key or b"") + len(row.value or b"") for rows in batch for row in rows)
        batch_events = [event for rows in batch for event in events(fold, rows)]
        published += size(batch_events)
        sums = [total + more for total, more in zip(sums, stream.written(batch_events), strict=True)]
    return Restart(own, published, *sums)


def _waves(log: EpochLog, ids: list[str], waves: int) -> Iterator[list[RawRecord]]:
    for some in _some(ids, max(1, len(ids) // waves)):
        yield from wave(log, some)


def _some(ids: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def table() -> str:
    """Return the table."""
    of = "of the row above"
    restarts = _document.table(
        [
            *("members", "waves", "coordinator's own bytes", of, "bytes published", of, "bytes of diffs", of),
            *("of latest assignments", of, "of episodes", of),
        ],
        [*_restarts((250, 500, 1000), 10), *_restarts((125, 250, 500), None)],
    )
    return (
        "A rolling restart of a KIP-848 group of 10 partitions a member, in ten waves or member by member, every "
        "member heard in each of its epochs. The collector coalesces its snapshots, a diff lists those that "
        f"changed. Episodes are written once a batch, here of {_BATCH} writes of the coordinator.\n\n{restarts}"
    )


def _restarts(sizes: Iterable[int], waves: int | None) -> Iterator[list[str]]:
    """Return a row for each size; ``waves`` None: member by member."""
    before: Restart | None = None
    for members in sizes:
        restart = restarted(members, waves or members)
        row = [str(members), str(waves or members)]
        for number, total in enumerate(restart):
            row += [f"{total:,}", f"{total / before[number]:.2f}" if before else "–"]
        yield row
        before = restart
