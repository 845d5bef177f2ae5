"""What the buckets of a batch tell the driver, beside what they write to topics.

Through an accumulator of Spark's. Its own way, ``observe``, puts operators into the plan that are planned, compiled
and run in every batch: a seventh of a small one. A task that is run again tells the same, in the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark import AccumulatorParam, TaskContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

#: Where Spark tells tasks the number of their batch (``MicroBatchExecution.BATCH_ID_KEY``).
_BATCH = "streaming.sql.batchId"


class Told(NamedTuple):
    """What a bucket says of one batch.

    Attributes:
        due: when its first timer is due, ms; 0 when it has none.
        diffs: diffs it gave.
        dead_letters: records it could not use.
        oldest: when its oldest record was appended to its topic, ms; None without records.
    """

    due: int
    diffs: int = 0
    dead_letters: int = 0
    oldest: int | None = None


#: ``{batch: {bucket: Told}}``.
_Batches = dict[int, dict[int, Told]]


class _Merge(AccumulatorParam[_Batches]):
    def zero(self, value: _Batches) -> _Batches:
        del value
        return {}

    def addInPlace(self, value1: _Batches, value2: _Batches) -> _Batches:  # noqa: N802 - Spark's name
        for batch, told in value2.items():
            value1.setdefault(batch, {}).update(told)
        return value1


class Tally:
    """Made by the driver, carried to the workers inside the operator."""

    def __init__(self, spark: SparkSession) -> None:
        self._batches = spark.sparkContext.accumulator({}, _Merge())

    def tell(self, bucket: int, told: Told) -> None:
        """In a worker: what ``bucket`` says of the batch whose task this is."""
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if batch is not None:
            self._batches.add({int(batch): {bucket: told}})

    def of(self, batch: int) -> Mapping[int, Told]:
        """In the driver: what every bucket said of a batch that has ended; it is forgotten with those before it."""
        batches: _Batches = self._batches.value
        for number in tuple(batches):  # a copy: tasks of the next batch may tell meanwhile, on another thread
            if number < batch:
                del batches[number]
        return batches.pop(batch, {})
