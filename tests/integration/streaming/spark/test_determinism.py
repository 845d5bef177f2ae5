"""Diffs depend on the log alone: other batches, buckets and shuffle partitions of the job change no byte.

``make test-long`` runs the full size (``STREAM_EVENTS=100000``).
"""

import logging
import os
from pathlib import Path

import pytest

from streaming.kafka.clients import spark_options
from streaming.spark import query as queries
from streaming.spark.operator import BucketReports
from streaming.spark.session import SessionOptions, session
from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, newest_records_by_key

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

EVENT_COUNT = int(os.environ.get("STREAM_EVENTS", "1500"))
GROUPS = max(11, EVENT_COUNT // 200)
HAS_FULL_EVENT_COUNT = EVENT_COUNT >= 100_000
#: Batch size limits, in proportion for a log shorter than the full one; None: no limit.
BATCH_LIMITS = (1000, 7777, None) if HAS_FULL_EVENT_COUNT else (EVENT_COUNT // 5, EVENT_COUNT // 3, None)
#: (maximum events per batch, buckets, shuffle partitions): each value differs.
FIRST_VARIANTS = [(BATCH_LIMITS[0], 1, 1), (BATCH_LIMITS[2], 16, 2)]
#: Together with ``FIRST_VARIANTS``, every value is combined with every value of each other parameter.
OTHER_VARIANTS = [
    (BATCH_LIMITS[1], 4, 2),
    (BATCH_LIMITS[0], 4, 2),
    (BATCH_LIMITS[0], 16, 1),
    (BATCH_LIMITS[1], 1, 2),
    (BATCH_LIMITS[1], 16, 1),
    (BATCH_LIMITS[2], 1, 1),
    (BATCH_LIMITS[2], 4, 1),
]


@pytest.mark.timeout(1800)
def test_batches_buckets_and_partitions_change_no_byte(broker: Kafka, tmp_path: Path) -> None:
    source = Job(broker, tmp_path)
    log = log_by_partition(membership_log(EVENT_COUNT, GROUPS, seed=11), 4)
    source.feed(log)
    kafka, names = source.settings.kafka, source.settings.topics
    wanted = expected(source, log)
    with session(SessionOptions(log_file=tmp_path / "spark.log")) as spark:
        for number, (bound, buckets, partitions) in enumerate(
            [*FIRST_VARIANTS, *(OTHER_VARIANTS if HAS_FULL_EVENT_COUNT else ())]
        ):
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
            buckets_of = [reports.reports_of_batch(batch) for batch in range(query.lastProgress["batchId"] + 1)]
            batch_reports = [report for batch in buckets_of for report in batch.values()]
            batch_count = len([batch for batch in query.recentProgress if batch.numInputRows])
            topics = job.settings.topics
            variant = f"{bound or 'all'} events a batch, {buckets} buckets, {partitions} partitions"
            logger.info("%s: %d batches, %d diffs", variant, batch_count, job.count(topics.diffs))
            assert (batch_count > 1) == (bound is not None), variant
            assert job.rows(topics.diffs) == wanted[names.diffs], variant
            assert newest_records_by_key(job.rows(topics.assignments)) == wanted[names.assignments], variant
            assert newest_records_by_key(job.rows(topics.episodes)) == wanted[names.episodes], variant
            assert newest_records_by_key(job.rows(topics.incidents)) == wanted[names.incidents], variant
            assert job.rows(topics.dead_letters) == wanted[names.dead_letters], variant
            assert sum(report.diffs for report in batch_reports) == job.count(topics.diffs), variant
            assert sum(report.dead_letters for report in batch_reports) == job.count(topics.dead_letters), variant
