"""What the stream does with one bucket of groups in one batch: rows in, rows and state out.

This is the whole job without Spark: the Spark operator, the benchmark's plain loop and the tests all call
:func:`process` and :func:`expire`.

One record is one atomic step. Its group's state, diffs, episode and incidents change together, or the record
becomes a dead letter and nothing changes. A run of records of one group is applied to the unpacked group, and
:meth:`Bucket.commit` keeps the result. Where a run can't be finished, the group is unpacked again and its records
are applied one by one, so that only the record to blame is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from streaming.monitor import episodes, liveness
from streaming.monitor.bucket_state import Bucket, CorruptState
from streaming.monitor.group import apply
from streaming.monitor.outputs import (
    AssignmentOutput,
    EpisodeOutput,
    IncidentOutput,
    Sinks,
    Write,
    dead_letter,
    write,
    write_episode,
    write_event,
    write_incident,
    written,
)
from streaming.records.codec import Record, read
from streaming.records.events import (
    RETIRED_TYPES,
    AssignmentAcknowledged,
    MemberHeartbeat,
)

_RETIRED = {name.encode(): name for name in RETIRED_TYPES}


def process(bucket: Bucket, records: Iterable[Record], now_ms: int, sinks: Sinks) -> list[Write]:
    """Apply one batch's records of a bucket.

    Args:
        bucket: is changed.
        records: each group's in the order of (partition, offset): Kafka's own.
        now_ms: the batch's time; it moves deadlines and nothing else.
        sinks: where outputs go.

    Returns:
        The records to write. Each group's diffs are in order. Of its latest assignment, and of each episode and
        incident, there is the last one. A record that can't be used gives a dead letter and changes nothing.

    Raises:
        CorruptState: a group's state can't be read. No record is to blame, so none is refused for it.
    """
    groups: dict[bytes | None, list[Record]] = {}
    for record in records:
        if record.type not in _RETIRED:
            groups.setdefault(record.key, []).append(record)
    writes: list[Write] = []
    for run in groups.values():
        writes += _apply_run(bucket, run, now_ms, sinks)
    return writes


def retired(records: Iterable[Record]) -> Mapping[str, int]:
    """Return how many records :func:`process` passes over, by their retired type."""
    return Counter(_RETIRED[record.type] for record in records if record.type in _RETIRED)


def expire(bucket: Bucket, now_ms: int, sinks: Sinks) -> list[Write]:
    """Fences, quiet and forgetting that are due, to write back to the membership log."""
    writes: list[Write] = []
    for group_id in sorted(group for group, deadline in bucket.due.items() if deadline <= now_ms):
        tracked = bucket.get(group_id)
        if sinks.episodes is None:
            tracked.tell(None, 0)
            tracked.report(None)
        events = episodes.due(group_id, tracked, now_ms, sinks.quiet_ms)
        events += liveness.due(group_id, tracked, now_ms, sinks.forget_after_ms)
        writes += [write_event(event, sinks) for event in events]
        bucket.commit(group_id)
    return writes


def _apply_run(bucket: Bucket, run: Sequence[Record], now_ms: int, sinks: Sinks) -> list[Write]:
    """Apply records of one group: all of them in one step or, where that fails, each in a step of its own."""
    step = _Step(bucket, now_ms, sinks)
    try:
        for record in run:
            step.take(record)
        writes = step.finish()
    except CorruptState:
        raise
    except Exception as error:  # noqa: BLE001 - a defect never stops the job: the dead letter has the whole record
        if step.group_id is not None:
            bucket.discard(step.group_id)
        if len(run) == 1:
            return [dead_letter(run[0], error, sinks)]
        return [one for record in run for one in _apply_run(bucket, [record], now_ms, sinks)]
    return writes


class _Step:
    """Records of one group on their way to a commit: what they change, and what there is to write."""

    def __init__(self, bucket: Bucket, now_ms: int, sinks: Sinks) -> None:
        self.group_id: str | None = None
        self._bucket = bucket
        self._now_ms = now_ms
        self._sinks = sinks
        self._writes: list[Write] = []
        self._latest: AssignmentOutput | None = None
        self._episodes: dict[int, EpisodeOutput] = {}
        self._incidents: dict[int, IncidentOutput] = {}

    def take(self, record: Record) -> None:
        """Apply the next record; one that is no event, or that its group refuses, becomes a dead letter."""
        sinks = self._sinks
        try:
            event = read(record)
            self.group_id = event.data.group_id
            tracked = self._bucket.get(event.data.group_id)
            if isinstance(event.data, MemberHeartbeat):
                liveness.hear(tracked, event.data, self._now_ms)
                return
            before = tracked.state
            after, outputs = apply(before, event, tracked.heard, most=sinks.expected_partitions)
            diffs = written(event, outputs, sinks)
        except CorruptState:
            raise
        except Exception as error:  # noqa: BLE001 - nothing has changed yet
            self._writes.append(dead_letter(record, error, sinks))
            return
        self._writes += diffs
        if isinstance(event.data, AssignmentAcknowledged):
            liveness.hear(tracked, event.data, self._now_ms)
        if after is not before:
            tracked.keep(after)
            liveness.follow(tracked, event, self._now_ms, sinks.forget_after_ms)
            if outputs and isinstance(outputs[-1], AssignmentOutput):
                self._latest = outputs[-1]
        if sinks.episodes is not None:
            for changed in episodes.tell(tracked, before, event, outputs, now_ms=self._now_ms, sinks=sinks):
                if isinstance(changed, EpisodeOutput):
                    self._episodes[changed.state.number] = changed
                else:
                    self._incidents[changed.known.number] = changed

    def finish(self) -> list[Write]:
        """Commit the group, and return the records to write."""
        sinks, writes = self._sinks, self._writes
        if self._latest is not None:
            writes.append(write(self._latest.event, self._latest, sinks))
        if sinks.episodes is not None:
            writes += [write_episode(one, sinks.episodes, sinks) for one in self._episodes.values()]
        if sinks.incidents is not None:
            writes += [write_incident(one, sinks.incidents, sinks) for one in self._incidents.values()]
        if self.group_id is not None and self._bucket.get(self.group_id).changed:
            self._bucket.commit(self.group_id)
        return writes
