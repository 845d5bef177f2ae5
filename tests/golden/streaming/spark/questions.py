"""Random questions to the parts of the stream that need no Spark, and the answers as lines of text."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from assignors.errors import MonitorError
from streaming.kafka.identity import Identity
from streaming.spark import damage, losses
from streaming.spark.growth import SETTLE_SECONDS
from streaming.spark.options import StreamOptions
from streaming.spark.progress import BatchMetrics, Told, finished, report
from streaming.spark.supervisor import HEARD_SECONDS, Supervisor


def _progress(chance: random.Random, number: int, at: float) -> dict[str, Any]:
    """What Spark tells of a batch, or of a look that found nothing; now and then it leaves something out."""
    if chance.random() < 0.25:
        return {"timestamp": f"2026-01-02T03:{int(at) // 60 % 60:02d}:{int(at) % 60:02d}.500Z"}
    offsets = {str(one): chance.choice([0, 5, 9, 10, 11, 12]) for one in range(chance.choice([2, 4]))}
    sources: list[dict[str, Any]] = [
        {
            "description": "KafkaV2[Assign[m]]",
            "numInputRows": chance.choice([-1, 0, 1, 15, 16, 31, 500]),
            "endOffset": chance.choice([None, {"m": offsets}, {"m": offsets}]),
            "metrics": chance.choice([None, {}, {"maxOffsetsBehindLatest": str(chance.choice([0, 1, 8]))}]),
        },
        {"description": "KafkaV2[Assign[rebalance.ticks]]", "numInputRows": 3, "endOffset": {"m": {"0": 99}}},
    ]
    durations = {
        name: chance.choice([1, 40, 999]) for name in ("walCommit", "addBatch", "queryPlanning", "x")
    }
    found: dict[str, Any] = {
        "batchId": number,
        "timestamp": "2026-01-02T03:04:05.000Z",
        "durationMs": durations | {"triggerExecution": chance.choice([0, 10, 124, 126, 1999, 2001])},
        "sources": sources[: chance.choice([0, 1, 2, 2])],
        "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 70}] * chance.choice([0, 1, 2]),
    }
    for name in ("timestamp", "durationMs", "stateOperators"):
        if chance.random() < 0.1:
            del found[name]
    return found


def _told(chance: random.Random, now: float) -> dict[int, Told]:
    return {
        bucket: Told(
            chance.choice([0, int(now * 1000) + chance.choice([-1, 0, 500, 9000])]),
            chance.randrange(3),
            chance.randrange(2),
            chance.choice([None, int(1767323045000 + chance.choice([-5000, -1, 0, 3000]))]),
            bytes=chance.choice([0, 0, 900, 5_000_000_000]),
        )
        for bucket in range(chance.randrange(3))
    }


def reported(number: int) -> Iterator[str]:
    """What is made of Spark's progress, batch by batch, and the metrics after each."""
    chance = random.Random(f"reported {number}")
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    for turn in range(60):
        progress = _progress(chance, turn, turn)
        done = report(progress, _told(chance, 1767323045).values())
        yield f"{done} {finished(progress)}"
        metrics.add(done)
    for family in registry.collect():
        yield from (
            f"{one.name} {one.labels} {one.value:.6g}"
            for one in family.samples
            if not one.name.endswith("_created")
        )


def supervised(number: int) -> Iterator[str]:
    """What a job does next, through batches, growing and vanishing topics, and a cluster that does not answer."""
    chance = random.Random(f"supervised {number}")
    options = StreamOptions(
        checkpoint="c",
        max_offsets_per_trigger=chance.choice([None, 16, 500]),
        batch_seconds=chance.choice([1.0, 2.0]),
        available_now=chance.random() < 0.2,
        on_data_loss=chance.choice(["stop", "continue", "restart"]),
    )
    topics: dict[str, Identity | None] = {"m": Identity("m", 2), "d": Identity("d", 4), "x": Identity("x", 1)}
    made = Supervisor(options, "m", topics, partitions=2)  # type: ignore[arg-type] # none is missing yet
    now = 1767322800.0
    for turn in range(150):
        now += chance.choice([0.0, 0.5, 1.0, HEARD_SECONDS - 1, HEARD_SECONDS, SETTLE_SECONDS])
        drawn = chance.randrange(12)
        try:
            if drawn < 5:
                progress = _progress(chance, turn, now)
                told = _told(chance, now)
                made.batch_ended(progress, told, report(progress, told.values()))
            elif drawn == 5 and made.wants_count(now):
                made.counted(chance.choice([turn - 30, turn - 1, turn]), now)
            elif drawn == 6:
                made.contact(chance.choice([None, "away", "refused"]))
            elif drawn == 7:
                seen = dict(topics)
                name = chance.choice("mdx")
                seen[name] = chance.choice(
                    [None, Identity(name, chance.choice([1, 3, 4, 6, 8])), Identity("new", 4), topics[name]]
                )
                made.topics_seen(seen, now)
                made.still_missing()
            elif drawn == 8:
                made.topics_seen(topics, now)
            elif drawn == 9 and made.growth.pending:
                made.ends_seen({0: chance.choice([0, 9, 10]), 1: chance.choice([0, 5])}, now)
            elif drawn == 10 and made.growth.ready():
                made.growth.done()
        except MonitorError as error:
            yield f"  {type(error).__name__}: {error}"
        growth = made.growth
        figures = (growth.partitions, growth.target, dict(growth.offsets), growth.in_order, made.bound.value)
        yield f"{now} {made.applied_up_to} {made.wants_count(now)} {figures}"
        yield from (f"  {note}" for note in made.take_notes())
        yield f"  {made.next(now).name}"


def _checkpoint(folder: Path, chance: random.Random) -> None:
    """A checkpoint after some batches, with snapshots here and there."""
    batches = chance.choice([0, 1, 2, 13])
    begun = batches + chance.choice([0, 1])
    for name in ("offsets", "commits", "sources/0", "state/0/0/_metadata", "state/0/1", "state/0/_metadata"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"1"}')
    (folder / "sources/0/0").write_bytes(b'\0v1\n{"m":{"0":0}}')
    (folder / "state/0/_metadata/metadata").write_text('v1\n{"operatorInfo":{}}')
    (folder / "state/0/0/_metadata/schema").write_bytes(b"\0\2v2\0\0\0\1{}")
    for batch in range(begun):
        text = f'v1\n{{"batchWatermarkMs":0}}\n{{"m":{{"0":{4 * batch},"1":{batch}}}}}\n-'
        (folder / "offsets" / str(batch)).write_text(text)
    for batch in range(batches):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for task in "01":
        for version in range(1, batches + 1):
            (folder / f"state/0/{task}/{version}.delta").write_bytes(b"state")
            if version % 5 == 0:
                (folder / f"state/0/{task}/{version}.snapshot").write_bytes(b"state")


_DAMAGES: list[Callable[[Path], object]] = [
    Path.unlink,
    Path.unlink,
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"\x00\xff" * 20),
    lambda file: file.write_bytes(file.read_bytes()[:-3]),
    lambda file: file.write_bytes(b"v1"),
    lambda file: file.write_bytes(b"v1\n-\n-"),
    lambda file: file.write_bytes(b"v1\n[]\n[]"),
    lambda file: file.with_name(file.name + "0").write_bytes(file.read_bytes()),
]


def damaged(number: int) -> Iterator[str]:
    """Checkpoints with one or two files lost, cut or garbled: what is said of each, and what a start reads."""
    chance = random.Random(f"damaged {number}")
    for _ in range(40):
        scratch = tempfile.mkdtemp()
        folder = Path(scratch) / "c"
        try:
            _checkpoint(folder, chance)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            for file in chance.sample(files, chance.choice([0, 1, 1, 2])):
                yield f"- {file.relative_to(folder)}"
                chance.choice(_DAMAGES)(file)
            for ask in (damage.look, lambda one: losses.spans(one, "m"), lambda one: losses.spans(one, "x")):
                try:
                    yield f"{ask(str(folder))}"
                except (
                    MonitorError,
                    FileNotFoundError,
                ) as error:  # `spans` asks for a folder that `look` passed
                    yield f"{type(error).__name__}: {error}".replace(scratch, "")
            names = [str(file.relative_to(folder / "state/0")) for file in damage.state_files(folder)]
            yield f"{damage.last(folder / 'offsets')} {damage.last(folder / 'commits')} {names}"
        finally:
            shutil.rmtree(scratch)


_PHRASES = [
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Input/output error",
    "Permission denied",
    "AccessControlException",
    "AccessDeniedException:",
    "CANNOT_LOAD_STATE_STORE",
    "STATE_STORE",
    "[STDS_FAILED_TO_READ_STATE_SCHEMA]",
    "java.io.FileNotFoundException:",
    "java.io.EOFException",
    "Stream is corrupted",
    "StreamCorrupted",
    "JsonParseException",
    "MismatchedInputException",
    "MappingException",
    "Log file was malformed",
    "UTFDataFormatException",
    "UNSUPPORTED_LOG_VERSION",
    "Invalid log version",
    "NumberFormatException",
    "KAFKA_DATA_LOSS",
    "Some data may have been lost",
    "START_OFFSET_GREATER_THAN_END_OFFSET",
    "OffsetOutOfRangeException",
    "TimeoutException",
]


def explained(number: int) -> Iterator[str]:
    """What Spark may say of files, in every mixture: which error that is."""
    chance = random.Random(f"explained {number}")
    for _ in range(120):
        words = chance.sample(_PHRASES, chance.randint(1, 2))
        if chance.random() < 0.7:
            words.append(chance.choice(["/c/offsets/5", "(/c/state/0/1/5.delta)", "/elsewhere/5", "at /c"]))
        chance.shuffle(words)
        file = chance.choice([None, Path("/c/state/0/0/2.delta")])
        found = damage.explain(" ".join(words), "c", "/c", lambda file=file: file)  # type: ignore[misc]
        yield f"{words} {file} {losses.told_by(' '.join(words))}"
        yield f"  {type(found).__name__}: {found}"


def lost(number: int) -> Iterator[str]:
    """What a topic has lost of what a start reads."""
    chance = random.Random(f"lost {number}")
    for _ in range(60):
        places = [sorted(chance.choices(range(5), k=2)) for _ in range(2)]
        wanted = {one: losses.Span(*place) for one, place in enumerate(places)}
        there = {
            one: (low, low + chance.randrange(4)) for one, low in enumerate(chance.choices(range(4), k=2))
        }
        yield f"{places} {there} {'; '.join(losses.gone(wanted, there))}"


#: The questions, and how many of each.
ASKED = ((reported, 3), (supervised, 20), (damaged, 4), (explained, 3), (lost, 1))
