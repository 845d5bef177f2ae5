"""What the stream does with one bucket of groups in one batch: plain rows in, plain rows and a blob out.

This is the whole job without Spark: the Spark operator, the benchmark's plain loop and the tests all call
:func:`process` and :func:`expire`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from assignors.partitioner import partition_for_key
from streaming.monitor import liveness
from streaming.monitor.blob import Bucket
from streaming.monitor.decision import Assignment, decide
from streaming.monitor.tracked import Tracked
from streaming.wire import codec
from streaming.wire.dead_letters import dead_letter_headers, fit
from streaming.wire.events import (
    AssignmentAcknowledged,
    Event,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    SubscriptionChanged,
)

#: ``ce_source`` of everything the stream writes from events.
SOURCE = "rebalance-monitor/stream"
DIFF_TYPE = "rebalance.diff"
ASSIGNMENT_TYPE = "rebalance.assignment"
_HEARTBEAT = b"member.heartbeat"
#: A worker sees the same groups again and again.
_partition_for_key = lru_cache(maxsize=1 << 14)(partition_for_key)
#: More than a record of ours takes beside its key and value, bytes.
_HEADROOM = 1024

RecordHeaders = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """A record of the membership topic. ``type``, ``id``, ``source`` and ``time`` are the ``ce_*`` headers' bytes.

    ``headers`` None: those that our codec writes and no others.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    type: bytes | None
    id: bytes | None
    source: bytes | None
    time: bytes | None
    headers: RecordHeaders | None

    @classmethod
    def of(
        cls, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: RecordHeaders
    ) -> Record:
        """A record with all its headers; of several of one name the last counts."""
        ce = dict(headers)
        attributes = (ce.get("ce_type"), ce.get("ce_id"), ce.get("ce_source"), ce.get("ce_time"))
        return cls(partition, offset, key, value, *attributes, headers)

    @property
    def all_headers(self) -> RecordHeaders:
        """The headers as they were."""
        if self.headers is not None:
            return self.headers
        attributes = (self.type, self.id, self.source, self.time)
        return list(
            zip(codec.HEADER_NAMES, (codec.SPEC_VERSION, *attributes, codec.CONTENT_TYPE), strict=True)
        )


class Write(NamedTuple):
    """A record to write. ``partition`` None: the producer decides (there is no key)."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    partition: int | None


class Sinks(NamedTuple):
    """Where outputs go: topic names, their partition counts, and their longest records where not the usual.

    ``forget_after_ms``: how long an empty group is remembered; the event that ends it goes to ``membership``.
    """

    membership: str
    diffs: str
    assignments: str
    dead_letters: str
    partitions: dict[str, int]
    max_bytes: Mapping[str, int] = MappingProxyType({})
    forget_after_ms: int = liveness.FORGET_AFTER_MS

    def limit(self, topic: str) -> int:
        """The longest record of a topic, bytes."""
        return self.max_bytes.get(topic, codec.MAX_RECORD_BYTES)


def process(bucket: Bucket, records: Iterable[Record], now_ms: int, sinks: Sinks) -> list[Write]:
    """Apply one batch's records of a bucket.

    Args:
        bucket: is changed.
        records: each group's in the order of (partition, offset): Kafka's own.
        now_ms: the batch's time; it moves deadlines and nothing else.
        sinks: where outputs go.

    Returns:
        What to write, in order: each diff, and of each group that changed the latest assignment. A record that
        can't be used gives a dead letter and changes nothing.
    """
    writes: list[Write] = []
    latest: dict[str, tuple[Event, Assignment]] = {}
    for record in records:
        try:
            if record.type == _HEARTBEAT:
                _hear(bucket, record, now_ms)
                continue
            writes += _apply(bucket, record, now_ms, sinks, latest)
        except Exception as error:  # noqa: BLE001 - poison never stops the job: it is in the dead letter whole
            writes.append(_dead_letter(record, error, sinks))
    # A compacted topic keeps the last record of a key: what a batch overwrites itself need not be written.
    writes += [_assignment(event, assignment, sinks) for event, assignment in latest.values()]
    return writes


def expire(bucket: Bucket, now_ms: int, sinks: Sinks) -> list[Write]:
    """Fences and forgetting that are due, to write back to the membership log."""
    writes: list[Write] = []
    for group_id in sorted(group for group, deadline in bucket.due.items() if deadline <= now_ms):
        tracked = bucket.get(group_id)
        for event in liveness.due(group_id, tracked, now_ms, sinks.forget_after_ms):
            key, value, headers = codec.encode_event(event)
            writes.append(_keyed(sinks.membership, key, value, headers, sinks))
        bucket.put(group_id)
    return writes


def _hear(bucket: Bucket, record: Record, now_ms: int) -> None:
    """A heartbeat: nine of ten records, so no more is made of it than a deadline."""
    data: object = codec.decode_heartbeat(record.key, record.value) if record.id and record.source else None
    if data is None:  # the long way says what is wrong
        data = codec.decode_event(record.key, record.value, _attributes(record)).data
    if isinstance(data, MemberHeartbeat):
        tracked = bucket.get(data.group_id)
        if liveness.hear(tracked, data.member_id, data.timestamp, now_ms):
            bucket.put(data.group_id)


def _apply(
    bucket: Bucket, record: Record, now_ms: int, sinks: Sinks, latest: dict[str, tuple[Event, Assignment]]
) -> Sequence[Write]:
    event = codec.decode_event(record.key, record.value, _attributes(record))
    data = event.data
    tracked = bucket.get(data.group_id)
    if isinstance(data, AssignmentAcknowledged):
        if liveness.hear(tracked, data.member_id, data.timestamp, now_ms):
            bucket.put(data.group_id)
        return ()
    if isinstance(data, MemberFenced) and liveness.is_stale(tracked, data):
        return ()
    decision = decide(tracked, event)
    if decision is None:
        return ()
    # What can fail comes before the first change.
    writes = [_diff(event, ce_id, value, sinks) for ce_id, value in decision.diffs]
    assignment = decision.latest
    # Beside a diff the latest assignment is the shorter one.
    _refuse_too_large(
        writes if writes or assignment is None else [_assignment(event, assignment, sinks)], sinks
    )
    if assignment is not None:
        latest[data.group_id] = event, assignment
    tracked.keep(decision.state)
    _keep_alive(tracked, event, now_ms, sinks.forget_after_ms)
    bucket.put(data.group_id)
    return writes


def _refuse_too_large(writes: Sequence[Write], sinks: Sinks) -> None:
    """A record that its topic does not take would stop the job for good: the event is refused instead."""
    limit = min(sinks.limit(sinks.diffs), sinks.limit(sinks.assignments))
    for write in writes:
        if len(write.key or b"") + len(write.value or b"") + _HEADROOM < limit:
            continue
        size = codec.record_bytes(write.key, write.value, write.headers)
        if size > limit:
            raise codec.RecordTooLarge(
                f"group {(write.key or b'').decode()[:100]!r}: {(dict(write.headers)['ce_type'] or b'').decode()} "
                f"would have {size} bytes, max.message.bytes of {sinks.diffs} and {sinks.assignments} is {limit}"
            )


def _keep_alive(tracked: Tracked, event: Event, now_ms: int, forget_after_ms: int) -> None:
    """Deadlines after a change of the group."""
    data = event.data
    if isinstance(data, MemberJoined | SubscriptionChanged):
        liveness.renew(tracked, data.member_id, data.timestamp, now_ms)
    liveness.drop_gone(tracked, event)
    if tracked.deserted:
        tracked.forget_at = tracked.forget_at or now_ms + forget_after_ms
    else:
        tracked.forget_at = 0


def _attributes(record: Record) -> dict[str, str]:
    found = {}
    for name, value in (("type", record.type), ("id", record.id), ("source", record.source)):
        if value is not None:
            try:
                found[name] = value.decode()
            except UnicodeDecodeError as error:
                raise codec.MalformedEvent(f"header ce_{name}: not UTF-8") from error
    return found


def _diff(event: Event, ce_id: str, value: bytes, sinks: Sinks) -> Write:
    data = event.data
    headers = codec.headers(DIFF_TYPE, SOURCE, ce_id, data.timestamp)
    return _keyed(sinks.diffs, data.group_id.encode(), value, headers, sinks)


def _assignment(event: Event, assignment: Assignment, sinks: Sinks) -> Write:
    data = event.data
    headers = codec.headers(ASSIGNMENT_TYPE, SOURCE, assignment.id, data.timestamp)
    return _keyed(sinks.assignments, data.group_id.encode(), assignment.value, headers, sinks)


def _dead_letter(record: Record, error: Exception, sinks: Sinks) -> Write:
    headers = dead_letter_headers(
        record.all_headers, error, topic=sinks.membership, partition=record.partition, offset=record.offset
    )
    key, value, headers = fit(record.key, record.value, headers, sinks.limit(sinks.dead_letters))
    partition = None
    if record.key is not None:  # of the key as it was, should it have been cut
        partition = partition_for_key(record.key, sinks.partitions[sinks.dead_letters])
    return Write(sinks.dead_letters, key, value, headers, partition)


def _keyed(topic: str, key: bytes | None, value: bytes | None, headers: RecordHeaders, sinks: Sinks) -> Write:
    partition = None if key is None else _partition_for_key(key, sinks.partitions[topic])
    return Write(topic, key, value, headers, partition)
