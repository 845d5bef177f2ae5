"""Measures the cost of the stream for many groups of which few change: ``make bench-groups``.

The benchmark runs one embedded broker and separate JVMs with a given heap size. The stream first reads each group's
first generation into a new checkpoint, without writing diffs. It is then started again and processes rounds in which
some groups have their next generation. The diffs are written to Kafka, and each round starts when the previous batch
ends.

``ARGS="--groups 1000000 --write"`` writes the table of the docs and takes ten minutes.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

from confluent_kafka import Producer

from benchmarks._document import describe_machine, table, write_section
from benchmarks.stream import PARTITIONS, StreamBench, send_record
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.clients import spark_options
from streaming.records import codec
from streaming.records.events import Event, GroupObserved, ObservedMember
from streaming.spark import query as queries
from streaming.spark.operator import BucketReports
from streaming.spark.session import SessionOptions, session
from streaming.spark.start import spans
from tests.support.disks import folder_bytes

MEMBERS, PARTITIONS_PER_GROUP = 4, 8
#: Events in a loading batch.
LOADING_BATCH_EVENTS = 250_000
#: Uncounted first rounds: HotSpot has not yet compiled the code of small batches.
WARM_UP_ROUNDS = 20
#: Placeholder for a group's number.
_NUMBER_PLACEHOLDER = b"NNNNNNN"


class StateCost(NamedTuple):
    """Measured cost of the state of many groups.

    Attributes:
        heap: heap size of the JVM in GB.
        load_seconds: seconds for the groups' first generations.
        start: seconds from a start with the loaded checkpoint to the end of the first batch.
        batches: ms of each batch with changes.
        groups_in_memory: bytes of the JVM's heap that are in use after a full collection of garbage.
        resident_bytes: maximum resident memory of the JVM in bytes.
        loaded_bytes: bytes of the checkpoint before the changes.
        checkpoint_range: minimum and maximum bytes of the checkpoint during the changes.
    """

    heap: int
    load_seconds: float
    start: float
    batches: list[int]
    groups_in_memory: int
    resident_bytes: int
    loaded_bytes: int
    checkpoint_range: tuple[int, int]


class GroupEvents:
    """Generates events of many groups fast, by inserting names into two encoded events."""

    def __init__(self) -> None:
        self._generations: dict[int, tuple[bytes, list[tuple[str, bytes | None]]]] = {}

    def event(self, group: int, generation: int) -> tuple[bytes, bytes, list[tuple[str, bytes | None]]]:
        """Return key, value and headers of a group's event."""
        if generation not in self._generations:
            _, value, headers = codec.encode_event(_snapshot_event(generation))
            self._generations[generation] = value, headers
        value, headers = self._generations[generation]
        digits = f"{group:07}".encode()
        renamed_headers = [(name, data and data.replace(_NUMBER_PLACEHOLDER, digits)) for name, data in headers]
        return _name(group), value.replace(_NUMBER_PLACEHOLDER, digits), renamed_headers

    def send(self, producer: Producer, topic: str, groups: Iterable[int], generation: int) -> None:
        """Send one event of each group."""
        for group in groups:
            send_record(producer, topic, *self.event(group, generation))
        producer.flush()


def ordered(count: int, buckets: int) -> list[int]:
    """Return the groups sorted by bucket, so that each loading batch writes few buckets and no bucket twice."""
    return sorted(range(count), key=lambda group: crc32(_name(group)) % buckets)


def _name(group: int) -> bytes:
    return b"group-%07d" % group


def _snapshot_event(generation: int) -> Event:
    """Return the snapshot of a group at this generation; generations differ in the member that comes first."""
    partitions_per_member, name = PARTITIONS_PER_GROUP // MEMBERS, _NUMBER_PLACEHOLDER.decode()
    members = [
        ObservedMember(
            member_id=f"consumer-{name}-{member}-8f4e2b7a-11d2-4c3e-9a55-0c6d1e2f3a4b",
            topics=["orders"],
            assigned={
                "orders": [
                    (member + generation) % MEMBERS * partitions_per_member + offset
                    for offset in range(partitions_per_member)
                ]
            },
            client_id=f"orders-{member}",
            client_host="/10.0.0.1",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
        )
        for member in range(MEMBERS)
    ]
    data = GroupObserved(
        group_id=f"group-{name}",
        timestamp=1_700_000_000_000 + generation,
        generation=generation,
        members=members,
        protocol="range",
        state="Stable",
    )
    return Event("/groups", f"{name}-{generation}", data)


class StateBenchmarkRun(NamedTuple):
    """Arguments of the two processes that run the stream: one loads the groups, the other resumes with changes.

    Attributes:
        folder: folder for all files of the run.
        topics: the topics with the groups, with their changes, with ticks, and for the output.
    """

    heap: int
    folder: Path
    bootstrap: str
    topics: tuple[str, str, str, str]
    buckets: int
    changing_groups: int
    rounds: int

    @property
    def checkpoint(self) -> Path:
        """Return the checkpoint's folder."""
        return self.folder / "checkpoint"


def measure_load(run: StateBenchmarkRun) -> tuple[float, int]:
    """Load every group's first generation into a checkpoint; return the seconds and the checkpoint's bytes."""
    bench = StreamBench(run.bootstrap, run.folder)
    with _session(run) as spark:
        begin = time.monotonic()
        rows = _output_rows(bench, spark, run).writeStream.format("noop")
        query = rows.option("checkpointLocation", str(run.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        for item in query.recentProgress:
            print(f"    {item.numInputRows} events: {json.loads(item.json)['durationMs']}", flush=True)
        return time.monotonic() - begin, folder_bytes(run.checkpoint)


def measure_changes(run: StateBenchmarkRun, load_result: tuple[float, int]) -> StateCost:
    """Start the stream with the loaded checkpoint, and change some groups repeatedly."""
    bench, groups = StreamBench(run.bootstrap, run.folder), GroupEvents()
    with _session(run) as spark:
        begin = time.monotonic()
        query = bench.start(_output_rows(bench, spark, run), "append", available_now=False, checkpoint=run.checkpoint)
        producer, start, kept = bench.producer(), 0.0, []
        for number in range(WARM_UP_ROUNDS + run.rounds):
            first = number * run.changing_groups
            groups.send(producer, run.topics[1], range(first, first + run.changing_groups), 2)
            _wait_until_processed(query, run, first + run.changing_groups)
            start = start or time.monotonic() - begin
            kept.append(folder_bytes(run.checkpoint))
            if number % 10 == 0:
                print(f"    round {number}: {time.monotonic() - begin:.1f} s", flush=True)
        progress = [json.loads(item.json) for item in query.recentProgress]
        # If the source polled while a round was being sent, the round is two smaller batches.
        whole = [item for item in progress if item["numInputRows"] == run.changing_groups][WARM_UP_ROUNDS:]
        cost = StateCost(
            run.heap,
            load_result[0],
            start,
            [item["durationMs"]["triggerExecution"] for item in whole],
            _used_heap_bytes(spark),
            _max_resident_bytes(spark.sparkContext._gateway.proc.pid),  # noqa: SLF001 - no public way to the JVM's pid
            load_result[1],
            (min(kept[WARM_UP_ROUNDS:]), max(kept[WARM_UP_ROUNDS:])),
        )
        query.stop()
    return cost


def measure(run: StateBenchmarkRun) -> StateCost:
    """Measure the first start and the resumed start in separate processes, as PySpark has one JVM per process."""
    with get_context("spawn").Pool(1) as pool:
        load_result = pool.apply(measure_load, (run,))
    print(f"  loaded in {load_result[0]:.0f} s, {load_result[1] / 1e6:.0f} MB", flush=True)
    with get_context("spawn").Pool(1) as pool:
        cost = pool.apply(measure_changes, (run, load_result))
    print(f"  {cost}", flush=True)
    return cost


@contextmanager
def _session(run: StateBenchmarkRun) -> Iterator[Any]:
    run.folder.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_DRIVER_MEMORY"] = f"{run.heap}g"
    conf = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
    log_file = run.folder / "spark.log"
    with session(SessionOptions(log_file=log_file, conf=tuple(conf.items()))) as spark:
        yield spark


def _output_rows(bench: StreamBench, spark: Any, run: StateBenchmarkRun) -> Any:
    """Return the rows that the streaming job would write, in batches of bounded size."""
    groups, changes, ticks, out = run.topics
    options = {
        "subscribe": f"{groups},{changes}",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(LOADING_BATCH_EVENTS),
    }
    events = queries.source(spark, spark_options(bench.kafka, {"fetch.max.wait.ms": "5"}) | options)
    sinks = bench.sinks._replace(diffs=out, partitions=bench.sinks.partitions | {out: PARTITIONS})
    return queries.writes(events, bench.source(spark, ticks), run.buckets, sinks, BucketReports(spark).accumulator)


def _wait_until_processed(query: Any, run: StateBenchmarkRun, wanted: int) -> None:
    """Wait until the stream has read this many changes, according to the checkpoint's files."""
    while sum(span.begin for span in spans(str(run.checkpoint), run.topics[1]).values()) < wanted:
        time.sleep(0.01)
        if not query.isActive:
            raise SystemExit(f"the query has ended: {query.exception()}")


def _used_heap_bytes(spark: Any) -> int:
    """Return the used bytes of the JVM's heap after a full collection."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - no public way into the JVM
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def _max_resident_bytes(pid: int) -> int:
    """Return the maximum resident memory of a process in bytes."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def report_table(cost: StateCost, sizes: argparse.Namespace) -> str:
    """Return the table of costs for many groups, with a description of how they were measured."""
    header = [
        "heap",
        "in use",
        "JVM resident",
        "batch p50 / p95 / worst ms",
        "checkpoint loaded",
        "while changing",
        "loaded in",
        "start to first batch",
    ]
    times = (
        statistics.median(cost.batches),
        statistics.quantiles(cost.batches, n=20, method="inclusive")[-1],
        max(cost.batches),
    )
    low, high = cost.checkpoint_range
    row = [
        f"{cost.heap} GB",
        _megabytes(cost.groups_in_memory),
        _megabytes(cost.resident_bytes),
        " / ".join(f"{ms:,.0f}" for ms in times),
        _megabytes(cost.loaded_bytes),
        f"{low / 1e6:,.0f} to {_megabytes(high)}",
        f"{cost.load_seconds:.0f} s",
        f"{cost.start:.1f} s",
    ]
    description = (
        f"{describe_machine()}, embedded broker on the same machine; {sizes.groups:,} groups of {MEMBERS} members, "
        f"as a collector sees them, in {sizes.buckets:,} buckets; {sizes.changing_groups} of them change a batch, as "
        f"fast as batches end; {len(cost.batches)} batches after the first {WARM_UP_ROUNDS}; rounds "
        f"in Python. In use: of the heap, after a full collection. "
        "Resident: the most that the JVM has had."
    )
    further_reading = (
        "Conclusions, and the limits beyond this size: [design](design/stream.md#larger-deployments-calculated)."
    )
    return "\n\n".join(("## Many groups, few of which change", description, table(header, [row]), further_reading))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--buckets", type=int, default=0, help="number of state buckets; 0: one per thirty groups")
    parser.add_argument("--changing", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--heap", type=int, default=3, help="size of the JVM's heap in GB")
    parser.add_argument("--write", action="store_true", help="write the table to docs/benchmarks.md")
    sizes = parser.parse_args()
    if sizes.changing_groups * (WARM_UP_ROUNDS + sizes.rounds) > sizes.groups:
        parser.error("--groups: too few; each round changes --changing other groups")
    sizes.buckets = sizes.buckets or 1 << (sizes.groups // 30).bit_length()
    with EmbeddedBroker() as broker, TemporaryDirectory(prefix="bench-groups-") as folder:
        bench = StreamBench(broker.bootstrap_servers, Path(folder))
        topic = bench.settings.topics.membership
        GroupEvents().send(bench.producer(), topic, ordered(sizes.groups, sizes.buckets), 1)
        print(f"{sizes.groups} groups are in the topic", flush=True)
        cost = measure(
            StateBenchmarkRun(
                sizes.heap,
                Path(folder) / "run",
                broker.bootstrap_servers,
                (topic, bench.topic("in"), bench.topic("ticks", 1), bench.topic("out")),
                sizes.buckets,
                sizes.changing_groups,
                sizes.rounds,
            )
        )
    text = report_table(cost, sizes)
    print(text)
    if sizes.write:
        write_section("groups", text)


if __name__ == "__main__":
    main()
