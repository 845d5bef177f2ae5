"""A group's history computed from the membership log by the monitor's own rules, up to any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import DIFF_TYPE, Sinks, Write
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import (
    Episode,
    EpisodeRecord,
    Incident,
    IncidentRecord,
    decode_episode,
    decode_incident,
)

_diffs: Final = msgspec.json.Decoder(Diff)
_assignments: Final = msgspec.json.Decoder(LatestAssignment)


class _Timed(Struct):
    timestamp: int = 0


_timed: Final = msgspec.json.Decoder(_Timed)


def event_time(record: Record) -> int:
    """Return the time of a record's event (ms); 0 for a record that is no event, which changes no group."""
    try:
        return _timed.decode(record.value or b"").timestamp
    except codec.UNREADABLE:
        return 0


class Replayed(NamedTuple):
    """A diff, episode or incident: its record, its value, and the record of the event behind it."""

    write: Write
    value: Diff | Episode | Incident
    source: Record

    @property
    def id(self) -> str:
        """The ``ce_id`` of the record."""
        return codec.ce_attributes(self.write.headers)["id"]


class History:
    """The latest assignments, episodes and incidents after a part of the membership log.

    Args:
        sinks: topic names and thresholds, as the Spark job has them.
    """

    def __init__(self, sinks: Sinks) -> None:
        self._sinks = sinks
        self.bucket = Bucket()
        self._count = 0
        self._assignments: dict[bytes, bytes] = {}
        self._episodes: dict[bytes, EpisodeRecord] = {}
        self._incidents: dict[bytes, IncidentRecord] = {}

    def apply(self, record: Record) -> list[Replayed]:
        """Apply the next record of the log; return the diffs, episodes and incidents that it gives."""
        self._count += 1
        sinks, outputs = self._sinks, list[Replayed]()
        for write in process(self.bucket, [record], 0, sinks):
            key, value = write.key or b"", write.value
            if write.topic == sinks.assignments:
                if value is None:
                    self._assignments.pop(key, None)
                else:
                    self._assignments[key] = value
            elif value is None:
                continue
            elif write.topic == sinks.episodes:
                episode = EpisodeRecord(decode_episode(value), value, self._count)
                self._episodes[key] = episode
                outputs.append(Replayed(write, episode.episode, record))
            elif write.topic == sinks.incidents:
                incident = IncidentRecord(decode_incident(value), value)
                self._incidents[key] = incident
                outputs.append(Replayed(write, incident.incident, record))
            elif write.topic == sinks.diffs and codec.ce_attributes(write.headers).get("type") == DIFF_TYPE:
                outputs.append(Replayed(write, _diffs.decode(value), record))
        return outputs

    def steps(
        self, log: Iterable[Record], *, until_ms: int | None = None, until: Callable[[], bool] = lambda: False
    ) -> Iterator[list[Replayed]]:
        """Apply the log, without events later than ``until_ms``, until ``until()``; yield each event's outputs."""
        for record in log:
            if until():
                return
            if until_ms is None or event_time(record) <= until_ms:
                yield self.apply(record)

    def play(self, log: Iterable[Record]) -> Iterator[Replayed]:
        """Apply the whole log; yield all outputs."""
        for outputs in self.steps(log):
            yield from outputs

    def values(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield what the compacted topics hold: topic, key and value."""
        sinks = self._sinks
        for topic, values in (
            (sinks.assignments, self._assignments),
            (sinks.episodes or "", {key: record.value for key, record in self._episodes.items()}),
            (sinks.incidents or "", {key: record.value for key, record in self._incidents.items()}),
        ):
            for key, value in values.items():
                yield topic, key, value

    @property
    def assignments(self) -> list[LatestAssignment]:
        """The latest assignment of each group that exists."""
        return [_assignments.decode(value) for value in self._assignments.values()]

    @property
    def episodes(self) -> list[EpisodeRecord]:
        """The newest record of each episode."""
        return list(self._episodes.values())

    @property
    def incidents(self) -> list[IncidentRecord]:
        """The newest record of each incident."""
        return list(self._incidents.values())


def history_at(log: Iterable[Record], at_ms: int, sinks: Sinks) -> History:
    """Return the history of the log's groups as of ``at_ms``: all events up to then are applied, none later."""
    history = History(sinks)
    for _ in history.steps(log, until_ms=at_ms):
        pass
    return history
