"""Recordings are written and read, replay to the recorded output, and are rejected if damaged."""

import gzip
import io
import zlib
from collections.abc import Callable

import pytest

from assignors.errors import BadInput
from streaming.recording.file import (
    RecordedSettings,
    Recording,
    RecordingHeader,
    read_recording,
    record_log,
    write_recording,
)
from tests.support.pure_stream import SINKS
from tests.support.recorded import membership_log
from tests.unit.streaming.recording.test_history import log_records

LOG = log_records(list(membership_log(200, 6, seed=2)))
SETTINGS = RecordedSettings.of(SINKS)


def written(begin: int = 0) -> bytes:
    file = io.BytesIO()
    header = RecordingHeader(monitor="1.0", groups=["g"], begin=begin, end=10, settings=SETTINGS)
    write_recording(file, header, record_log(LOG, begin, SETTINGS.sinks))
    return file.getvalue()


RECORDING_BYTES = written()


def opened(data: bytes) -> Recording:
    return read_recording(io.BytesIO(data), "a.rmlog")


def test_written_records_are_read_unchanged() -> None:
    recording = opened(RECORDING_BYTES)
    assert [record[:8] for record in recording.log] == [record[:8] for record in LOG]
    assert recording.header.settings.sinks == SETTINGS.sinks
    assert written() == RECORDING_BYTES


def test_non_utf8_bytes_are_recorded_unchanged() -> None:
    file, non_utf8 = io.BytesIO(), LOG[0]._replace(value=b"\xff{", key=b"base64:x", headers=[("ce_id", None)])
    header = RecordingHeader(monitor="1.0", groups=[], begin=0, end=1, settings=SETTINGS)
    write_recording(file, header, record_log([non_utf8], 0, SETTINGS.sinks))
    (record,) = opened(file.getvalue()).log
    assert (record.value, record.key, record.headers) == (non_utf8.value, non_utf8.key, non_utf8.headers)


def test_replay_equals_the_recorded_outputs() -> None:
    recording = opened(RECORDING_BYTES)
    assert list(recording.differences()) == []
    diffs = [(line.record.key, line.record.value) for line in recording.outputs if line.topic == "diffs"]
    replayed = [output.write for outputs in recording.steps() for output in outputs]
    assert diffs == [(write.key, write.value) for write in replayed if write.topic == "diffs"]
    assert len(diffs) > 50


def test_differences_name_the_changed_output() -> None:
    recording = opened(RECORDING_BYTES)
    first, second, *others = recording.outputs
    changed = recording._replace(outputs=[second, *others, first], log=recording.log[:-40])
    lines = list(changed.differences())
    assert lines
    assert all(": a replay " in line or ": only a replay" in line for line in lines)


def test_diffs_before_the_begin_are_left_out() -> None:
    begin = opened(RECORDING_BYTES).log[100]
    late = opened(written(begin=1_700_000_100_000))
    assert len(late.log) == len(LOG)
    assert len(late.outputs) < len(opened(RECORDING_BYTES).outputs)
    assert begin == late.log[100]


def lines(change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    return gzip.compress(b"\n".join(change(gzip.decompress(RECORDING_BYTES).split(b"\n"))), mtime=0)


def add_checksum(text: bytes) -> bytes:
    return b"%08x %s" % (zlib.crc32(text), text)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "is empty"),
        (b"no recording", "a.rmlog: is not a recording"),
        (gzip.compress(b"{}\n", mtime=0), "line 1 is damaged"),
        (gzip.compress(add_checksum(b"{}") + b"\n", mtime=0), "line 1: "),
        (lines(lambda old: [add_checksum(old[0][9:].replace(b'"version":1', b'"version":9')), *old[1:]]), "version 9"),
        (RECORDING_BYTES[: len(RECORDING_BYTES) // 2], "the file is cut off there"),
        (RECORDING_BYTES[:-4], ": line "),
        (RECORDING_BYTES[:2000] + bytes([RECORDING_BYTES[2000] ^ 255]) + RECORDING_BYTES[2001:], ": line "),
        (lines(lambda old: [*old[:9], old[9].replace(b"group", b"Group"), *old[10:]]), "line 10 is damaged"),
        (lines(lambda old: [*old[:5], *old[6:]]), "records precede this line; others are missing"),
        (lines(lambda old: [*old[:-1], old[5], b""]), "data follows the last record"),
        (lines(lambda old: [*old[:7], add_checksum(b'{"topic":"other"}'), *old[8:]]), "line 8: "),
        (lines(lambda old: [*old[:20], b""]), "is cut off after line 20; its last line is missing"),
    ],
)
def test_damaged_files_are_refused_with_the_place(data: bytes, place: str) -> None:
    with pytest.raises(BadInput) as error:
        opened(data)
    assert place in str(error.value)
    assert str(error.value).startswith("a.rmlog: ")
