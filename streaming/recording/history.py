"""A group's history computed from the membership log by the monitor's own rules, up to any moment."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from streaming.episodes.cluster_cause import explain_episodes
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import DIFF_TYPE, OutputRecord, Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import (
    ANNOTATION_TYPE,
    INCIDENT_TYPE,
    Episode,
    EpisodeRecord,
    Incident,
    IncidentRecord,
    decode_episode,
    decode_incident,
)

_diffs: Final = msgspec.json.Decoder(Diff)
_assignments: Final = msgspec.json.Decoder(LatestAssignment)
#: The number of records that are applied in one batch.
_BATCH_RECORDS: Final = 1000


class _EventTimes(Struct):
    timestamp: int = 0


_event_times: Final = msgspec.json.Decoder(_EventTimes)


def event_time(record: Record) -> int:
    """Return the time of a record's event (ms); 0 if the record is not an event."""
    try:
        return _event_times.decode(record.value or b"").timestamp
    except codec.DECODE_ERRORS:
        return 0


class ReplayedOutput(NamedTuple):
    """A replayed diff, episode or incident: its record, its value, and the record of the event that caused it."""

    write: OutputRecord
    value: Diff | Episode | Incident
    source: Record

    @property
    def id(self) -> str:
        """The ``ce_id`` header of the recorded record."""
        return codec.ce_attributes(self.write.headers)["id"]


def _ce_type(write: OutputRecord) -> str | None:
    return codec.ce_attributes(write.headers).get("type")


class RecordedHistory:
    """The latest assignments, episodes and incidents after replaying the beginning of a membership log.

    ``sinks``: topic names and thresholds, as the Spark job has them.
    """

    def __init__(self, sinks: Sinks) -> None:
        self._sinks = sinks
        self.bucket = Bucket()
        self._count = 0
        #: Topic and key → value, and the number of events until it was written.
        self._newest_records: dict[tuple[str, bytes], tuple[bytes, int]] = {}

    def apply(self, record: Record) -> list[ReplayedOutput]:
        """Apply the next record of the membership log; return its diffs, episodes and incidents."""
        sinks, outputs = self._sinks, list[ReplayedOutput]()
        for write in self._output_records([record]):
            if write.value is None:
                continue
            if write.topic == sinks.episodes:
                outputs.append(ReplayedOutput(write, decode_episode(write.value), record))
            elif write.topic == sinks.incidents and _ce_type(write) == INCIDENT_TYPE:
                outputs.append(ReplayedOutput(write, decode_incident(write.value), record))
            elif write.topic == sinks.diffs and _ce_type(write) == DIFF_TYPE:
                outputs.append(ReplayedOutput(write, _diffs.decode(write.value), record))
        return outputs

    def advance(self, log: Iterable[Record]) -> None:
        """Apply records in batches, which is twice as fast as one by one (:meth:`apply`)."""
        records = iter(log)
        while batch := list(islice(records, _BATCH_RECORDS)):
            self._output_records(batch)

    def _output_records(self, records: list[Record]) -> list[OutputRecord]:
        self._count += len(records)
        sinks, writes = self._sinks, process(self.bucket, records, 0, self._sinks)
        for write in writes:
            if _ce_type(write) == ANNOTATION_TYPE:
                continue
            place = write.topic, write.key or b""
            if write.value is None:
                self._newest_records.pop(place, None)
            elif write.topic in (sinks.assignments, sinks.episodes, sinks.incidents):
                self._newest_records[place] = write.value, self._count
        return writes

    def steps(
        self, log: Iterable[Record], *, until_ms: int | None = None, until: Callable[[], bool] = lambda: False
    ) -> Iterator[list[ReplayedOutput]]:
        """Apply the log's events up to ``until_ms``, or until ``until()`` is true; yield the outputs of each event."""
        for record in log:
            if until():
                return
            if until_ms is None or event_time(record) <= until_ms:
                yield self.apply(record)

    def play(self, log: Iterable[Record]) -> Iterator[ReplayedOutput]:
        """Apply the whole membership log; yield all outputs."""
        for outputs in self.steps(log):
            yield from outputs

    def values(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield the content of the compacted topics: topic, key and value."""
        for (topic, key), (value, _) in self._newest_records.items():
            yield topic, key, value

    def _items(self, topic: str | None) -> Iterator[tuple[bytes, int]]:
        return (content for (name, _), content in self._newest_records.items() if name == topic)

    @property
    def assignments(self) -> list[LatestAssignment]:
        """The latest assignment of each group that exists."""
        return [_assignments.decode(value) for value, _ in self._items(self._sinks.assignments)]

    @property
    def episodes(self) -> list[EpisodeRecord]:
        """The newest record of each episode."""
        records = [EpisodeRecord(decode_episode(value), value, at) for value, at in self._items(self._sinks.episodes)]
        return explain_episodes(records, self.incidents)

    @property
    def incidents(self) -> list[IncidentRecord]:
        """The newest record of each incident."""
        return [IncidentRecord(decode_incident(value), value) for value, _ in self._items(self._sinks.incidents)]


def history_at(log: Iterable[Record], at_ms: int, sinks: Sinks) -> RecordedHistory:
    """Return the history of the log's groups as of ``at_ms``: all events up to then are applied, none later."""
    history = RecordedHistory(sinks)
    history.advance(record for record in log if event_time(record) <= at_ms)
    return history
