"""Builds the Spark query: Kafka source and ticks → few columns → stateful operator per bucket → Kafka sink.

A tick becomes one row for each bucket, so that every bucket checks its session timeouts and reports its next timer.
The driver writes a tick when a timer is due; Spark's own timers would run empty batches without pause. An array of
structs is slow to transfer to Python, so the six headers that the codec writes become plain columns, and any other
headers become one string, for dead letters.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as f

from streaming.kafka.clients import spark_options
from streaming.records import codec
from streaming.records.codec import RECORD_BYTES_LIMIT
from streaming.spark.operator import OUTPUT_SCHEMA, STATE_SCHEMA, apply_bucket_batch
from streaming.spark.state import bucket_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import Accumulator
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from streaming.monitor.outputs import Sinks
    from streaming.settings.config import Settings
    from streaming.spark.start import StreamOptions

#: Properties of the Kafka source's consumers.
CONSUMER_OPTIONS = {
    "fetch.max.wait.ms": "5",
    # The collector publishes in transactions: records of an aborted transaction must not be read.
    "isolation.level": "read_committed",
    # Otherwise a broker could create a deleted topic again, with the broker's defaults.
    "allow.auto.create.topics": "false",
    # A request for offsets waits this long for a broker that has died (60 s by default); then Spark repeats the
    # request with a new client, which finds the new leader.
    "request.timeout.ms": "5000",
    "default.api.timeout.ms": "5000",
}
#: Properties of the sink's producer, which may create missing topics: the supervisor stops the query before that.
PRODUCER_OPTIONS = {
    "linger.ms": "0",
    "compression.type": "zstd",
    # A request to a broker that hangs ends after this time instead of the default of 30 s.
    "request.timeout.ms": "8000",
    # Records that are too long for their topic never reach the sink; the producer's limit must not be lower.
    "max.request.size": str(RECORD_BYTES_LIMIT),
    # A few diffs of a large group fill the default of 16 KiB, so a backlog would need too many requests.
    "batch.size": str(256 * 1024),
}


def source(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Return the membership topic as a stream; ``options`` are those of Spark's Kafka source."""
    return spark.readStream.format("kafka").options(includeHeaders="true", **options).load()


def ticks(records: DataFrame, buckets: int) -> DataFrame:
    """Return one row for each tick and bucket: ``bucket``, ``partition`` −1, ``offset``.

    Number columns are never null, because pandas would convert null numbers to floats.
    """
    return records.select(
        f.explode(_literal_array(bucket_numbers(buckets))).alias("bucket"), f.lit(-1).alias("partition"), "offset"
    )


def select_input(records: DataFrame, buckets: int) -> DataFrame:
    """Return the records as ``bucket`` and the operator's columns :data:`~streaming.spark.operator.INPUT`.

    If ``headers`` is null, the record has no headers. The CRC-32 of a group's key decides its bucket; it is the same in
    every version of Spark and Python. A record without a key becomes a dead letter; its partition decides its bucket.
    """
    place = f.pmod(f.coalesce(f.crc32("key"), "partition"), f.lit(buckets)).cast("int")
    headers = f.col("headers")
    usual = (
        (headers["key"] == _literal_array(codec.HEADER_NAMES))
        & (f.get(headers, f.lit(0))["value"] == f.lit(codec.SPEC_VERSION))
        & (f.get(headers, f.lit(5))["value"] == f.lit(codec.CONTENT_TYPE))
    )
    return records.select(
        f.get(_literal_array(bucket_numbers(buckets)), place).alias("bucket"),
        "partition",
        "offset",
        "key",
        "value",
        # For other headers these columns are meaningless: the operator uses `other_headers`.
        *(f.get(headers, f.lit(number))["value"].alias(codec.HEADER_NAMES[number]) for number in range(1, 5)),
        f.when(usual, None).otherwise(f.coalesce(f.to_json(headers), f.lit("[]"))).alias("other_headers"),
    )


def _literal_array(values: Sequence[int] | Sequence[str]) -> Column:
    """Return an array as one literal, because Spark would evaluate an expression of many literals in every batch."""
    return f.lit(np.array(values, dtype="int32" if isinstance(values[0], int) else None))


def writes(records: DataFrame, tick_df: DataFrame, buckets: int, sinks: Sinks, reports: Accumulator[Any]) -> DataFrame:
    """Return the rows that Spark writes to Kafka; ``reports`` collects the statistics of the buckets."""
    rows = (
        select_input(records, buckets)
        .unionByName(ticks(tick_df, buckets), allowMissingColumns=True)
        .groupBy("bucket")
        .applyInPandasWithState(
            partial(apply_bucket_batch, sinks, reports),
            OUTPUT_SCHEMA,
            STATE_SCHEMA,
            "append",
            # With Spark's timeouts, every task would run its worker twice.
            "NoTimeout",
        )
    )
    values = f.array(f.lit(codec.SPEC_VERSION), "ce_type", "ce_id", "ce_source", "ce_time", f.lit(codec.CONTENT_TYPE))
    usual = f.map_entries(f.map_from_arrays(_literal_array(codec.HEADER_NAMES), values))
    return rows.select("topic", "key", "value", f.coalesce("other_headers", usual).alias("headers"), "partition")


def sources(
    spark: SparkSession, settings: Settings, options: StreamOptions, sinks: Sinks, limit: int
) -> tuple[DataFrame, DataFrame]:
    """Return streaming data frames of the membership topic and of the topic of ticks.

    ``limit``: the most events in one batch.
    """
    kafka = spark_options(settings.kafka, CONSUMER_OPTIONS)
    # Partitions are assigned one by one, because the supervisor decides when new partitions are read.
    assigned = {sinks.membership: list(range(sinks.partitions[sinks.membership]))}
    membership = {**kafka, "assign": json.dumps(assigned), "startingOffsets": "earliest"}
    membership["maxOffsetsPerTrigger"] = str(limit)
    if options.on_data_loss == "continue":  # a start with "restart" reads all records again
        membership["failOnDataLoss"] = "false"
    # Old ticks are not needed, and are deleted soon.
    tick_options = {**kafka, "subscribe": settings.topics.ticks, "startingOffsets": "latest", "failOnDataLoss": "false"}
    return source(spark, membership), source(spark, tick_options)


def start(rows: DataFrame, settings: Settings, options: StreamOptions) -> StreamingQuery:
    """Start the query that writes ``rows`` to Kafka."""
    writer = (
        rows.writeStream.format("kafka")
        .options(includeHeaders="true", **spark_options(settings.kafka, PRODUCER_OPTIONS))
        .option("checkpointLocation", options.location)
        .queryName("rebalance-monitor")
        .outputMode("append")
    )
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    elif options.trigger_interval_ms is not None:
        writer = writer.trigger(processingTime=f"{options.trigger_interval_ms} milliseconds")
    return writer.start()
