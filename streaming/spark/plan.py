"""The query: Kafka source + ticks → slim columns → stateful operator by bucket → Kafka sink.

A tick is a record in a topic of its own. It becomes one row a bucket, so that every bucket looks at its session
timeouts and reports its next one; the driver ticks when one is due (:mod:`streaming.spark.clock`). Spark's own way
to run timers without data would run empty batches without pause.

Only the JVM touches what Python does not need. Headers arrive as an array of structs, which is slow to carry to
Python; nearly all records have exactly the six headers that our codec writes, so those travel as plain columns
and any other set as one string, for dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.spark.buckets import bucket_numbers
from streaming.spark.listener import ARRIVAL, OBSERVATION
from streaming.spark.operator import BATCH_MS, DUE, INPUT, OUTPUT_SCHEMA, STATE_SCHEMA, operator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.monitor.bucket import Sinks

_USUAL = (
    "headers.key = array('ce_specversion', 'ce_type', 'ce_id', 'ce_source', 'ce_time', 'content-type')"
    " AND get(headers, 0).value = encode('1.0', 'UTF-8')"
    " AND get(headers, 5).value = encode('application/json', 'UTF-8')"
    # A null value must come back as a null value.
    " AND get(headers, 1).value IS NOT NULL AND get(headers, 2).value IS NOT NULL"
    " AND get(headers, 3).value IS NOT NULL AND get(headers, 4).value IS NOT NULL"
)
_PACKED = (
    "array_join(transform(headers, h -> concat(base64(encode(h.key, 'UTF-8')), ':',"
    " CASE WHEN h.value IS NULL THEN '-' ELSE base64(h.value) END)), ',')"
)
#: Headers of what the operator gives: those that all our records have, around their values.
_HEADERS = (
    "CASE WHEN other_headers IS NULL THEN array("
    "struct('ce_specversion' AS key, encode('1.0', 'UTF-8') AS value), struct('ce_type' AS key, ce_type AS value), "
    "struct('ce_id' AS key, ce_id AS value), struct('ce_source' AS key, ce_source AS value), "
    "struct('ce_time' AS key, ce_time AS value), "
    "struct('content-type' AS key, encode('application/json', 'UTF-8') AS value)) ELSE other_headers END"
)


def _attribute(name: str, place: int) -> str:
    # Of unusual headers the operator finds it: expressions that are hardly ever used cost planning in every batch.
    return f"CASE WHEN usual THEN get(headers, {place}).value END AS ce_{name}"


def _numbers(buckets: int) -> str:
    return f"array({', '.join(map(str, bucket_numbers(buckets)))})"


def source(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """The membership topic as a stream. ``options`` are those of Spark's Kafka source."""
    return spark.readStream.format("kafka").options(includeHeaders="true", **options).load()


def ticks(records: DataFrame, buckets: int) -> DataFrame:
    """One row a bucket for a batch with ticks; ``partition`` −1 and nothing else in it."""
    nothing = {"partition": "-1", "offset": "0L", "other_headers": "CAST(NULL AS string)"}
    columns = [f"{nothing.get(name, 'CAST(NULL AS binary)')} AS {name}" for name in INPUT]
    return records.selectExpr(f"explode({_numbers(buckets)}) AS bucket", *columns)


def slim(records: DataFrame, buckets: int) -> DataFrame:
    """``bucket`` and the operator's :data:`~streaming.spark.operator.INPUT`; ``headers`` null counts as none.

    A group's bucket is decided by the CRC-32 of its key: the same in every version of Spark and Python. A record
    without a key carries no state; it goes to a bucket by its partition, only to be dead-lettered.
    """
    return (
        records.selectExpr(
            "partition",
            "offset",
            "key",
            "value",
            "coalesce(headers, array()) AS headers",
            f"({_USUAL}) AS usual",
        )
        .selectExpr(
            f"get({_numbers(buckets)}, CAST(pmod(coalesce(crc32(key), partition), {buckets}) AS int)) AS bucket",
            "partition",
            "offset",
            "key",
            "value",
            _attribute("type", 1),
            _attribute("id", 2),
            _attribute("source", 3),
            _attribute("time", 4),
            f"CASE WHEN usual THEN NULL ELSE {_PACKED} END AS other_headers",
        )
        .select("bucket", *INPUT)
    )


def writes(records: DataFrame, ticking: DataFrame, buckets: int, sinks: Sinks) -> DataFrame:
    """Rows for the sink: topic, key, value, headers, partition.

    What goes where is counted on the way, and each bucket's next deadline (``bucket:milliseconds``) goes no
    further: the observation :data:`~streaming.spark.listener.OBSERVATION`. The oldest record's time (ms) is
    :data:`~streaming.spark.listener.ARRIVAL`.
    """
    from pyspark.sql import functions as f

    arrived = records.observe(ARRIVAL, f.unix_millis(f.min("timestamp")).alias("oldest"))
    rows = (
        slim(arrived, buckets)
        .unionAll(ticks(ticking, buckets))
        # Spark keeps it in its offset log. Its own timeouts give it as well, but run every task's worker twice.
        .selectExpr("*", f"unix_millis(current_timestamp()) AS {BATCH_MS}")
        .groupBy("bucket")
        .applyInPandasWithState(
            operator(sinks),
            OUTPUT_SCHEMA,
            STATE_SCHEMA,
            "append",
            "NoTimeout",
        )
    )
    topic = f.col("topic")
    due = f.when(topic == DUE, f.concat(f.col("partition"), f.lit(":"), f.col("value").cast("string")))
    return (
        rows.observe(
            OBSERVATION,
            f.count_if(topic == sinks.diffs).alias("diffs"),
            f.count_if(topic == sinks.dead_letters).alias("deadLetters"),
            f.collect_list(due).alias("due"),
        )
        .where(topic != DUE)
        .selectExpr("topic", "key", "value", f"{_HEADERS} AS headers", "partition")
    )
