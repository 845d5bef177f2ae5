"""Each record is one atomic step: if any function fails, the record becomes a dead letter and changes nothing."""

import sys
from types import FrameType
from typing import Any

import pytest

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord
from streaming.records.codec import Record, encode_event
from streaming.records.events import Event, GroupQuiet
from tests.support import pure_stream
from tests.support.histories import Log

#: Topics without the advisory check of assignments, whose failure leaves a round unchanged.
SINKS = pure_stream.SINKS._replace(expected_partitions=0)
#: A generator that fails while it is closed can't raise an error.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
#: Functions that pass records to steps, and steps to the bucket: they contain no rule that could fail.
_PASSING_FUNCTIONS = {"process", "_apply_record_run", "_BucketBatch.__init__"}


class InjectedError(Exception):
    """The error that a test injects into a function of the monitor."""


def record(event: Event, offset: int) -> Record:
    return Record.of(0, offset, *encode_event(event))


def before(*events: Event) -> bytes:
    bucket = Bucket()
    pure_stream.apply_events(bucket, events, sinks=SINKS)
    return bucket.pack()


def played(blob: bytes, records: list[Record], failing_call: int = 0) -> tuple[list[OutputRecord], bytes, int]:
    """Process a batch; return writes, bucket and number of calls. Call number ``failing_call`` raises an error."""
    bucket, calls = Bucket(blob), 0

    def count(frame: FrameType, kind: str, _: Any) -> None:
        nonlocal calls
        name = frame.f_globals.get("__name__", "")
        if kind != "call" or not name.startswith(("streaming.", "assignors.")):
            return
        if frame.f_code.co_qualname in _PASSING_FUNCTIONS:
            return
        calls += 1
        if calls == failing_call:
            raise InjectedError(frame.f_code.co_qualname)

    sys.setprofile(count)
    try:
        writes = process(bucket, records, 1000, SINKS)
    finally:
        sys.setprofile(None)
    return writes, bucket.pack(), calls


def joined() -> tuple[bytes, Event]:
    log = Log()
    return before(log.topics(t=6), log.join("c1"), log.join("c2", session_timeout_ms=9)), log.join("c3")


def observed() -> tuple[bytes, Event]:
    log = Log()
    first = log.observe(1, {"c1": {"t": [0, 1, 2]}, "c2": {"t": [3, 4, 5]}})
    return before(log.topics(t=6), first), log.observe(2, {"c1": {"t": [0, 1, 2, 3, 4, 5]}})


def quiet() -> tuple[bytes, Event]:
    blob, _ = joined()
    episode = Bucket(blob).get("g").episode
    return blob, Event("timer", "q", GroupQuiet(group_id="g", timestamp=9, after=episode.last_note_id))


def deleted() -> tuple[bytes, Event]:
    log = Log()
    return before(log.topics(t=6), log.join("c1")), log.delete()


@pytest.mark.parametrize("case", [joined, observed, quiet, deleted])
def test_failing_function_leaves_all_changes_or_none(case: Any) -> None:
    blob, event = case()
    records = [record(event, 9)]
    whole, after, calls = played(blob, records)
    assert calls > 30
    refused = 0
    for number in range(1, calls + 1):
        writes, left, _ = played(blob, records, number)
        if [write.topic for write in writes] == ["dlt"]:
            assert dict(writes[0].headers)["dlt_exception"] == b"InjectedError"
            assert left == Bucket(blob).pack()
            refused += 1
        else:
            assert (writes, left) == (whole, after)
    assert refused > 30


def test_other_records_of_the_group_are_kept() -> None:
    blob, event = joined()
    log = Log()
    log.count = 50
    records = [record(event, 9), record(log.leave("c1"), 10), record(log.join("c4"), 11)]
    _, _, calls = played(blob, records)
    for number in range(1, calls + 1, 7):
        writes, left, _ = played(blob, records, number)
        letters = [write for write in writes if write.topic == "dlt"]
        assert len(letters) <= 1
        kept = [record for record in records if not letters or record.value != letters[0].value]
        wanted, after, _ = played(blob, kept)
        assert left == after
        assert [write for write in writes if write.topic == "d"] == [write for write in wanted if write.topic == "d"]
