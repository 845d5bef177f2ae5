"""The driver receives each bucket's report exactly once, batch by batch."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import Accumulator, TaskContext

from streaming.spark.operator import BucketReports, _send
from streaming.spark.progress import BucketReport


class FakeTaskContext:
    def __init__(self) -> None:
        self.sparkContext = self

    def accumulator(self, value: Any, param: Any) -> Accumulator[Any]:
        return Accumulator(0, value, param)


@pytest.fixture
def reports() -> BucketReports:
    return BucketReports(FakeTaskContext())  # type: ignore[arg-type] # only what the reports use of a session


def set_task_batch(monkeypatch: pytest.MonkeyPatch, batch: int | None) -> None:
    context = SimpleNamespace(getLocalProperty={"streaming.sql.batchId": batch and str(batch)}.get)
    monkeypatch.setattr(TaskContext, "get", lambda: context)


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
