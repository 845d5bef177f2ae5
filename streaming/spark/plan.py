"""The query: Kafka source + ticks → slim columns → stateful operator by bucket → Kafka sink.

A tick a second makes a batch run when nothing arrives, so that session timeouts are found on time; Spark's own
way (no-data batches) would run empty batches without pause.

Only the JVM touches what Python does not need. Headers arrive as an array of structs, which is slow to carry to
Python; nearly all records have exactly the six headers that our codec writes, so those travel as plain columns
and any other set as one string, for dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.spark.listener import OBSERVATION
from streaming.spark.operator import INPUT, OUTPUT_SCHEMA, STATE_SCHEMA, operator

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


def _attribute(name: str, place: int) -> str:
    # The last of several counts, as in codec.ce_attributes.
    return (
        f"CASE WHEN usual THEN get(headers, {place}).value"
        f" ELSE try_element_at(filter(headers, h -> h.key = 'ce_{name}'), -1).value END AS ce_{name}"
    )


def source(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """The membership topic as a stream. ``options`` are those of Spark's Kafka source."""
    return spark.readStream.format("kafka").options(includeHeaders="true", **options).load()


def ticks(spark: SparkSession) -> DataFrame:
    """No rows, but a batch a second; the columns of :func:`slim`."""
    nothing = ("int", "int", "bigint", *["binary"] * 6, "string")
    columns = [
        f"CAST(NULL AS {kind}) AS {name}" for kind, name in zip(nothing, ("bucket", *INPUT), strict=True)
    ]
    rate = spark.readStream.format("rate").options(rowsPerSecond="1", numPartitions="1").load()
    # Not `false`: the optimizer would cut the source out of the batch.
    return rate.where("value < 0").selectExpr(*columns)


def slim(records: DataFrame, buckets: int) -> DataFrame:
    """``bucket`` and the operator's :data:`~streaming.spark.operator.INPUT`; ``headers`` null counts as none.

    A group's bucket is the CRC-32 of its key: the same in every version of Spark and Python. A record without a
    key carries no state; it goes to a bucket by its partition, only to be dead-lettered.
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
            f"CAST(pmod(coalesce(crc32(key), partition), {buckets}) AS int) AS bucket",
            "partition",
            "offset",
            "key",
            "value",
            _attribute("type", 1),
            _attribute("id", 2),
            _attribute("source", 3),
            "CASE WHEN usual THEN get(headers, 4).value END AS ce_time",
            f"CASE WHEN usual THEN NULL ELSE {_PACKED} END AS other_headers",
        )
        .select("bucket", *INPUT)
    )


def writes(records: DataFrame, ticking: DataFrame, buckets: int, sinks: Sinks) -> DataFrame:
    """Rows for the sink: topic, key, value, headers, partition."""
    return (
        slim(records, buckets)
        .unionAll(ticking)
        .groupBy("bucket")
        .applyInPandasWithState(
            operator(sinks), OUTPUT_SCHEMA, STATE_SCHEMA, "append", "ProcessingTimeTimeout"
        )
    )


def counted(rows: DataFrame, sinks: Sinks) -> DataFrame:
    """The same rows; what goes where is counted on the way, for the metrics."""
    from pyspark.sql import functions as f

    return rows.observe(
        OBSERVATION,
        f.count_if(f.col("topic") == sinks.diffs).alias("diffs"),
        f.count_if(f.col("topic") == sinks.dead_letters).alias("deadLetters"),
    )
