"""Records of a recording, computed from a membership log; and the replay of a recording without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from streaming.monitor.outputs import Sinks
from streaming.recording.file import RecordedRecord, Recording, RecordingHeader, Role, recorded
from streaming.recording.history import RecordedHistory, Replayed, event_time
from streaming.records.codec import Record, ce_attributes
from streaming.records.diffs import Diff


def record_log(log: Sequence[Record], begin: int, sinks: Sinks) -> Iterator[RecordedRecord]:
    """Yield the records of a recording: the log, the diffs from ``begin`` (ms) on, and the newest other outputs.

    ``sinks``: topics called by their roles, as :attr:`~streaming.recording.file.RecordedSettings.sinks`.
    """
    for record in log:
        place = (record.partition, record.offset)
        yield recorded("membership", record.key, record.value, record.all_headers, place)
    history = RecordedHistory(sinks)
    for output in history.play(log):
        if isinstance(output.value, Diff) and event_time(output.source) >= begin:
            write, source = output.write, output.source
            yield recorded("diffs", write.key, write.value, write.headers, (source.partition, source.offset))
    for topic, key, value in history.values():
        yield recorded(cast("Role", topic), key, value, ())


class LoadedRecording(NamedTuple):
    """A recording in memory, whole and undamaged."""

    header: RecordingHeader
    log: list[Record]
    outputs: list[RecordedRecord]

    def steps(self) -> Iterator[list[Replayed]]:
        """Play the log again; yield the outputs of each event since the recording's begin."""
        history = RecordedHistory(self.header.settings.sinks)
        for outputs in history.steps(self.log):
            yield [output for output in outputs if event_time(output.source) >= self.header.begin]

    def differences(self) -> Iterator[str]:
        """Yield a line for each difference between the recorded outputs and a replay."""
        again = list(record_log(self.log, self.header.begin, self.header.settings.sinks))[len(self.log) :]
        replayed = {_identity(line): line for line in again}
        for line in self.outputs:
            computed = replayed.pop(_identity(line), None)
            if computed is None:
                yield f"{_title(line)}: a replay does not give it"
            elif computed != line:
                yield f"{_title(line)}: a replay gives other content"
        yield from (f"{_title(line)}: only a replay gives it" for line in replayed.values())


def load(recording: Recording, group: str | None = None) -> LoadedRecording:
    """Read all records of a recording, of all groups or of one.

    Raises:
        DamagedRecording: the file is damaged; the message names the line.
    """
    log: list[Record] = []
    outputs: list[RecordedRecord] = []
    for line in _of_group(recording.records(), group):
        if line.topic == "membership":
            log.append(line.record)
        else:
            outputs.append(line)
    return LoadedRecording(recording.header, log, outputs)


def _of_group(lines: Iterable[RecordedRecord], group: str | None) -> Iterator[RecordedRecord]:
    for line in lines:
        is_numbered = line.topic in ("episodes", "incidents")
        key = (line.key or "").rpartition("/")[0] if is_numbered else line.key
        if group is None or key == group:
            yield line


def _identity(line: RecordedRecord) -> tuple[str, str | None]:
    return line.topic, ce_attributes(line.record.all_headers).get("id") if line.topic == "diffs" else line.key


def _title(line: RecordedRecord) -> str:
    topic, name = _identity(line)
    return f"{topic} {line.key} {name}" if topic == "diffs" else f"{topic} {name}"
