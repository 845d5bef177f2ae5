"""The stream beside what Spark and Kafka cost without us: ``make bench-stream``.

One embedded broker, one Spark session, the same membership topic for all:

* (a) a stateless passthrough, Kafka to Kafka;
* (b) ours;
* (c) a plain confluent-kafka loop that calls the same pure functions;
* (d) a stateful aggregation that never leaves the JVM.

``ARGS="--events 1000000 --groups 1000 --seconds 30"`` are the sizes of the table in the docs.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from assignors.partitioner import partition_for_key
from benchmarks._document import put
from benchmarks._stream_load import events
from benchmarks._stream_state import state, state_table
from streaming import codec
from streaming.config import KafkaSettings, Settings, TopicSettings
from streaming.events import Event, MemberJoined, MemberLeft, PartitionsChanged, TopicMetadata
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.clients import spark_options
from streaming.kafka.topics import ensure_topics
from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import Record, Sinks, process
from streaming.monitor.tracked import Group
from streaming.spark import plan
from streaming.spark.job import PRODUCE
from streaming.spark.session import SessionOptions, session
from streaming.spark.tally import Tally

PARTITIONS = 4
BUCKETS = 16
TICKS_PER_SECOND = 100
#: A small batch runs code that the JVM compiles late: it takes two thirds of the time after some hundred of them,
#: and the job runs for months.
WARM_SECONDS = 60.0


class Run(NamedTuple):
    """One variant's figures."""

    seconds: float
    cpu: float
    phases: dict[str, int]


class Bench:
    """The broker's topics and the way to run a query over them."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.kafka = KafkaSettings(bootstrap_servers=bootstrap)
        self.settings = Settings(
            kafka=self.kafka, topics=TopicSettings(partitions=PARTITIONS, replication_factor=1)
        )
        self.folder = folder
        ensure_topics(self.settings)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = self.settings.topics
        names = (topics.membership, topics.diffs, topics.assignments, topics.dead_letters)
        self.sinks = Sinks(*names, dict.fromkeys(names, PARTITIONS))

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        """A new topic of that name."""
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        return name

    def producer(self) -> Producer:
        """A producer that fills its batches."""
        return Producer(
            {"bootstrap.servers": self.kafka.bootstrap_servers, "linger.ms": 20, "compression.type": "lz4"}
        )

    def send(self, producer: Producer, topic: str, event: Event) -> None:
        """One event with the partition of its key, waiting while the queue is full."""
        key, value, headers = codec.encode_event(event)
        while True:
            try:
                producer.produce(
                    topic, key=key, value=value, headers=headers, partition=partition_for_key(key, PARTITIONS)
                )
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)

    def source(self, spark: Any, topic: str) -> Any:
        """The topic's rows from its beginning."""
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        return plan.source(spark, spark_options(self.kafka, {"fetch.max.wait.ms": "5"}) | options)

    def frames(self, spark: Any, topic: str, out: str) -> dict[str, tuple[Callable[[], Any], str]]:
        """The queries' rows and output modes by name."""
        ticks = f"ticks-{uuid.uuid4().hex[:6]}"

        def ours() -> Any:
            self.topic(ticks, 1)
            return self.ours(spark, topic, ticks, out, BUCKETS)

        def passthrough() -> Any:
            return self.source(spark, topic).selectExpr(
                f"'{out}' AS topic", "key", "value", "headers", "partition"
            )

        def aggregation() -> Any:
            stamp = "CAST(get_json_object(CAST(value AS string), '$.timestamp') AS bigint)"
            rows = self.source(spark, topic).selectExpr("key", f"{stamp} AS stamp").groupBy("key")
            counted = rows.agg({"stamp": "max", "*": "count"})
            value = "CAST(to_json(named_struct('timestamp', `max(stamp)`, 'count', `count(1)`)) AS binary) AS value"
            return counted.selectExpr(f"'{out}' AS topic", "key", value)

        return {
            "(a) passthrough": (passthrough, "append"),
            "(b) ours": (ours, "append"),
            "(d) JVM aggregation": (aggregation, "update"),
        }

    def ours(self, spark: Any, topic: str, ticks: str, out: str, buckets: int) -> Any:
        """The job's rows."""
        sinks = self.sinks._replace(diffs=out, partitions=self.sinks.partitions | {out: PARTITIONS})
        return plan.writes(self.source(spark, topic), self.source(spark, ticks), buckets, sinks, Tally(spark))

    def start(self, rows: Any, mode: str, *, available_now: bool, checkpoint: Path | None = None) -> Any:
        """A running query that writes the rows, with a checkpoint of its own."""
        writer = (
            rows.writeStream.format("kafka")
            .options(includeHeaders="true", **spark_options(self.kafka, PRODUCE))
            .option("checkpointLocation", str(checkpoint or self.folder / uuid.uuid4().hex))
            .outputMode(mode)
        )
        return (writer.trigger(availableNow=True) if available_now else writer).start()


def cpu_seconds(root: int) -> float:
    """CPU time of a process and all below it, those that ended included where their parent waited."""
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        spent[pid] = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    total, queue = 0.0, [root]
    while queue:
        pid = queue.pop()
        total += spent.get(pid, 0.0)
        queue += children.get(pid, [])
    return total


def throughput(bench: Bench, spark: Any, jvm: int) -> dict[str, Run]:
    """Every Spark variant over the whole topic; the first round of each warms it up."""
    found: dict[str, Run] = {}
    for attempt in range(2):
        out = bench.topic(f"out-{uuid.uuid4().hex[:6]}")
        for name, (rows, mode) in bench.frames(spark, bench.settings.topics.membership, out).items():
            frame = rows()
            before, start = cpu_seconds(jvm), time.monotonic()
            query = bench.start(frame, mode, available_now=True)
            query.awaitTermination()
            run = Run(time.monotonic() - start, cpu_seconds(jvm) - before, _phases(query))
            print(f"  round {attempt + 1}: {name}: {run.seconds:.1f} s, {run.cpu:.1f} CPU s", flush=True)
            found[name] = run
    return found


def _phases(query: Any) -> dict[str, int]:
    progress = [json.loads(item.json) for item in query.recentProgress if item.numInputRows]
    names = ("triggerExecution", "addBatch", "queryPlanning", "latestOffset", "walCommit", "commitOffsets")
    return {
        name: round(statistics.median([item["durationMs"].get(name, 0) for item in progress]))
        if progress
        else 0
        for name in names
    }


def plain_loop(bench: Bench) -> Run:
    """(c): consume, decide, produce, in one Python process."""
    topics = bench.settings.topics
    consumer = Consumer(
        {"bootstrap.servers": bench.kafka.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
    )
    ends = {}
    for number in range(PARTITIONS):
        ends[number] = consumer.get_watermark_offsets(TopicPartition(topics.membership, number))[1]
    consumer.assign([TopicPartition(topics.membership, number, 0) for number in ends])
    producer, left = bench.producer(), sum(ends.values())
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
    run = Run(time.monotonic() - start, time.process_time() - before, {})
    consumer.close()
    size = sum(len(bucket.pack()) for bucket in buckets)
    return run._replace(phases={"state": size, "groups": sum(map(len, buckets))})


@contextmanager
def changes(bench: Bench, topic: str, per_second: int) -> Iterator[None]:
    """A thread that changes one group again and again: one member comes and goes."""
    stop = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": bench.kafka.bootstrap_servers, "linger.ms": 0})
        number, at = 0, time.monotonic()
        counts = {"orders": TopicMetadata(partitions=40)}

        def now() -> int:
            return int(time.time() * 1000)

        bench.send(
            producer, topic, Event("l", "t", PartitionsChanged(group_id="l", timestamp=now(), topics=counts))
        )
        for member in range(20):
            joined = MemberJoined(group_id="l", timestamp=now(), member_id=f"m{member}", topics=["orders"])
            bench.send(producer, topic, Event("l", f"m{member}", joined))
        while not stop.is_set():
            number += 1
            data = (
                MemberJoined(group_id="l", timestamp=now(), member_id="x", topics=["orders"])
                if number % 2
                else MemberLeft(group_id="l", timestamp=now(), member_id="x")
            )
            bench.send(producer, topic, Event("l", str(number), data))
            producer.flush()
            at += 1 / per_second
            stop.wait(max(0.0, at - time.monotonic()))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def latency(bench: Bench, spark: Any, seconds: float) -> dict[str, tuple[float, float, dict[str, int]]]:
    """Median and 95th percentile from event to readable output at 10 events a second, ms, by variant."""
    found = {}
    for name in ("(a) passthrough", "(b) ours", "(d) JVM aggregation"):
        topic = bench.topic(f"in-{uuid.uuid4().hex[:6]}")
        out = bench.topic(f"out-{uuid.uuid4().hex[:6]}")
        rows, mode = bench.frames(spark, topic, out)[name]
        query = bench.start(rows(), mode, available_now=False)
        with changes(bench, topic, 10):
            waits = _listen(bench, out, warm=WARM_SECONDS, seconds=seconds)
        phases = _phases(query)
        query.stop()
        found[name] = (statistics.median(waits), statistics.quantiles(waits, n=20)[-1], phases)
        print(f"  {name}: p50 {found[name][0]:.0f} ms, p95 {found[name][1]:.0f} ms, {phases}", flush=True)
    return found


def _listen(bench: Bench, topic: str, *, warm: float, seconds: float) -> list[float]:
    consumer = Consumer(
        {
            "bootstrap.servers": bench.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "fetch.wait.max.ms": 5,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    waits: list[float] = []
    start = time.monotonic()
    while time.monotonic() < start + warm + seconds:
        message = consumer.poll(0.2)
        if message is None or message.error() is not None or time.monotonic() < start + warm:
            continue
        waits.append(time.time() * 1000 - json.loads(message.value())["timestamp"])
    consumer.close()
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--state-groups", type=int, default=20_000)
    parser.add_argument("--buckets", type=int, default=256, help="of the state's comparison")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    sizes = parser.parse_args()
    with EmbeddedBroker() as broker, TemporaryDirectory(prefix="bench-stream-") as folder:
        bench = Bench(broker.bootstrap_servers, Path(folder))
        producer = bench.producer()
        for event in events(sizes.events, sizes.groups):
            bench.send(producer, bench.settings.topics.membership, event)
        producer.flush()
        print(f"{sizes.events} events over {sizes.groups} groups are in the topic", flush=True)
        plain = plain_loop(bench)
        print(f"  (c) plain loop: {plain.seconds:.1f} s, {plain.cpu:.1f} CPU s", flush=True)
        with session(SessionOptions(log_file=Path(folder) / "spark.log")) as spark:
            jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - no public way to the JVM's pid
            runs = throughput(bench, spark, jvm)
            waits = latency(bench, spark, sizes.seconds)
            kept = [state(bench, spark, number, sizes.buckets) for number in (100, sizes.state_groups)]
    runs["(c) plain loop, one process"] = plain
    text = table(sizes.events, sizes.groups, runs, waits, plain.phases["state"] / plain.phases["groups"])
    text += "\n\n" + state_table(kept)
    print(text)
    if sizes.write:
        put("stream", text)


def table(
    count: int,
    groups: int,
    runs: dict[str, Run],
    waits: dict[str, tuple[float, float, dict[str, int]]],
    state: float,
) -> str:
    base = runs["(a) passthrough"]
    lines = [
        "## Stream",
        "",
        (
            f"{platform.system()} {platform.machine()}, 2 cores, Python {platform.python_version()}, embedded "
            f"broker on the same machine; {count:,} events (90 % heartbeats and repeats, 10 % changes) over "
            f"{groups:,} groups of 20 members, seed 1; the second run of each in one warm Spark session, "
            f"rounds {'in native code' if Group is not None else 'in Python'}. "
            f"Latency after {WARM_SECONDS:.0f} s of that load."
        ),
        "",
        "| variant | events/s | of (a) | events per CPU second | of (a) |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, run in sorted(runs.items()):
        speed, thrift = count / run.seconds, count / run.cpu
        ratios = base.seconds / run.seconds, base.cpu / run.cpu
        lines.append(f"| {name} | {speed:,.0f} | {ratios[0]:.2f} | {thrift:,.0f} | {ratios[1]:.2f} |")
    lines += [
        "",
        (
            "| event to readable output, 10 events/s | p50 ms | p95 ms | batch | addBatch | planning "
            "| latestOffset | WAL | commit |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, (middle, high, phases) in sorted(waits.items()):
        parts = " | ".join(str(value) for value in phases.values())
        lines.append(f"| {name} | {middle:.0f} | {high:.0f} | {parts} |")
    lines += [
        "",
        f"State: {state:,.0f} bytes a group of 20 members with 40 partitions.",
        "",
        "What is aimed at: 0.7 of (a)'s events a second, half of its events per CPU second, 1.3 times (d)'s",
        "latency and 300 ms, 1.5 times the batch of 100 groups with 100,000.",
        "Where the time goes: [design](design/stream.md).",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
