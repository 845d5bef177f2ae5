"""What the stream does with one bucket of groups in one batch: plain rows in, plain rows and a blob out.

This is the whole job without Spark: the Spark operator, the benchmark's plain loop and the tests all call
:func:`process` and :func:`expire`.
"""

from __future__ import annotations

from collections.abc import Iterable

from streaming.monitor import envelope, liveness
from streaming.monitor.blob import Bucket
from streaming.monitor.envelope import Sinks, Write
from streaming.monitor.group import apply
from streaming.monitor.rendering import AssignmentOutput
from streaming.monitor.tracked import CorruptState
from streaming.wire.codec import Record, read, read_heartbeat
from streaming.wire.events import AssignmentAcknowledged, Event, MemberHeartbeat


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

    Raises:
        CorruptState: a group's state can't be read. No record is to blame, so none is refused for it.
    """
    writes: list[Write] = []
    latest: dict[str, AssignmentOutput] = {}
    for record in records:
        try:
            beat = read_heartbeat(record)
            if beat is not None:
                _hear(bucket, beat, now_ms)
            else:
                writes += _apply(bucket, read(record), now_ms, sinks, latest)
        except CorruptState:
            raise
        except Exception as error:  # noqa: BLE001 - poison never stops the job: it is in the dead letter whole
            writes.append(envelope.dead_letter(record, error, sinks))
    # A compacted topic keeps the last record of a key: what a batch overwrites itself need not be written.
    writes += [envelope.write(output.event, output, sinks) for output in latest.values()]
    return writes


def expire(bucket: Bucket, now_ms: int, sinks: Sinks) -> list[Write]:
    """Fences and forgetting that are due, to write back to the membership log."""
    writes: list[Write] = []
    for group_id in sorted(group for group, deadline in bucket.due.items() if deadline <= now_ms):
        events = liveness.due(group_id, bucket.get(group_id), now_ms, sinks.forget_after_ms)
        writes += [envelope.write_event(event, sinks) for event in events]
        bucket.put(group_id)
    return writes


def _hear(bucket: Bucket, data: MemberHeartbeat | AssignmentAcknowledged, now_ms: int) -> None:
    if liveness.hear(bucket.get(data.group_id), data.member_id, data.timestamp, now_ms):
        bucket.put(data.group_id)


def _apply(
    bucket: Bucket, event: Event, now_ms: int, sinks: Sinks, latest: dict[str, AssignmentOutput]
) -> list[Write]:
    data = event.data
    if isinstance(data, MemberHeartbeat | AssignmentAcknowledged):
        _hear(bucket, data, now_ms)
    if isinstance(data, MemberHeartbeat):
        return []
    tracked = bucket.get(data.group_id)
    before = tracked.state
    state, outputs = apply(before, event, tracked.heard)
    if state is before:
        return []
    # What can fail comes before the first change.
    writes = envelope.written(event, outputs, sinks)
    if outputs and isinstance(outputs[-1], AssignmentOutput):
        latest[data.group_id] = outputs[-1]
    tracked.keep(state)
    liveness.follow(tracked, event, now_ms, sinks.forget_after_ms)
    bucket.put(data.group_id)
    return writes
