"""The history at a past moment equals the stream's output at that moment, for any division into batches."""

from collections.abc import Iterator
from itertools import zip_longest
from random import Random

import msgspec
import pytest

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.recording.history import RecordedHistory, event_time, history_at
from streaming.records.codec import Record, encode, encode_event
from streaming.records.events import Event
from tests.support.histories import log_by_partition
from tests.support.pure_stream import SINKS, run
from tests.support.recorded import membership_log


def log_records(log: list[Event]) -> list[Record]:
    return [Record.of(0, offset, *encode_event(event)) for offset, event in enumerate(log)]


def batches(records: list[Record], chance: Random) -> Iterator[list[Record]]:
    """Yield the membership log in random batches; events with equal times are in one batch."""
    batch: list[Record] = []
    for record, following in zip_longest(records, records[1:]):
        batch.append(record)
        is_last = following is None or event_time(following) > event_time(record)
        if is_last and (following is None or chance.random() < 0.4):
            yield batch
            batch = []


def stream_outputs(records: list[Record], chance: Random) -> Iterator[tuple[int, set[bytes]]]:
    """Yield, after each batch, the time of its last event and the values that the compacted topics then contain."""
    blob, newest = None, dict[tuple[str, bytes | None], bytes | None]()
    for batch in batches(records, chance):
        bucket = Bucket(blob)
        for write in process(bucket, batch, 0, SINKS):
            if write.topic in "aei":
                newest[write.topic, write.key] = write.value
        blob = bucket.pack()
        yield event_time(batch[-1]), {value for value in newest.values() if value is not None}


def compacted_records(history: RecordedHistory) -> set[bytes]:
    assignments = map(encode, history.assignments)
    return {*assignments, *(r.value for r in history.episodes), *(r.value for r in history.incidents)}


@pytest.mark.parametrize("seed", range(14))
def test_past_state_equals_the_stream_at_that_time(seed: int) -> None:
    chance = Random(seed)
    log = log_records(sorted(membership_log(250, 8, seed), key=lambda event: event.data.timestamp))
    history, rest = RecordedHistory(SINKS), iter(log)
    next_record: Record | None = next(rest)
    states_by_batch = list(stream_outputs(log, chance))
    assert len(states_by_batch) > 72  # 14 logs give more than 1,000 moments
    for at_ms, expected in states_by_batch:
        while next_record is not None and event_time(next_record) <= at_ms:
            history.apply(next_record)
            next_record = next(rest, None)
        assert compacted_records(history) == expected
    for at_ms, expected in chance.sample(states_by_batch, 4):
        assert compacted_records(history_at(log, at_ms, SINKS)) == expected


def test_future_events_and_broken_records_change_nothing() -> None:
    log = list(membership_log(60, 3, seed=5))
    ahead = msgspec.structs.replace(log[0].data, timestamp=10**15 // 5)
    records = log_records([Event("other", "ahead", ahead), *log])
    broken_record = records[3]._replace(value=b"{")
    at_ms = log[-1].data.timestamp
    past = history_at([*records, broken_record], at_ms, SINKS)
    assert compacted_records(past) == compacted_records(history_at(log_records(log), at_ms, SINKS))
    assert event_time(broken_record) == 0


def test_recorded_history_gives_the_records_of_the_stream() -> None:
    log = list(membership_log(120, 4))
    history = RecordedHistory(SINKS)
    outputs = [output.write for output in history.play(log_records(log)) if output.write.topic == "d"]
    assert outputs
    streamed = run(log_by_partition(log, 1), batch=1000, buckets=1)
    diffs = {(record.key, record.value) for record in streamed if record.topic == "d"}
    assert {(output.key, output.value) for output in outputs} == diffs
