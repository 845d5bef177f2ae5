"""Measures the cost of episodes in the stream, for groups of 20 that all restart at once: ``make bench-episodes``.

First the job itself: one embedded broker, one Spark session, the same log with and without episodes in turns; the first
two runs of each are a warm-up. Then the pure part, without Kafka or Spark: as in the job, each batch unpacks its
buckets, applies its records and packs the buckets again.
"""

import argparse
import statistics
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

from benchmarks._stream_load import ASSIGNORS, MEMBERS, PARTITIONS, START_MS, TOPIC
from benchmarks.stream import WARM_UP_RUNS, StreamBench, StreamRun, cpu_seconds
from streaming.kafka.broker import EmbeddedBroker
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import Event, EventData, MemberJoined, MemberLeft, PartitionsChanged, TopicMetadata
from streaming.spark import query as queries
from streaming.spark.operator import BucketReports
from streaming.spark.session import SessionOptions, session

BUCKETS = 16
_OUTPUT_TOPICS = Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e"), 4))


class EpisodeCost(NamedTuple):
    """CPU time per event (µs) without and with episodes, and the relative throughput with episodes.

    All values are medians over the batches of all buckets.
    """

    without_episodes: float
    with_episodes_us: float
    ratio: float


def measure_cost(groups: int, per_batch: int) -> EpisodeCost:
    """Measure a rolling restart of every group; each batch has this many events of each group."""
    logs = [_restart_records(group) for group in range(groups)]
    setup_events, event_count = MEMBERS + 1, len(logs[0])
    packed_buckets: dict[tuple[str | None, int], bytes] = {}
    pairs_of_event_times: list[dict[str | None, float]] = []
    for start, end in (
        (0, setup_events),
        *((at, at + per_batch) for at in range(setup_events, event_count, per_batch)),
    ):
        records_by_bucket: dict[int, list[Record]] = {}
        for at in range(start, min(end, event_count)):
            for group_records in logs:
                records_by_bucket.setdefault(crc32(group_records[at].key or b"") % BUCKETS, []).append(
                    group_records[at]
                )
        for number, records in records_by_bucket.items():
            microseconds_by_variant: dict[str | None, float] = {}
            for sink in (None, "e") if number % 2 else ("e", None):
                begun = time.process_time()
                bucket = Bucket(packed_buckets.get((sink, number)))
                process(bucket, records, start, _OUTPUT_TOPICS._replace(episodes=sink))
                packed_buckets[sink, number] = bucket.pack()
                microseconds_by_variant[sink] = (time.process_time() - begun) / len(records) * 1e6
            if start:  # the first batch creates the groups
                pairs_of_event_times.append(microseconds_by_variant)
    median = statistics.median
    return EpisodeCost(
        median(microseconds_by_variant[None] for microseconds_by_variant in pairs_of_event_times),
        median(microseconds_by_variant["e"] for microseconds_by_variant in pairs_of_event_times),
        median(
            microseconds_by_variant[None] / microseconds_by_variant["e"]
            for microseconds_by_variant in pairs_of_event_times
        ),
    )


def _restart_records(group: int) -> list[Record]:
    return [
        Record.of(0, offset, *codec.encode_event(event)) for offset, event in enumerate(_rolling_restart_events(group))
    ]


def _rolling_restart_events(group: int) -> Iterator[Event]:
    """Return the events of a group whose members leave, one by one, and rejoin under a new member id."""
    now = START_MS

    def event(kind: type[EventData], **fields: object) -> Event:
        nonlocal now
        now += 1000
        return Event(f"/app/{group}", str(now), kind(group_id=f"group-{group:06d}", timestamp=now, **fields))

    def join(member: int, restarts: int) -> Event:
        return event(
            MemberJoined,
            member_id=f"consumer-{group:06d}-{member:04d}-{restarts}",
            client_id=f"app-{member}",
            client_host=f"/10.0.{group % 250}.{member}",
            topics=[TOPIC],
            assignors=ASSIGNORS[group % len(ASSIGNORS)],
        )

    yield event(PartitionsChanged, topics={TOPIC: TopicMetadata(partitions=PARTITIONS)})
    for member in range(MEMBERS):
        yield join(member, 0)
    now += 3_600_000
    for member in range(MEMBERS):
        yield event(MemberLeft, member_id=f"consumer-{group:06d}-{member:04d}-0", reason="the consumer is being closed")
        yield join(member, 1)


def measure_job(groups: int, per_batch: int, runs: int) -> dict[str | None, list[StreamRun]]:
    """Run the job over a rolling restart of every group; return the runs without (None) and with episodes."""
    runs_by_output: dict[str | None, list[StreamRun]] = {None: [], "episodes": []}
    with EmbeddedBroker() as broker, TemporaryDirectory(prefix="bench-episodes-") as folder:
        bench = StreamBench(broker.bootstrap_servers, Path(folder))
        producer, topic = bench.producer(), bench.settings.topics.membership
        restarts = [_rolling_restart_events(group) for group in range(groups)]
        for events in zip(*restarts, strict=True):
            for event in events:
                bench.send(producer, topic, event)
        producer.flush()
        with session(SessionOptions(log_file=Path(folder) / "spark.log")) as spark:
            jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - no public way to the JVM's pid
            for attempt in range(WARM_UP_RUNS + runs):
                for episodes in (None, "episodes") if attempt % 2 else ("episodes", None):
                    run = _run(bench, spark, jvm, episodes, groups * per_batch)
                    print(
                        f"  run {attempt + 1}, {'with' if episodes else 'without'} episodes: "
                        f"{run.seconds:.1f} s, {run.cpu:.1f} CPU s",
                        flush=True,
                    )
                    if attempt >= WARM_UP_RUNS:
                        runs_by_output[episodes].append(run)
    return runs_by_output


def _run(bench: StreamBench, spark: Any, jvm: int, episodes: str | None, per_batch: int) -> StreamRun:
    output_topic = bench.topic(f"out-{uuid.uuid4().hex[:6]}")
    ticks = bench.topic(f"ticks-{uuid.uuid4().hex[:6]}", 1)
    sinks = bench.output_sinks(output_topic)._replace(episodes=episodes and output_topic)
    logs = bench.source(spark, bench.settings.topics.membership, per_batch)
    group_records = queries.writes(logs, bench.source(spark, ticks), BUCKETS, sinks, BucketReports(spark).accumulator)
    before, start = cpu_seconds(jvm), time.monotonic()
    bench.start(group_records, "append", available_now=True).awaitTermination()
    return StreamRun(time.monotonic() - start, cpu_seconds(jvm) - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--per-batch", type=int, default=10, help="events of each group in a batch")
    parser.add_argument("--runs", type=int, default=5, help="number of measured runs of each variant")
    parser.add_argument("--pure", action="store_true", help="measure only the pure functions, without the Spark job")
    options = parser.parse_args()
    if not options.pure:
        runs = measure_job(options.groups, options.per_batch, options.runs)
        seconds, cpu = (
            {
                sink: statistics.median(getattr(run, measure) for run in output_runs)
                for sink, output_runs in runs.items()
            }
            for measure in ("seconds", "cpu")
        )
        print(
            f"the job, {options.groups} groups, {options.per_batch} events of each a batch, median of {options.runs}: "
            f"{seconds[None] / seconds['episodes']:.2f} of the events a second, "
            f"{cpu[None] / cpu['episodes']:.2f} of the events per CPU second without episodes"
        )
    without_episodes, with_episodes_us, ratio = measure_cost(options.groups, options.per_batch)
    print(
        f"the pure part: {without_episodes:.1f} us an event without episodes, {with_episodes_us:.1f} us with them: "
        f"{ratio:.2f} of the events"
    )


if __name__ == "__main__":
    main()
