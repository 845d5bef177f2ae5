"""The query, started with the numbers of the moment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from streaming.kafka.clients import spark_options
from streaming.spark import plan
from streaming.spark.pieces import PIECE
from streaming.wire.codec import LONGEST_RECORD_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from streaming.monitor.envelope import Sinks
    from streaming.settings.config import Settings
    from streaming.spark.options import StreamOptions

#: The source's consumers.
CONSUME = {
    "fetch.max.wait.ms": "5",
    # The collector publishes in transactions: what it gave up must not be read.
    "isolation.level": "read_committed",
    # A topic that was deleted must not come back with the broker's defaults.
    "allow.auto.create.topics": "false",
}
#: The sink's producer. It can't be told not to make topics: the supervisor stops the query when one is gone.
PRODUCE = {
    "linger.ms": "0",
    # What is longer than its topic takes never comes here: the producer's own limit must not be lower.
    "max.request.size": str(LONGEST_RECORD_BYTES),
    # A diff of a large group fills the usual 16 KiB at once: a backlog would be a request a handful of records.
    "batch.size": str(256 * 1024),
}


def sources(
    spark: SparkSession, settings: Settings, options: StreamOptions, sinks: Sinks, bound: int | None
) -> tuple[DataFrame, DataFrame]:
    """The membership topic, in the partitions that ``sinks`` counts, and the ticks.

    ``bound``: the most events in one batch; None for no bound.
    """
    kafka = spark_options(settings.kafka, CONSUME)
    # Named one by one: when there are more, the supervisor says when they may be read.
    assigned = {sinks.membership: list(range(sinks.partitions[sinks.membership]))}
    membership = {**kafka, "assign": json.dumps(assigned), "startingOffsets": "earliest"}
    if options.on_data_loss == "continue":  # a start with "restart" reads all again
        membership["failOnDataLoss"] = "false"
    if bound is not None:
        membership["maxOffsetsPerTrigger"] = str(bound)
    # Old ticks are worth nothing and soon deleted.
    ticks = {
        **kafka,
        "subscribe": settings.topics.ticks,
        "startingOffsets": "latest",
        "failOnDataLoss": "false",
    }
    return plan.source(spark, membership), plan.source(spark, ticks)


def start(rows: DataFrame, settings: Settings, options: StreamOptions, piece: int) -> StreamingQuery:
    """Start the query that writes ``rows`` to Kafka; so many at a time go to Python, unless ``options`` say it."""
    if PIECE not in dict(options.session.conf):
        rows.sparkSession.conf.set(PIECE, piece)
    writer = (
        rows.writeStream.format("kafka")
        .options(includeHeaders="true", **spark_options(settings.kafka, PRODUCE))
        .option("checkpointLocation", options.location)
        .queryName("rebalance-monitor")
        .outputMode("append")
    )
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    elif options.trigger_interval is not None:
        writer = writer.trigger(processingTime=options.trigger_interval)
    return writer.start()
