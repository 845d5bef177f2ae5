"""Measures the cost of episodes in the stream, for groups of 20 that all restart at once: ``make bench-episodes``.

First the job itself: one embedded broker, one Spark session, the same log with and without episodes in turns; the first
two runs of each are a warm-up. Then the pure part, without Kafka or Spark: as in the job, each batch unpacks its
buckets, applies its records and packs the buckets again.
"""

from __future__ import annotations

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
from benchmarks.stream import WARM_UP_RUNS, Bench, StreamRun, cpu_seconds
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
_SINKS = Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e"), 4))


class Cost(NamedTuple):
    """CPU time per event (µs) without and with episodes, and the relative throughput with episodes.

    All values are medians over the batches of all buckets.
    """

    without: float
    with_episodes: float
    ratio: float


def cost(groups: int, per_batch: int) -> Cost:
    """Measure a rolling restart of every group; each batch has this many events of each group."""
    log = [_restart_records(group) for group in range(groups)]
    setup, length = MEMBERS + 1, len(log[0])
    blobs: dict[tuple[str | None, int], bytes] = {}
    pairs: list[dict[str | None, float]] = []
    for start, end in ((0, setup), *((at, at + per_batch) for at in range(setup, length, per_batch))):
        parts: dict[int, list[Record]] = {}
        for at in range(start, min(end, length)):
            for rows in log:
                parts.setdefault(crc32(rows[at].key or b"") % BUCKETS, []).append(rows[at])
        for number, records in parts.items():
            pair: dict[str | None, float] = {}
            for side in (None, "e") if number % 2 else ("e", None):
                begun = time.process_time()
                bucket = Bucket(blobs.get((side, number)))
                process(bucket, records, start, _SINKS._replace(episodes=side))
                blobs[side, number] = bucket.pack()
                pair[side] = (time.process_time() - begun) / len(records) * 1e6
            if start:  # the first batch creates the groups
                pairs.append(pair)
    median = statistics.median
    return Cost(
        median(pair[None] for pair in pairs),
        median(pair["e"] for pair in pairs),
        median(pair[None] / pair["e"] for pair in pairs),
    )


def _restart_records(group: int) -> list[Record]:
    return [Record.of(0, offset, *codec.encode_event(event)) for offset, event in enumerate(_restarting(group))]


def _restarting(group: int) -> Iterator[Event]:
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
    runs_by_side: dict[str | None, list[StreamRun]] = {None: [], "episodes": []}
    with EmbeddedBroker() as broker, TemporaryDirectory(prefix="bench-episodes-") as folder:
        bench = Bench(broker.bootstrap_servers, Path(folder))
        producer, topic = bench.producer(), bench.settings.topics.membership
        restarts = [_restarting(group) for group in range(groups)]
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
                        runs_by_side[episodes].append(run)
    return runs_by_side


def _run(bench: Bench, spark: Any, jvm: int, episodes: str | None, per_batch: int) -> StreamRun:
    out = bench.topic(f"out-{uuid.uuid4().hex[:6]}")
    ticks = bench.topic(f"ticks-{uuid.uuid4().hex[:6]}", 1)
    sinks = bench.sinks_to(out)._replace(episodes=episodes and out)
    log = bench.source(spark, bench.settings.topics.membership, per_batch)
    rows = queries.writes(log, bench.source(spark, ticks), BUCKETS, sinks, BucketReports(spark).accumulator)
    before, start = cpu_seconds(jvm), time.monotonic()
    bench.start(rows, "append", available_now=True).awaitTermination()
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
            {side: statistics.median(getattr(run, what) for run in side_runs) for side, side_runs in runs.items()}
            for what in ("seconds", "cpu")
        )
        print(
            f"the job, {options.groups} groups, {options.per_batch} events of each a batch, median of {options.runs}: "
            f"{seconds[None] / seconds['episodes']:.2f} of the events a second, "
            f"{cpu[None] / cpu['episodes']:.2f} of the events per CPU second without episodes"
        )
    without, with_episodes, ratio = cost(options.groups, options.per_batch)
    print(
        f"the pure part: {without:.1f} us an event without episodes, {with_episodes:.1f} us with them: "
        f"{ratio:.2f} of the events"
    )


if __name__ == "__main__":
    main()
