"""What buckets tell reaches the driver batch by batch, once."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import Accumulator, TaskContext

from streaming.spark.progress import Told
from streaming.spark.tally import Batches, Tally


class Context:
    """What the driver needs of a SparkContext."""

    def __init__(self) -> None:
        self.sparkContext = self

    def accumulator(self, value: Any, param: Any) -> Accumulator[Any]:
        return Accumulator(0, value, param)


@pytest.fixture
def tally() -> Tally:
    return Tally(Context())


def in_task(monkeypatch: pytest.MonkeyPatch, batch: int | None) -> None:
    context = SimpleNamespace(getLocalProperty={"streaming.sql.batchId": batch and str(batch)}.get)
    monkeypatch.setattr(TaskContext, "get", lambda: context)


def test_each_batch_has_what_its_buckets_told_the_last_time(
    tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_task(monkeypatch, 7)
    tally.tell(0, Told(5, diffs=1))
    tally.tell(1, Told(0))
    tally.tell(0, Told(5, diffs=2))  # the task was run again
    in_task(monkeypatch, 8)
    tally.tell(0, Told(9))
    batches = Batches(tally)
    assert batches.of(7) == {0: Told(5, diffs=2), 1: Told(0)}
    assert (batches.of(7), batches.of(8)) == ({}, {0: Told(9)})


def test_a_batch_that_nobody_asked_for_is_forgotten_with_the_next(
    tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in (1, 2):
        in_task(monkeypatch, batch)
        tally.tell(0, Told(batch))
    batches = Batches(tally)
    assert batches.of(2) == {0: Told(2)}
    assert batches.of(1) == {}


def test_outside_of_a_batch_nothing_is_told(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, None)
    tally.tell(0, Told(1))
    assert Batches(tally).of(0) == {}


def test_tasks_tell_on_another_thread_while_batches_are_read(
    tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_task(monkeypatch, 1)
    count = 20_000
    telling = threading.Thread(target=lambda: [tally.tell(number, Told(number)) for number in range(count)])
    batches, heard = Batches(tally), {}
    telling.start()
    while telling.is_alive():
        heard.update(batches.of(1))
    heard.update(batches.of(1))
    assert heard == {number: Told(number) for number in range(count)}
