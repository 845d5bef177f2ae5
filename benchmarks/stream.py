"""Measures the stream's throughput, compared with plain Spark and plain Kafka clients: ``make bench-stream``.

One embedded broker, one Spark session, the same membership topic for all:

* (a) a stateless passthrough, Kafka to Kafka;
* (b) this project's job, without episodes and incidents;
* (c) a plain confluent-kafka loop that calls the same pure functions;
* (d) a stateful aggregation that never leaves the JVM;
* (e) this project's job with default settings, with episodes and incidents.

``ARGS="--events 1000000"`` is the size for the table in the docs and takes half an hour.
"""

import argparse
import statistics
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

from confluent_kafka import Consumer, Producer, TopicPartition

from assignors.partitioner import partition_for_key
from benchmarks._document import describe_machine, table, write_section
from benchmarks._stream_latency import checkpoint_growth, checkpoint_growth_text, latency, latency_table
from benchmarks._stream_load import events
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.clients import spark_options
from streaming.kafka.topics import ensure_topics
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import Event
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from streaming.spark import query as queries
from streaming.spark.operator import BucketReports
from streaming.spark.query import PRODUCER_OPTIONS
from streaming.spark.session import SessionOptions, session
from tests.support.topics import create_topic

PARTITIONS = 4
BUCKETS = 16
TICKS_PER_SECOND = 100
#: Uncounted first runs of each variant in a Spark session, while the JVM compiles.
WARM_UP_RUNS = 2


class StreamRun(NamedTuple):
    """The figures that the benchmark measured for one streaming query."""

    seconds: float
    cpu: float


class StreamBench:
    """The topics and Spark queries of the stream benchmark, on one broker."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.kafka = KafkaSettings(bootstrap_servers=bootstrap)
        self.settings = Settings(kafka=self.kafka, topics=TopicSettings(partitions=PARTITIONS, replication_factor=1))
        self.folder = folder
        ensure_topics(self.settings)
        topics = self.settings.topics
        names = (topics.membership, topics.diffs, topics.assignments, topics.dead_letters)
        self.sinks = Sinks(*names, dict.fromkeys(names, PARTITIONS))

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        """Create a topic of this name."""
        return create_topic(self.kafka.bootstrap_servers, name, partitions)

    def producer(self) -> Producer:
        """Return a Kafka producer that waits for 20 ms to fill its batches."""
        return Producer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "linger.ms": 20,
                "compression.type": "lz4",
                "log_level": 2,  # the broker ends before its producers do
            }
        )

    def send(self, producer: Producer, topic: str, event: Event) -> None:
        """Send one event to the partition of its key."""
        send_record(producer, topic, *codec.encode_event(event))

    def start_offsets(self, topic: str) -> list[TopicPartition]:
        """Return the start offsets for a consumer that reads the whole topic."""
        return [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]

    def source(self, spark: Any, topic: str, per_batch: int | None = None) -> Any:
        """Return a streaming DataFrame of a topic from its beginning; ``per_batch``: the most records in a batch."""
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        if per_batch:
            options["maxOffsetsPerTrigger"] = str(per_batch)
        return queries.source(spark, spark_options(self.kafka, {"fetch.max.wait.ms": "5"}) | options)

    def measured_queries(self, spark: Any, topic: str, output_topic: str) -> dict[str, tuple[Callable[[], Any], str]]:
        """Return each measured query by name, as a function that makes its rows, and its output mode."""
        ticks = f"ticks-{uuid.uuid4().hex[:6]}"

        def ours(*, with_episodes: bool = False) -> Any:
            tick_topic = f"{ticks}-{with_episodes}"
            self.topic(tick_topic, 1)
            return self.ours(spark, topic, tick_topic, output_topic, BUCKETS, with_episodes=with_episodes)

        def passthrough() -> Any:
            return self.source(spark, topic).selectExpr(
                f"'{output_topic}' AS topic", "key", "value", "headers", "partition"
            )

        def aggregation() -> Any:
            timestamp = "CAST(get_json_object(CAST(value AS string), '$.timestamp') AS bigint)"
            rows = self.source(spark, topic).selectExpr("key", f"{timestamp} AS stamp").groupBy("key")
            counts = rows.agg({"stamp": "max", "*": "count"})
            value = "CAST(to_json(named_struct('timestamp', `max(stamp)`, 'count', `count(1)`)) AS binary) AS value"
            return counts.selectExpr(f"'{output_topic}' AS topic", "key", value)

        return {
            "(a) passthrough": (passthrough, "append"),
            "(b) ours": (ours, "append"),
            "(d) JVM aggregation": (aggregation, "update"),
            "(e) ours, with episodes and incidents": (partial(ours, with_episodes=True), "append"),
        }

    def output_sinks(self, output_topic: str) -> Sinks:
        """Return the output topics of the job, with ``output_topic`` as the topic of diffs."""
        return self.sinks._replace(diffs=output_topic, partitions=self.sinks.partitions | {output_topic: PARTITIONS})

    def ours(
        self, spark: Any, topic: str, ticks: str, output_topic: str, buckets: int, *, with_episodes: bool = False
    ) -> Any:
        """Return the output rows of the Spark job; ``with_episodes``: also rows of episodes and incidents."""
        rows = self.source(spark, topic), self.source(spark, ticks)
        sinks = self.output_sinks(output_topic)
        if with_episodes:
            sinks = sinks._replace(episodes=output_topic, incidents=output_topic)
        return queries.writes(*rows, buckets, sinks, BucketReports(spark).accumulator)

    def start(self, rows: Any, mode: str, *, available_now: bool, checkpoint: Path | None = None) -> Any:
        """Start a Spark query that writes these rows to Kafka, with its own checkpoint."""
        writer = (
            rows.writeStream.format("kafka")
            .options(includeHeaders="true", **spark_options(self.kafka, PRODUCER_OPTIONS))
            .option("checkpointLocation", str(checkpoint or self.folder / uuid.uuid4().hex))
            .outputMode(mode)
        )
        return (writer.trigger(availableNow=True) if available_now else writer).start()


def send_record(producer: Producer, topic: str, key: bytes, value: bytes, headers: codec.Headers) -> None:
    """Send a record to the partition of its key; wait while the producer's queue is full."""
    while True:
        try:
            producer.produce(topic, key=key, value=value, headers=headers, partition=partition_for_key(key, PARTITIONS))
            break
        except BufferError:
            producer.poll(0.05)
    producer.poll(0)


def cpu_seconds(root: int) -> float:
    """Return the CPU time of a process and its descendants, including ended ones for which the parent has waited."""
    children: dict[int, list[int]] = {}
    seconds_by_process: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        seconds_by_process[pid] = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    total, queue = 0.0, [root]
    while queue:
        pid = queue.pop()
        total += seconds_by_process.get(pid, 0.0)
        queue += children.get(pid, [])
    return total


def throughput(bench: StreamBench, spark: Any, jvm: int, runs: int) -> dict[str, StreamRun]:
    """Run every measured Spark query over the whole topic; return the median of each query's runs after the warm-up."""
    measured: dict[str, list[StreamRun]] = {}
    for attempt in range(WARM_UP_RUNS + runs):
        output_topic = bench.topic(f"out-{uuid.uuid4().hex[:6]}")
        for name, (rows, mode) in bench.measured_queries(spark, bench.settings.topics.membership, output_topic).items():
            frame = rows()
            before, start = cpu_seconds(jvm), time.monotonic()
            query = bench.start(frame, mode, available_now=True)
            query.awaitTermination()
            run = StreamRun(time.monotonic() - start, cpu_seconds(jvm) - before)
            print(f"  run {attempt + 1}: {name}: {run.seconds:.1f} s, {run.cpu:.1f} CPU s", flush=True)
            if attempt >= WARM_UP_RUNS:
                measured.setdefault(name, []).append(run)
    return {name: StreamRun(*map(statistics.median, zip(*kept, strict=True))) for name, kept in measured.items()}


def plain_loop(bench: StreamBench) -> tuple[StreamRun, float]:
    """Measure the stream's computation in a Python process without Spark; also return the bytes of state per group."""
    topics = bench.settings.topics
    consumer = Consumer(
        {"bootstrap.servers": bench.kafka.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
    )
    start_offsets = bench.start_offsets(topics.membership)
    consumer.assign(start_offsets)
    producer, left = bench.producer(), sum(consumer.get_watermark_offsets(place)[1] for place in start_offsets)
    buckets = [Bucket() for _ in range(BUCKETS)]
    start, before = time.monotonic(), time.process_time()
    while left > 0:
        messages = consumer.consume(20_000, 1.0)
        left -= len(messages)
        parts: dict[int, list[Record]] = {}
        for message in messages:
            place = (message.partition(), message.offset())
            record = Record.of(*place, message.key(), message.value(), message.headers())
            parts.setdefault(crc32(record.key or b"") % BUCKETS, []).append(record)
        for number, records in parts.items():
            for write in process(buckets[number], records, 0, bench.sinks):
                producer.produce(
                    write.topic,
                    key=write.key,
                    value=write.value,
                    headers=list(write.headers),
                    partition=write.partition,
                )
            producer.poll(0)
    producer.flush()
    run = StreamRun(time.monotonic() - start, time.process_time() - before)
    consumer.close()
    return run, sum(len(bucket.pack()) for bucket in buckets) / sum(map(len, buckets))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--runs", type=int, default=3, help="number of measured runs of each variant")
    parser.add_argument("--write", action="store_true", help="write the table to docs/benchmarks.md")
    sizes = parser.parse_args()
    with EmbeddedBroker() as broker, TemporaryDirectory(prefix="bench-stream-") as folder:
        bench = StreamBench(broker.bootstrap_servers, Path(folder))
        producer = bench.producer()
        for event in events(sizes.events, sizes.groups):
            bench.send(producer, bench.settings.topics.membership, event)
        producer.flush()
        print(f"{sizes.events} events over {sizes.groups} groups are in the topic", flush=True)
        plain_run, state_bytes = plain_loop(bench)
        print(f"  (c) plain loop: {plain_run.seconds:.1f} s, {plain_run.cpu:.1f} CPU s", flush=True)
        with session(SessionOptions(log_file=Path(folder) / "spark.log")) as spark:
            jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - no public way to the JVM's pid
            runs = throughput(bench, spark, jvm, sizes.runs)
            waits = latency(bench, spark, sizes.seconds)
            growth = checkpoint_growth(bench, spark)
    runs["(c) plain loop, one process"] = plain_run
    text = "\n\n".join(
        (
            throughput_text(sizes.events, sizes.groups, runs),
            f"State: {state_bytes:,.0f} bytes a group of 20 members with 40 partitions.",
            latency_table(waits),
            checkpoint_growth_text(growth),
            (
                "What is aimed at: 0.65 of (a)'s events a second, 0.45 of its events per CPU second, 1.1 times\n"
                "(d)'s latency and 300 ms.\n"
                "Where the time goes: [design](design/stream.md)."
            ),
        )
    )
    print(text)
    if sizes.write:
        write_section("stream", text)


def throughput_text(count: int, groups: int, runs: dict[str, StreamRun]) -> str:
    """Return the throughput table, each variant relative to the stateless passthrough, and how it was measured."""
    base = runs["(a) passthrough"]
    rows = []
    for name, run in sorted(runs.items()):
        events_per_second, events_per_cpu_second = count / run.seconds, count / run.cpu
        ratios = base.seconds / run.seconds, base.cpu / run.cpu
        rows.append(
            [name, f"{events_per_second:,.0f}", f"{ratios[0]:.2f}", f"{events_per_cpu_second:,.0f}", f"{ratios[1]:.2f}"]
        )
    return (
        f"## Stream\n\n{describe_machine()}, embedded broker on the same machine; {count:,} events (90 % heartbeats "
        f"and repeats, 10 % changes) over {groups:,} groups of 20 members, seed 1; medians of the third run and later "
        "in one Spark session, rounds in Python.\n\n"
        + table(["variant", "events/s", "of (a)", "events per CPU second", "of (a)"], rows)
    )


if __name__ == "__main__":
    main()
