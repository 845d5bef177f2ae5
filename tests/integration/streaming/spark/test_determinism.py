"""Diffs depend on the log alone: other batches, buckets and shuffle partitions of the job change no byte.

``make test-long`` runs the full size (``STREAM_EVENTS=100000``).
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from streaming.kafka.clients import spark_options
from streaming.spark import query as queries
from streaming.spark.operator import BucketReports
from streaming.spark.session import SessionOptions, session
from tests.support.histories import as_topic
from tests.support.kafka import Kafka
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, compacted, expected

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

EVENTS = int(os.environ.get("STREAM_EVENTS", "1500"))
GROUPS = max(11, EVENTS // 200)
FULL = EVENTS >= 100_000
#: Batch size limits, in proportion for a log shorter than the full one; None: no limit.
BOUNDS = (1000, 7777, None) if FULL else (EVENTS // 5, EVENTS // 3, None)
#: (maximum events per batch, buckets, shuffle partitions): each value differs.
VARIANTS = [(BOUNDS[0], 1, 1), (BOUNDS[2], 16, 2)]
#: Together with ``VARIANTS``, every value is combined with every value of each other parameter.
MORE = [
    (BOUNDS[1], 4, 2),
    (BOUNDS[0], 4, 2),
    (BOUNDS[0], 16, 1),
    (BOUNDS[1], 1, 2),
    (BOUNDS[1], 16, 1),
    (BOUNDS[2], 1, 1),
    (BOUNDS[2], 4, 1),
]


@pytest.mark.timeout(1800)
def test_batches_buckets_and_partitions_change_no_byte(broker: Kafka, tmp_path: Path) -> None:
    source = Job(broker, tmp_path)
    log = as_topic(membership_log(EVENTS, GROUPS, seed=11), 4)
    source.feed(log)
    kafka, names = source.settings.kafka, source.settings.topics
    wanted = expected(source, log)
    with session(SessionOptions(log_file=tmp_path / "spark.log")) as spark:
        for number, (bound, buckets, partitions) in enumerate([*VARIANTS, *(MORE if FULL else ())]):
            job = Job(broker, tmp_path / str(number))
            ticks = Job(broker, tmp_path).settings.topics.dead_letters  # an empty topic without group events
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            options = {
                "subscribe": names.membership,
                "startingOffsets": "earliest",
                **({} if bound is None else {"maxOffsetsPerTrigger": str(bound)}),
            }
            reports = BucketReports(spark)
            rows = queries.writes(
                queries.source(spark, spark_options(kafka) | options),
                queries.source(spark, spark_options(kafka) | {"subscribe": ticks}),
                buckets,
                job.sinks._replace(membership=names.membership),
                reports.accumulator,
            )
            query = (
                rows.writeStream.format("kafka")
                .options(includeHeaders="true", **spark_options(kafka))
                .option("checkpointLocation", str(job.checkpoint))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            buckets_of = [reports.of_batch(batch) for batch in range(query.lastProgress["batchId"] + 1)]
            batch_reports = [report for batch in buckets_of for report in batch.values()]
            batches = len([batch for batch in query.recentProgress if batch.numInputRows])
            topics = job.settings.topics
            variant = f"{bound or 'all'} events a batch, {buckets} buckets, {partitions} partitions"
            logger.info("%s: %d batches, %d diffs", variant, batches, job.count(topics.diffs))
            assert (batches > 1) == (bound is not None), variant
            assert job.rows(topics.diffs) == wanted[names.diffs], variant
            assert compacted(job.rows(topics.assignments)) == wanted[names.assignments], variant
            assert compacted(job.rows(topics.episodes)) == wanted[names.episodes], variant
            assert compacted(job.rows(topics.incidents)) == wanted[names.incidents], variant
            assert job.rows(topics.dead_letters) == wanted[names.dead_letters], variant
            assert sum(report.diffs for report in batch_reports) == job.count(topics.diffs), variant
            assert sum(report.dead_letters for report in batch_reports) == job.count(topics.dead_letters), variant
