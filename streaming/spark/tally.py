"""What the buckets of a batch tell the driver, beside what they write to topics.

Through an accumulator of Spark's. Its own way, ``observe``, puts operators into the plan that are planned, compiled
and run in every batch: a seventh of a small one. A task that is run again tells the same, in the same place.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from pyspark import AccumulatorParam, TaskContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from streaming.spark.progress import Told

#: Where Spark tells tasks the number of their batch (``MicroBatchExecution.BATCH_ID_KEY``).
_BATCH = "streaming.sql.batchId"

#: ``(batch, bucket, what it tells)``. A deque may grow on one thread (pyspark's, in the driver) while another one
#: empties it.
_Lines = deque[tuple[int, int, "Told"]]


class _Append(AccumulatorParam[_Lines]):
    def zero(self, value: _Lines) -> _Lines:
        del value
        return deque()

    def addInPlace(self, value1: _Lines, value2: _Lines) -> _Lines:  # noqa: N802 - Spark's name
        value1.extend(value2)
        return value1


class Tally:
    """Made by the driver, carried to the workers inside the operator."""

    def __init__(self, spark: SparkSession) -> None:
        self._lines = spark.sparkContext.accumulator(deque(), _Append())

    def tell(self, bucket: int, told: Told) -> None:
        """In a worker: what ``bucket`` says of the batch whose task this is."""
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if batch is not None:
            self._lines.add(deque([(int(batch), bucket, told)]))


class Batches:
    """In the driver: what was told, batch by batch. Only the job's own thread uses it."""

    def __init__(self, tally: Tally) -> None:
        self._lines: _Lines = tally._lines.value  # noqa: SLF001 - the driver's half of it
        self._told: defaultdict[int, dict[int, Told]] = defaultdict(dict)

    def of(self, batch: int) -> Mapping[int, Told]:
        """What every bucket said of a batch that has ended; it is forgotten with those before it."""
        while self._lines:
            number, bucket, told = self._lines.popleft()
            self._told[number][bucket] = told
        for number in [number for number in self._told if number < batch]:
            del self._told[number]
        return self._told.pop(batch, {})
