"""What the stream does with one bucket of groups in one batch: plain rows in, plain rows and a blob out.

This is the whole job without Spark: the Spark operator, the benchmark's plain loop and the tests all call
:func:`process` and :func:`expire`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streaming.monitor import envelope, liveness, telling
from streaming.monitor.blob import Bucket
from streaming.monitor.envelope import Sinks, Write
from streaming.monitor.group import apply
from streaming.monitor.rendering import AssignmentOutput
from streaming.monitor.telling import EpisodeOutput, Happened
from streaming.monitor.tracked import CorruptState
from streaming.wire.codec import Record, read, read_heartbeat
from streaming.wire.events import AssignmentAcknowledged, Event, GroupQuiet, MemberHeartbeat


def process(bucket: Bucket, records: Iterable[Record], now_ms: int, sinks: Sinks) -> list[Write]:
    """Apply one batch's records of a bucket.

    Args:
        bucket: is changed.
        records: each group's in the order of (partition, offset): Kafka's own.
        now_ms: the batch's time; it moves deadlines and nothing else.
        sinks: where outputs go.

    Returns:
        What to write, in order: each diff, of each group that changed the latest assignment, and of each episode
        that changed the last record. A record that can't be used gives a dead letter and changes nothing.

    Raises:
        CorruptState: a group's state can't be read. No record is to blame, so none is refused for it.
    """
    writes: list[Write] = []
    last = _Last({}, {}, {})
    for record in records:
        try:
            beat = read_heartbeat(record)
            if beat is not None:
                _hear(bucket, beat, now_ms)
            else:
                writes += _apply(bucket, read(record), now_ms, sinks, last)
        except CorruptState:
            raise
        except Exception as error:  # noqa: BLE001 - poison never stops the job: it is in the dead letter whole
            writes.append(envelope.dead_letter(record, error, sinks))
    # A compacted topic keeps the last record of a key: what a batch overwrites itself need not be written.
    writes += [envelope.write(output.event, output, sinks) for output in last.assignments.values()]
    if sinks.episodes is not None:
        for group_id in list(last.happened):
            _tell(bucket, group_id, now_ms, sinks, last)
        writes += [envelope.write_episode(told, sinks.episodes, sinks) for told in last.episodes.values()]
    return writes


def expire(bucket: Bucket, now_ms: int, sinks: Sinks) -> list[Write]:
    """Fences, quiet and forgetting that are due, to write back to the membership log."""
    writes: list[Write] = []
    for group_id in sorted(group for group, deadline in bucket.due.items() if deadline <= now_ms):
        tracked = bucket.get(group_id)
        if sinks.episodes is None:
            tracked.tell(None, 0)
        events = telling.due(group_id, tracked, now_ms, sinks.quiet_ms)
        events += liveness.due(group_id, tracked, now_ms, sinks.forget_after_ms)
        writes += [envelope.write_event(event, sinks) for event in events]
        bucket.put(group_id)
    return writes


class _Last(NamedTuple):
    """The last record of a batch for each key of the compacted topics: by group, and by group and episode.

    ``happened``: by group, what its episode has not been told yet.
    """

    assignments: dict[str, AssignmentOutput]
    episodes: dict[tuple[str, int], EpisodeOutput]
    happened: dict[str, list[Happened]]

    def tell(self, group_id: str, told: Iterable[EpisodeOutput]) -> None:
        """Take episodes that changed."""
        self.episodes.update(((group_id, one.state.number), one) for one in told)


def _tell(bucket: Bucket, group_id: str, now_ms: int, sinks: Sinks, last: _Last) -> None:
    """Tell a group's episode what has happened since it was told the last time."""
    happened = last.happened.pop(group_id, None)
    if happened is not None:
        last.tell(group_id, telling.tell(bucket.get(group_id), happened, now_ms, sinks.quiet_ms))


def _hear(bucket: Bucket, data: MemberHeartbeat | AssignmentAcknowledged, now_ms: int) -> None:
    if liveness.hear(bucket.get(data.group_id), data.member_id, data.timestamp, now_ms):
        bucket.put(data.group_id)


def _apply(bucket: Bucket, event: Event, now_ms: int, sinks: Sinks, last: _Last) -> list[Write]:
    data = event.data
    if isinstance(data, MemberHeartbeat | AssignmentAcknowledged):
        _hear(bucket, data, now_ms)
    if isinstance(data, MemberHeartbeat):
        return []
    tracked = bucket.get(data.group_id)
    if isinstance(data, GroupQuiet):
        _tell(bucket, data.group_id, now_ms, sinks, last)
        told = telling.quiet(tracked, event, data) if sinks.episodes is not None else []
        if told:
            last.tell(data.group_id, told)
            bucket.put(data.group_id)
        return []
    before = tracked.state
    state, outputs = apply(before, event, tracked.heard)
    # What can fail comes before the first change.
    writes = envelope.written(event, outputs, sinks)
    if sinks.episodes is not None:
        first = tracked.untold and data.group_id not in last.happened
        found = telling.happened(before, state, event, outputs, first=first)
        if found is not None:
            last.happened.setdefault(data.group_id, []).append(found)
            bucket.put(data.group_id)
    if state is before:
        return []
    if outputs and isinstance(outputs[-1], AssignmentOutput):
        last.assignments[data.group_id] = outputs[-1]
    tracked.keep(state)
    if state is None:
        _tell(bucket, data.group_id, now_ms, sinks, last)
        tracked.tell(None, 0)
    liveness.follow(tracked, event, now_ms, sinks.forget_after_ms)
    bucket.put(data.group_id)
    return writes
