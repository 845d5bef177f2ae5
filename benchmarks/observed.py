"""Cost of an observed round: ``make bench-observed``. Production takes this path: a collector sees its groups.

In each round one member of a group gives a partition to another, as in a KIP-848 group that is on its way: the
collector publishes the group whole; the stream publishes the difference.
First the pure part: as in the job, each round unpacks its group, applies the event and packs the group again. Then
the job over as many bytes of such rounds (full views) beside a passthrough of the same bytes, Kafka to Kafka, in
one Spark session, with diffs that name everybody and with diffs that name those for whom something changed; the
third run of each and later ones count.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks import _document
from benchmarks._stream_load import START_MS
from benchmarks.stream import BUCKETS, WARMING, Bench, StreamRun, cpu_seconds
from streaming.kafka.broker import EmbeddedBroker
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Listing, Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import Event, GroupObserved, GroupQuiet, ObservedMember, PartitionsChanged, TopicMetadata
from streaming.spark import query as queries
from streaming.spark.operator import BucketReports
from streaming.spark.session import SessionOptions, session

#: Partitions of each member.
SHARE = 10
_TOPICS = 10
#: Groups of the job: enough that each of two tasks gets half of them.
GROUPS = 64
#: Spark caches each query's last read records for five minutes: dozens of queries in one JVM fill its heap.
_FORGETFUL = tuple(
    (f"spark.kafka.consumer.fetchedData.cache.{name}", "1s") for name in ("timeout", "evictorThreadRunInterval")
)
_SINKS = Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e"), 4), episodes="e")


class RoundCost(NamedTuple):
    """Median cost of one round: CPU time in ms, and the bytes of its event and of its diff."""

    ms: float
    event: int
    diff: int


def rounds(group_id: str, members: int, protocol: str) -> Iterator[Event]:
    """Return a group's events: its topics first, then one snapshot after each move."""
    topics = {f"topic-{number}": members * SHARE // _TOPICS for number in range(_TOPICS)}
    held: list[dict[str, list[int]]] = [{} for _ in range(members)]
    places = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
    for number, (topic, partition) in enumerate(places):
        held[number % members].setdefault(topic, []).append(partition)
    counts = {topic: TopicMetadata(partitions=count) for topic, count in topics.items()}
    yield Event("collector", f"{group_id}/0", PartitionsChanged(group_id=group_id, timestamp=START_MS, topics=counts))
    number = 0
    while True:
        number += 1
        giving, taking = held[number % members], held[(number + 1) % members]
        topic = next(iter(giving))
        partition = giving[topic].pop()
        if not giving[topic]:
            del giving[topic]
        taking[topic] = sorted([*taking.get(topic, ()), partition])
        epochs = protocol != "classic"
        view = GroupObserved(
            group_id=group_id,
            timestamp=START_MS + 1000 * number,
            members=[_member(group_id, place, share, topics, epochs) for place, share in enumerate(held)],
            generation=None if epochs else number,
            group_epoch=number if epochs else None,
            group_protocol=protocol,
            protocol="uniform" if epochs else "cooperative-sticky",
            state="Stable",
        )
        yield Event("collector", f"{group_id}/{number}", view)


def _member(
    group_id: str, place: int, share: dict[str, list[int]], topics: dict[str, int], epochs: bool
) -> ObservedMember:
    return ObservedMember(
        member_id=f"{group_id}-member-{place:05d}-0a1b2c3d",
        topics=list(topics),
        assigned={topic: list(partitions) for topic, partitions in share.items()},
        client_id=f"app-{place}",
        client_host=f"/10.0.{place // 250}.{place % 250}",
        member_epoch=1 if epochs else None,
        state="STABLE" if epochs else None,
        target={topic: list(partitions) for topic, partitions in share.items()} if epochs else None,
        rebalance_timeout_ms=300_000,
    )


def cost(events: Iterator[Event], count: int) -> RoundCost:
    """Measure the pure part of this many rounds of one group, one in a batch, after its first episode."""
    gc.disable()  # as in the job's workers
    blob: bytes | None = None
    spent, sizes = [], []
    for offset, event in zip(range(count + 3), events, strict=False):
        record = Record.of(0, offset, *codec.encode_event(event))
        begun = time.process_time()
        bucket = Bucket(blob)
        writes = process(bucket, [record], 0, _SINKS)
        blob = bucket.pack()
        if offset == 1:
            blob = _quiet(bucket, event)
        if offset > 2:
            spent.append((time.process_time() - begun) * 1000)
            diffs = [len(write.value or b"") for write in writes if write.topic == "d"]
            sizes.append((len(record.value or b""), sum(diffs)))
    gc.enable()
    event_bytes, diff_bytes = (round(statistics.median(size)) for size in zip(*sizes, strict=True))
    return RoundCost(statistics.median(spent), event_bytes, diff_bytes)


def _quiet(bucket: Bucket, event: Event) -> bytes:
    """Return the bucket after the group's quiet time."""
    episode = bucket.get(event.data.group_id).episode
    quiet = GroupQuiet(
        group_id=event.data.group_id, timestamp=event.data.timestamp, after=episode.mark if episode else ""
    )
    process(bucket, [Record.of(0, 0, *codec.encode_event(Event("timer", "quiet", quiet)))], 0, _SINKS)
    return bucket.pack()


class PassthroughComparison(NamedTuple):
    """Medians of the passthrough and of the job, with each form of diff, over the same rounds."""

    passed: StreamRun
    ours: dict[Listing, StreamRun]
    count: int


def job(bench: Bench, spark: Any, members: int, protocol: str, options: argparse.Namespace) -> PassthroughComparison:
    """Run all variants over this many bytes of rounds of :data:`GROUPS` groups, in turns."""
    jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - no public way to the JVM's pid
    producer, topic = bench.producer(), bench.topic(f"rounds-{uuid.uuid4().hex[:6]}")
    groups = [rounds(f"group-{number}", members, protocol) for number in range(GROUPS)]
    sent = count = 0
    while sent < options.megabytes << 20:
        for group in groups:
            event = next(group)
            sent += len(codec.encode(event.data))
            count += 1
            bench.send(producer, topic, event)
    producer.flush()
    runs_by_listing: dict[Listing | None, list[StreamRun]] = {None: [], "all": [], "changed": []}
    for attempt in range(WARMING + options.runs):
        for listing, runs in runs_by_listing.items():
            run = _run(bench, spark, jvm, topic, listing)
            if attempt >= WARMING:
                runs.append(run)
    middle = {
        listing: StreamRun(*map(statistics.median, zip(*runs, strict=True)))
        for listing, runs in runs_by_listing.items()
    }
    return PassthroughComparison(middle[None], {listing: run for listing, run in middle.items() if listing}, count)


def _run(bench: Bench, spark: Any, jvm: int, topic: str, listing: Listing | None) -> StreamRun:
    """Run one variant once; ``listing`` None: the passthrough."""
    out = bench.topic(f"out-{uuid.uuid4().hex[:6]}")
    log = bench.source(spark, topic)
    if listing:
        ticks = bench.source(spark, bench.topic(f"ticks-{uuid.uuid4().hex[:6]}", 1))
        sinks = bench.sinks_to(out)._replace(episodes=out, listing=listing)
        rows = queries.writes(log, ticks, BUCKETS, sinks, BucketReports(spark).accumulator)
    else:
        rows = log.selectExpr(f"'{out}' AS topic", "key", "value", "headers", "partition")
    before, start = cpu_seconds(jvm), time.monotonic()
    bench.start(rows, "append", available_now=True).awaitTermination()
    return StreamRun(time.monotonic() - start, cpu_seconds(jvm) - before)


def _pure(count: int) -> str:
    """Return the table of the pure part."""
    rows = []
    for members in (20, 200, 1000, 2000):
        whole = cost(rounds("group", members, "consumer"), count)
        classic = cost(rounds("group", members, "classic"), count)
        sizes = f"{whole.event:,} / {whole.diff:,}"
        rows.append([str(members), f"{classic.ms:.2f}", f"{whole.ms:.2f}", sizes])
    table = _document.table(["members", "classic, ms", "KIP-848, ms", "bytes of event and diff"], rows)
    return (
        "One member of 10 partitions gives one to another: processor time of a round, alone in its batch "
        f"(median of {count}), and the bytes of its event and of its diff.\n\n{table}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="of the pure part")
    parser.add_argument("--megabytes", type=int, default=200, help="of the job's rounds")
    parser.add_argument("--runs", type=int, default=3, help="of the job that count")
    parser.add_argument("--members", type=int, nargs="+", default=[20, 200, 1000], help="of the job's groups")
    parser.add_argument("--pure", action="store_true", help="without the job")
    parser.add_argument("--job", action="store_true", help="without the pure part")
    parser.add_argument("--document", action="store_true", help="write the tables into the docs")
    options = parser.parse_args()
    if not options.job:
        text = _pure(options.rounds)
        print(text, flush=True)
        if options.document:
            head = f"## Observed rounds\n\n`python -m benchmarks.observed --pure`. {_document.machine()}."
            _document.put("observed-rounds", f"{head} {text}")
    if not options.pure:
        text = _jobs(options)
        print(text, flush=True)
        if options.document:
            head = f"`python -m benchmarks.observed --job`. {_document.machine()}."
            _document.put("observed-job", f"## Observed rounds in the job\n\n{head} {text}")


def _jobs(options: argparse.Namespace) -> str:
    """Return the table of the job."""
    rows = []
    with (
        EmbeddedBroker() as broker,
        TemporaryDirectory(prefix="bench-observed-") as folder,
        session(SessionOptions(log_file=Path(folder) / "spark.log", conf=_FORGETFUL)) as spark,
    ):
        bench = Bench(broker.bootstrap_servers, Path(folder))
        for protocol in ("consumer", "classic"):
            for members in options.members:  # an event of 2000 members exceeds the usual limit of a topic
                measured = job(bench, spark, members, protocol, options)
                rows.append([protocol, str(members), f"{measured.count:,}", *_cells(measured)])
                print(*rows[-1], flush=True)
    ratios = ["all: of its bytes a second", "per CPU second", "changed: of its bytes a second", "per CPU second"]
    table = _document.table(["protocol", "members", "rounds", "passthrough, s", *ratios], rows)
    return (
        f"{options.megabytes} MB of such rounds in snapshots of {GROUPS} groups, as one batch beside a passthrough "
        f"of the same bytes; medians of the third run and {options.runs - 1} later in one Spark session. `all` and "
        f"`changed`: whom diffs list (`[stream] diffs`).\n\n{table}"
    )


def _cells(measured: PassthroughComparison) -> list[str]:
    base = measured.passed
    ratios = [(base.seconds / run.seconds, base.cpu / run.cpu) for run in measured.ours.values()]
    return [f"{base.seconds:.1f}", *(f"{ratio:.2f}" for pair in ratios for ratio in pair)]


if __name__ == "__main__":
    main()
