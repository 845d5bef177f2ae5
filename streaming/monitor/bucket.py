"""Processing of one batch for one bucket of groups: records and state in, records and state out.

This is the whole streaming job without Spark. The Spark operator, the benchmarks and the tests call :func:`process` and
:func:`expire`.

One record is one atomic step: its group's state, diffs, episode and incidents change together, or the record
becomes a dead letter and nothing changes. The records of one group are applied in one run. If a run fails, the
group is unpacked again and its records are applied one by one, so that only the faulty record is refused.
"""

from collections.abc import Iterable, Sequence

from streaming.monitor import episodes, heartbeats, outputs
from streaming.monitor.bucket_state import Bucket, CorruptState
from streaming.monitor.group import apply
from streaming.monitor.outputs import AssignmentOutput, EpisodeOutput, IncidentOutput, OutputRecord, Sinks
from streaming.records.codec import Record, read
from streaming.records.events import RETIRED_TYPES, Annotation, AssignmentAcknowledged, MemberHeartbeat

#: Values of ``ce_type`` in records that :func:`process` skips.
RETIRED_TYPE_NAMES = {name.encode() for name in RETIRED_TYPES}


def process(bucket: Bucket, records: Iterable[Record], now_ms: int, sinks: Sinks) -> list[OutputRecord]:
    """Apply the records of one batch to the bucket, in place, and return the records to write.

    ``records`` has the records of each group in the order of (partition, offset). ``now_ms`` is for deadlines.
    A group's state that can't be read raises CorruptState.
    """
    groups: dict[bytes | None, list[Record]] = {}
    for record in records:
        if record.type not in RETIRED_TYPE_NAMES:
            groups.setdefault(record.key, []).append(record)
    writes: list[OutputRecord] = []
    for run in groups.values():
        writes += _apply_record_run(bucket, run, now_ms, sinks)
    return writes


def expire(bucket: Bucket, now_ms: int, sinks: Sinks) -> list[OutputRecord]:
    """Return records of events that are due by timers: expired sessions, and ends of episodes after the quiet time."""
    writes: list[OutputRecord] = []
    for group_id in sorted(group for group, deadline in bucket.due.items() if deadline <= now_ms):
        group = bucket.get(group_id)
        if sinks.episodes is None:
            group.episode, group.quiet_at, group.incidents = None, 0, None
        events = episodes.due_quiet_events(group_id, group, now_ms, sinks)
        events += heartbeats.due_fences(group_id, group, now_ms, sinks.forget_after_ms)
        writes += [outputs.write_event(event, sinks) for event in events]
        bucket.commit(group_id)
    return writes


def _apply_record_run(bucket: Bucket, run: Sequence[Record], now_ms: int, sinks: Sinks) -> list[OutputRecord]:
    """Apply records of one group together, atomically; if this fails, apply each record by itself."""
    step = _BucketBatch(bucket, now_ms, sinks)
    try:
        for record in run:
            step.apply(record)
        return step.commit()
    except CorruptState:
        raise
    except Exception as error:  # noqa: BLE001 - a defect never stops the job: the dead letter has the whole record
        if step.group_id is not None:
            bucket.discard(step.group_id)
        if len(run) == 1:
            return [outputs.dead_letter(run[0], error, sinks)]
        return [write for record in run for write in _apply_record_run(bucket, [record], now_ms, sinks)]


class _BucketBatch:
    """Changes of one group by consecutive records, not yet stored in the bucket, and the resulting output records."""

    def __init__(self, bucket: Bucket, now_ms: int, sinks: Sinks) -> None:
        self.group_id: str | None = None
        self._bucket = bucket
        self._now_ms = now_ms
        self._sinks = sinks
        self._output_records: list[OutputRecord] = []
        self._latest_assignment: AssignmentOutput | None = None
        self._episodes: dict[int, EpisodeOutput] = {}
        self._incidents: dict[int, IncidentOutput] = {}

    def apply(self, record: Record) -> None:
        """Apply the next record; a record that is not a valid event becomes a dead letter."""
        sinks, now_ms = self._sinks, self._now_ms
        try:
            event = read(record)
            if isinstance(event.data, Annotation):
                self._output_records += outputs.write_annotation(event, event.data, sinks)
                return
            self.group_id = event.data.group_id
            group = self._bucket.get(event.data.group_id)
            if isinstance(event.data, MemberHeartbeat):
                heartbeats.track_heartbeat(group, event.data, now_ms)
                return
            before = group.state
            after, written = apply(before, event, group.heartbeats, most=sinks.expected_partitions)
            diffs = outputs.write_diffs(event, written, sinks) if written else []
        except CorruptState:
            raise
        except Exception as error:  # noqa: BLE001 - the group has not changed yet
            self._output_records.append(outputs.dead_letter(record, error, sinks))
            return
        self._output_records += diffs
        if isinstance(event.data, AssignmentAcknowledged):
            heartbeats.track_heartbeat(group, event.data, now_ms)
        if after is not before:
            group.state = after
            heartbeats.update_deadlines(group, event, now_ms, sinks.forget_after_ms)
            if written and isinstance(written[-1], AssignmentOutput):
                self._latest_assignment = written[-1]
        if sinks.episodes is not None:
            for changed in episodes.update_group(group, before, event, written, now_ms=now_ms, sinks=sinks):
                if isinstance(changed, EpisodeOutput):
                    self._episodes[changed.state.number] = changed
                else:
                    self._incidents[changed.incident.number] = changed

    def commit(self) -> list[OutputRecord]:
        """Commit the state of the batch's current group to the bucket, and return the records to write."""
        latest = self._latest_assignment, list(self._episodes.values()), list(self._incidents.values())
        if any(latest):
            self._output_records += outputs.write_latest(*latest, self._sinks)
        if self.group_id is not None:
            self._bucket.commit(self.group_id)
        return self._output_records
