"""Measures the time from an event to its readable diff, and the growth of the checkpoint (``make bench-stream``)."""

import json
import statistics
import threading
import time
import uuid
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, Producer

from benchmarks._document import table
from streaming.records.events import Event, MemberJoined, MemberLeft, PartitionsChanged, TopicMetadata
from tests.support.background import run_in_background
from tests.support.disks import folder_bytes

if TYPE_CHECKING:
    from benchmarks.stream import StreamBench

EVENTS_PER_SECOND = 10
#: The JVM compiles the code for small batches late, in all variants alike, but a real job runs for months. Therefore
#: the variants take turns, and the first turn is not counted.
LATENCY_RUNS = 5
FIRST_RUN_WARM_UP_SECONDS = 60.0
LATER_RUN_WARM_UP_SECONDS = 10.0
CHECKPOINT_GROWTH_SECONDS = 300.0


class LatencyRuns(NamedTuple):
    """The measured latencies of one variant of the stream.

    Attributes:
        runs: ms from event to readable output, by run.
        phases: median duration of each phase of a batch in the last run, ms.
    """

    runs: list[list[float]]
    phases: dict[str, int]


def membership_changes(bench: "StreamBench", topic: str) -> AbstractContextManager[None]:
    """Run a thread in which one member of a group leaves and rejoins repeatedly."""

    def send(stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": bench.kafka.bootstrap_servers, "linger.ms": 0})
        number, at = 0, time.monotonic()
        counts = {"orders": TopicMetadata(partitions=40)}

        def now() -> int:
            return int(time.time() * 1000)

        bench.send(producer, topic, Event("l", "t", PartitionsChanged(group_id="l", timestamp=now(), topics=counts)))
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
            at += 1 / EVENTS_PER_SECOND
            stop.wait(max(0.0, at - time.monotonic()))

    return run_in_background(send)


def latency(bench: "StreamBench", spark: Any, seconds: float) -> dict[str, LatencyRuns]:
    """Measure the latency of each streaming query in turn, each for ``seconds`` s at 10 events a second."""
    latencies: dict[str, LatencyRuns] = {}
    for run_number in range(LATENCY_RUNS):
        for name in ("(a) passthrough", "(b) ours", "(d) JVM aggregation"):
            topic, output_topic = (bench.topic(f"{end}-{uuid.uuid4().hex[:6]}") for end in ("in", "out"))
            rows, mode = bench.measured_queries(spark, topic, output_topic)[name]
            query = bench.start(rows(), mode, available_now=False)
            with membership_changes(bench, topic):
                waits = _measure_latencies(
                    bench, output_topic, LATER_RUN_WARM_UP_SECONDS if run_number else FIRST_RUN_WARM_UP_SECONDS, seconds
                )
            phases = _batch_phases(query)
            query.stop()
            before = latencies[name].runs if run_number else []
            latencies[name] = LatencyRuns([*before, waits], phases)
            print(f"  turn {run_number + 1}: {name}: p50 {statistics.median(waits):.0f} ms, {phases}", flush=True)
    return latencies


def _measure_latencies(bench: "StreamBench", topic: str, warm_up: float, seconds: float) -> list[float]:
    consumer = Consumer(
        {
            "bootstrap.servers": bench.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "fetch.wait.max.ms": 5,
            "enable.auto.commit": False,
        }
    )
    consumer.assign(bench.start_offsets(topic))
    waits: list[float] = []
    start = time.monotonic()
    while time.monotonic() < start + warm_up + seconds:
        message = consumer.poll(0.2)
        if message is None or message.error() is not None or time.monotonic() < start + warm_up:
            continue
        waits.append(time.time() * 1000 - json.loads(message.value())["timestamp"])
    consumer.close()
    return waits


def _batch_phases(query: Any) -> dict[str, int]:
    progress = [json.loads(item.json)["durationMs"] for item in query.recentProgress if item.numInputRows]
    names = ("triggerExecution", "addBatch", "queryPlanning", "latestOffset", "walCommit", "commitOffsets")
    return {name: round(statistics.median(item.get(name, 0) for item in progress)) for name in names}


def checkpoint_growth(bench: "StreamBench", spark: Any) -> list[tuple[int, int]]:
    """Return the checkpoint's minimum and maximum bytes in each half of the measurement, under constant load.

    Spark deletes old files once a minute. The first minute is skipped, as it has no old files.
    """
    topic, output_topic = (bench.topic(f"{end}-{uuid.uuid4().hex[:6]}") for end in ("in", "out"))
    rows, mode = bench.measured_queries(spark, topic, output_topic)["(b) ours"]
    folder = bench.folder / uuid.uuid4().hex
    print(
        f"  the checkpoint for {(FIRST_RUN_WARM_UP_SECONDS + CHECKPOINT_GROWTH_SECONDS) / 60:.0f} minutes", flush=True
    )
    query = bench.start(rows(), mode, available_now=False, checkpoint=folder)
    parts: list[tuple[int, int]] = []
    with membership_changes(bench, topic):
        time.sleep(FIRST_RUN_WARM_UP_SECONDS)
        for _ in range(2):
            sizes, start = [], time.monotonic()
            while time.monotonic() < start + CHECKPOINT_GROWTH_SECONDS / 2:
                sizes.append(folder_bytes(folder))
                time.sleep(2)
            parts.append((min(sizes), max(sizes)))
            print(f"  checkpoint: {parts[-1][0]:,} to {parts[-1][1]:,} bytes", flush=True)
    query.stop()
    return parts


def latency_table(latencies: dict[str, LatencyRuns]) -> str:
    """Return the Markdown table of latencies, from all runs except the first one."""
    after_first_run = {name: [ms for run in waits.runs[1:] for ms in run] for name, waits in latencies.items()}
    base = statistics.median(after_first_run["(d) JVM aggregation"])
    rows = []
    for name, waits in latencies.items():
        median_ms = statistics.median(after_first_run[name])
        p95_ms = statistics.quantiles(after_first_run[name], n=20)[-1]
        medians = ", ".join(f"{statistics.median(run_number):.0f}" for run_number in waits.runs)
        rows.append(
            [
                name,
                f"{median_ms:.0f}",
                f"{p95_ms:.0f}",
                f"{median_ms / base:.2f}",
                medians,
                *map(str, waits.phases.values()),
            ]
        )
    phases = ["batch", "addBatch", "planning", "latestOffset", "WAL", "commit"]
    return (
        f"From event to readable output at {EVENTS_PER_SECOND} events a second, in turns; the first of {LATENCY_RUNS} "
        "is not counted. Phases are medians of the last turn's batches.\n\n"
        + table(["variant", "p50 ms", "p95 ms", "of (d)", "p50 by turn", *phases], rows)
    )


def checkpoint_growth_text(checkpoint_size_ranges: list[tuple[int, int]]) -> str:
    """Return a line about the checkpoint's growth per hour: the maximum sizes in both halves of the run, compared."""
    (min_bytes, max_bytes), (later_min_bytes, later_max_bytes) = checkpoint_size_ranges
    hour = (later_max_bytes - max_bytes) / (CHECKPOINT_GROWTH_SECONDS / 2) * 3600
    return (
        f"Checkpoint under that load: {min_bytes / 2**20:.1f} to {max_bytes / 2**20:.1f} MB in minutes 2 to "
        f"{1 + CHECKPOINT_GROWTH_SECONDS / 120:.1f}, {later_min_bytes / 2**20:.1f} to {later_max_bytes / 2**20:.1f} MB "
        f"in as many after; an hour at this pace adds {hour / 2**20:+.1f} MB. Spark deletes old files once a minute."
    )
