"""Tests of the stateful function without a JVM: input columns become records, and output records become rows."""

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd
import pytest
from pyspark import Accumulator, TaskContext

from streaming.monitor.outputs import OutputRecord, Sinks
from streaming.records import codec
from streaming.spark.operator import INPUT_COLUMNS, OUTPUT, BucketReports, _send, apply_bucket_batch, read
from streaming.spark.operator import row as as_row
from streaming.spark.progress import BucketReport
from tests.support.histories import Log

SINKS = Sinks("m", "d", "a", "dlt", dict.fromkeys("mda", 4) | {"dlt": 4})


def row(event: Any, partition: int, offset: int) -> tuple[Any, ...]:
    key, value, headers = codec.encode_event(event)
    ce = dict(headers)
    return partition, offset, key, value, ce["ce_type"], ce["ce_id"], ce["ce_source"], ce["ce_time"], None


TICK_RECORD_ROW = (-1, 0, *[None] * 7)


class State:
    def __init__(self) -> None:
        self.value: tuple[bytes] | None = None
        self.updates = 0

    exists = property(lambda self: self.value is not None)
    get = property(lambda self: self.value)

    def update(self, value: tuple[bytes]) -> None:
        self.value, self.updates = value, self.updates + 1

    def getCurrentProcessingTimeMs(self) -> int:  # noqa: N802 - pyspark's name
        return 1_000


class Reports:
    """A fake accumulator that stores each report with its bucket number."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, BucketReport]] = []

    def add(self, lines: deque[tuple[int, int, BucketReport]]) -> None:
        self.lines += [(bucket, report) for _, bucket, report in lines]


def set_task_batch(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    context = SimpleNamespace(getLocalProperty={"streaming.sql.batchId": str(batch)}.get)
    monkeypatch.setattr(TaskContext, "get", lambda: context)


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Spark's task context: the tested code runs as if in batch 3."""
    set_task_batch(monkeypatch, 3)


def input_frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Return an input frame as PySpark passes it: bucket number and record columns."""
    columns = dict(zip(INPUT_COLUMNS, zip(*rows, strict=True), strict=True))
    numbers = {"partition": "int32", "offset": "int64"}
    return pd.DataFrame(
        {"bucket": pd.Series([7] * len(rows), dtype="int32")}
        | {name: pd.Series(list(column), dtype=numbers.get(name, "object")) for name, column in columns.items()}
    )


def run(rows: list[tuple[Any, ...]], state: State, reports: Reports | None = None) -> list[SimpleNamespace]:
    frames = list(apply_bucket_batch(SINKS, reports or Reports(), (7,), iter([input_frame(rows)]), state))
    assert all(list(part.columns) == list(OUTPUT) for part in frames)
    return [
        SimpleNamespace(**dict(zip(OUTPUT, values, strict=True)))
        for part in frames
        for values in part.itertuples(index=False)
    ]


def test_rows_of_any_order_are_applied_in_the_order_of_the_log() -> None:
    log, state = Log(), State()
    events = [log.topics(t=2), log.join("c1"), log.join("c2")]
    rows = [row(event, 1, offset) for offset, event in enumerate(events)]
    written = run(rows[::-1], state)
    assert [write.topic for write in written] == ["d", "d", "a"]
    assert written[0].ce_type == b"rebalance.diff"
    assert state.updates == 1


def test_a_batch_that_changes_nothing_does_not_write_the_state() -> None:
    log, state = Log(), State()
    rows = [row(log.topics(t=1), 0, 0), row(log.join("c1"), 0, 1)]
    run(rows, state)
    assert run(rows, state) == []
    assert state.updates == 1


def test_a_bucket_reports_its_next_timer_and_its_counts() -> None:
    log, state, reports = Log(), State(), Reports()
    assert run([TICK_RECORD_ROW], state, reports) == []
    rows = [
        row(log.topics(t=1), 0, 0),
        row(log.join("c1", session_timeout_ms=500), 0, 1),
        row(log.beat("c1"), 0, 2),
        (0, 3, b"k", b"poison", *[None] * 4, "[]"),
        (0, 4, b"k", b"{}", b"group.changed", *[None] * 4),
    ]
    run(rows, state, reports)
    run([TICK_RECORD_ROW], state, reports)
    size = sum(len(record[3]) for record in rows)
    assert reports.lines == [
        (7, BucketReport(0)),
        (7, BucketReport(1_500, 1, 1, size, retired=1)),
        (7, BucketReport(1_500)),
    ]


def test_bucket_report_has_the_soonest_timer_of_its_groups() -> None:
    state, reports = State(), Reports()
    rows = []
    for timeout in (900, 500, 700):
        log = Log(f"g{timeout}")
        events = [log.topics(t=1), log.join("c1", session_timeout_ms=timeout), log.beat("c1")]
        rows += [row(event, 0, len(rows) + at) for at, event in enumerate(events)]
    run(rows, state, reports)
    assert [report.due for _, report in reports.lines] == [1_500]


def test_output_of_a_bucket_is_one_frame() -> None:
    log, state = Log(), State()
    rows = [row(event, 0, offset) for offset, event in enumerate([log.topics(t=2), log.join("a"), log.join("b")])]
    (frame,) = apply_bucket_batch(SINKS, Reports(), (7,), iter([input_frame(rows[:1]), input_frame(rows[1:])]), state)
    assert len(frame) == 3
    assert frame["partition"].map(type).tolist() == [int, int, int]


def test_ticks_do_not_count_as_records() -> None:
    joined = row(Log().join("c"), 0, 5)
    for frames in ([input_frame([TICK_RECORD_ROW, joined])], [input_frame([TICK_RECORD_ROW]), input_frame([joined])]):
        assert [(record.partition, record.offset) for record in read(frames)] == [(0, 5)]


def test_headers_come_back_byte_for_byte() -> None:
    packed = '[{"key":"a"},{"key":"a","value":""},{"key":"ü","value":"/w=="}]'
    attributes = (b"t", b"i", b"s", b"now")
    records = read(
        [input_frame([(0, at, b"k", b"v", *attributes, headers) for at, headers in enumerate((None, packed, "[]"))])]
    )
    assert [record.all_headers for record in records] == [
        [
            ("ce_specversion", b"1.0"),
            ("ce_type", b"t"),
            ("ce_id", b"i"),
            ("ce_source", b"s"),
            ("ce_time", b"now"),
            ("content-type", b"application/json"),
        ],
        [("a", None), ("a", b""), ("ü", b"\xff")],
        [],
    ]
    assert [record.type for record in records] == [b"t", None, None]


def test_last_header_of_a_repeated_name_is_used() -> None:
    headers = (("ce_id", b"1"), ("ce_type", b"t"), ("x", b""), ("ce_id", b"2"))
    packed = msgspec.json.encode([{"key": name, "value": value} for name, value in headers]).decode()
    (record,) = read([input_frame([(0, 0, b"k", b"v", None, None, None, None, packed)])])
    assert (record.type, record.id, record.source) == (b"t", b"2", None)
    assert [name for name, _ in record.all_headers] == ["ce_id", "ce_type", "x", "ce_id"]


def test_cloud_event_headers_are_columns_others_stay_headers() -> None:
    cloud_event_headers = [(name, name.encode()) for name in codec.HEADER_NAMES]
    assert as_row(OutputRecord("d", b"k", b"v", cloud_event_headers, 3)) == (
        *("d", b"k", b"v"),
        *(b"ce_type", b"ce_id", b"ce_source", b"ce_time"),
        *(None, 3),
    )
    headers = [("x", None), ("ce_id", b"1")]
    assert as_row(OutputRecord("dlt", None, None, headers, None)) == ("dlt", None, None, *[None] * 4, headers, None)


@pytest.fixture
def reports() -> BucketReports:
    context: Any = SimpleNamespace(accumulator=lambda value, param: Accumulator(0, value, param))
    return BucketReports(SimpleNamespace(sparkContext=context))  # type: ignore[arg-type] # only what the reports use


def test_each_batch_has_the_last_report_of_its_buckets(reports: BucketReports, monkeypatch: pytest.MonkeyPatch) -> None:
    set_task_batch(monkeypatch, 7)
    _send(reports.accumulator, 0, BucketReport(5, diffs=1))
    _send(reports.accumulator, 1, BucketReport(0))
    _send(reports.accumulator, 0, BucketReport(5, diffs=2))  # the task was retried
    set_task_batch(monkeypatch, 8)
    _send(reports.accumulator, 0, BucketReport(9))
    assert reports.reports_of_batch(7) == {0: BucketReport(5, diffs=2), 1: BucketReport(0)}
    assert (reports.reports_of_batch(7), reports.reports_of_batch(8)) == ({}, {0: BucketReport(9)})


def test_next_batch_drops_the_reports_of_the_previous_one(
    reports: BucketReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in (1, 2):
        set_task_batch(monkeypatch, batch)
        _send(reports.accumulator, 0, BucketReport(batch))
    assert reports.reports_of_batch(2) == {0: BucketReport(2)}
    assert reports.reports_of_batch(1) == {}


def test_bucket_reports_are_read_while_another_thread_sends(
    reports: BucketReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_task_batch(monkeypatch, 1)
    count = 20_000
    sender_thread = threading.Thread(
        target=lambda: [_send(reports.accumulator, number, BucketReport(number)) for number in range(count)]
    )
    received: dict[int, BucketReport] = {}
    sender_thread.start()
    while sender_thread.is_alive():
        received.update(reports.reports_of_batch(1))
    received.update(reports.reports_of_batch(1))
    assert received == {number: BucketReport(number) for number in range(count)}
