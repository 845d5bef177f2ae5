"""The query: Kafka source + ticks → slim columns → stateful operator by bucket → Kafka sink.

A tick is a record in a topic of its own. It becomes one row a bucket, so that every bucket looks at its session
timeouts and reports its next one; the driver ticks when one is due (:mod:`streaming.spark.timers`). Spark's own way
to run timers without data would run empty batches without pause.

Only the JVM touches what Python does not need. Headers arrive as an array of structs, which is slow to carry to
Python; nearly all records have exactly the six headers that our codec writes, so those travel as plain columns
and any other set as one string, for dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as f

from streaming.spark.buckets import bucket_numbers
from streaming.spark.operator import OUTPUT_SCHEMA, STATE_SCHEMA, operator
from streaming.spark.rows import APPENDED
from streaming.wire import codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from streaming.monitor.envelope import Sinks
    from streaming.spark.tally import Tally


def source(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """The membership topic as a stream. ``options`` are those of Spark's Kafka source."""
    return spark.readStream.format("kafka").options(includeHeaders="true", **options).load()


def ticks(records: DataFrame, buckets: int) -> DataFrame:
    """One row a bucket for a batch with ticks: ``bucket``, ``partition`` −1 and ``offset``."""
    return records.select(
        f.explode(_array(bucket_numbers(buckets))).alias("bucket"), f.lit(-1).alias("partition"), "offset"
    )


def slim(records: DataFrame, buckets: int) -> DataFrame:
    """``bucket``, the operator's :data:`~streaming.spark.rows.INPUT`, and when a record was appended.

    ``headers`` null counts as none. A group's bucket is decided by the CRC-32 of its key: the same in every version
    of Spark and Python. A record without a key carries no state; it goes to a bucket by its partition, only to be
    dead-lettered.
    """
    place = f.pmod(f.coalesce(f.crc32("key"), "partition"), f.lit(buckets)).cast("int")
    headers = f.col("headers")
    usual = (
        (headers["key"] == _array(codec.HEADER_NAMES))
        & (f.get(headers, f.lit(0))["value"] == f.lit(codec.SPEC_VERSION))
        & (f.get(headers, f.lit(5))["value"] == f.lit(codec.CONTENT_TYPE))
    )
    return records.select(
        f.get(_array(bucket_numbers(buckets)), place).alias("bucket"),
        "partition",
        "offset",
        "key",
        "value",
        # Where the headers are not the usual ones, these are any: the operator takes what is in `other_headers`.
        *(f.get(headers, f.lit(number))["value"].alias(codec.HEADER_NAMES[number]) for number in range(1, 5)),
        f.when(usual, None).otherwise(f.coalesce(f.to_json(headers), f.lit("[]"))).alias("other_headers"),
        f.unix_millis("timestamp").alias(APPENDED),
    )


def _array(values: Sequence[int] | Sequence[str]) -> Column:
    """An array as one literal: Spark would fold an expression of many again in every batch."""
    return f.lit(np.array(values, dtype="int32" if isinstance(values[0], int) else None))


def writes(records: DataFrame, ticking: DataFrame, buckets: int, sinks: Sinks, tally: Tally) -> DataFrame:
    """Rows for the sink: topic, key, value, headers, partition. What the driver wants to know goes to ``tally``."""
    rows = (
        slim(records, buckets)
        .unionByName(ticks(ticking, buckets), allowMissingColumns=True)
        .groupBy("bucket")
        .applyInPandasWithState(
            operator(sinks, tally),
            OUTPUT_SCHEMA,
            STATE_SCHEMA,
            "append",
            # Spark's timeouts would run every task's worker twice.
            "NoTimeout",
        )
    )
    values = f.array(
        f.lit(codec.SPEC_VERSION), "ce_type", "ce_id", "ce_source", "ce_time", f.lit(codec.CONTENT_TYPE)
    )
    usual = f.map_entries(f.map_from_arrays(_array(codec.HEADER_NAMES), values))
    return rows.select(
        "topic", "key", "value", f.coalesce("other_headers", usual).alias("headers"), "partition"
    )
