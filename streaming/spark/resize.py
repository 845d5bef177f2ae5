"""A stopped checkpoint gets other numbers of buckets and of shuffle partitions, or another state store.

All are frozen in a checkpoint: a group's place in the state follows from them. So a new checkpoint is made beside
the old one. Its state is written by Spark itself, by a query of one batch whose rows are the new buckets' blobs.
What was read last, and the query's identity, are the old checkpoint's, noted as that batch. Then two renames put
the new one in its place; after one of them alone, the next command that opens the checkpoint does the other.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import structs
from pyarrow import parquet

from assignors.errors import BadInput
from streaming.monitor.bucket_state import Bucket
from streaming.records.codec import UNREADABLE
from streaming.spark import checkpoint as cards
from streaming.spark import failures, state_store
from streaming.spark.buckets import regrouped
from streaming.spark.options import frozen_out_of_range
from streaming.spark.session import SessionOptions, session
from streaming.spark.state import NoState, blobs
from streaming.spark.state_store import StateStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"
#: Its value: Java's ``int``.
_Partitions = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
#: Bytes of compressed state a bucket: more make each batch that touches it slow; what new numbers aim at.
_MOST, _AIM = 100_000, 30_000


class NotResizable(BadInput):
    """The checkpoint can't be given other numbers."""


class Numbers(NamedTuple):
    """What is frozen in a checkpoint. ``shuffle_partitions`` None: it has not begun a batch."""

    buckets: int
    shuffle_partitions: int | None
    state_store: StateStore = state_store.DEFAULT

    def as_json(self) -> Mapping[str, Any]:
        """The same for programs."""
        return {
            "buckets": self.buckets,
            "shufflePartitions": self.shuffle_partitions,
            "stateStore": self.state_store,
        }


class Resized(NamedTuple):
    """What was done, or would be.

    Attributes:
        before: the numbers it had.
        after: the numbers it has now.
        groups: how many groups it knows.
        largest: bytes of its largest bucket, before and after.
        aside: where the old checkpoint is now; None when nothing was done.
    """

    before: Numbers
    after: Numbers
    groups: int
    largest: tuple[int, int]
    aside: Path | None

    def lines(self) -> Iterator[str]:
        """What a person is told."""
        names = ("buckets", "shuffle partitions", "state store")
        for name, before, after in zip(names, self.before, self.after, strict=True):
            yield f"{name}: {'not chosen yet' if before is None else before}{_becoming(before, after)}"
        before, after = self.largest
        yield f"groups: {self.groups}; largest bucket, bytes: {before:,}{_becoming(before, after)}"
        if self.aside is not None:
            yield f"done; the old checkpoint is {self.aside}, to be deleted when the job runs well"

    def as_json(self) -> Mapping[str, Any]:
        """The same for programs."""
        return {
            "before": self.before.as_json(),
            "after": self.after.as_json(),
            "groups": self.groups,
            "largestBytes": {"before": self.largest[0], "after": self.largest[1]},
            "aside": None if self.aside is None else str(self.aside),
        }


def _becoming(before: int | str | None, after: int | str | None) -> str:
    if before == after:
        return ""
    return f" → {after:,}" if isinstance(after, int) else f" → {after}"


def resize(
    checkpoint: str,
    buckets: int | None,
    shuffle_partitions: int | None,
    store: StateStore | None = None,
    *,
    dry_run: bool,
) -> Resized:
    """Give a stopped checkpoint other numbers, or another state store; None: as it has.

    Raises:
        NotResizable: it is behind a URL, or a number is less than 1.
        NoState: there is no checkpoint of ours.
        CheckpointInUse: a job works with it.
        CheckpointDamaged, CheckpointUnusable, CheckpointOfAnotherJob: its files can't be used.
        NoJava, SparkUnavailable: Spark can't be had.
    """
    if "://" in checkpoint:
        raise NotResizable(f"--checkpoint {checkpoint}: only a checkpoint in a folder can be resized")
    for wrong in frozen_out_of_range(buckets, shuffle_partitions):
        raise NotResizable(wrong)
    folder = Path(checkpoint)
    try:
        cards.settle(folder)
        card = cards.read(folder) if folder.exists() else None
        if card is None:
            raise NoState(f"--checkpoint {checkpoint}: no checkpoint of ours there")
        with cards.held(checkpoint) as held:
            card = cards.readable(checkpoint, held.read() or card)
            before = Numbers(card.buckets, frozen_partitions(folder), card.state_store or state_store.DEFAULT)
            after = Numbers(
                buckets or before.buckets,
                shuffle_partitions or before.shuffle_partitions,
                store or before.state_store,
            )
            return _resize(folder, card, before, after, dry_run=dry_run)
    except OSError as error:
        raise failures.unusable(checkpoint, error) from error


def frozen_partitions(folder: Path) -> int | None:
    """The number of shuffle partitions that Spark has noted in a checkpoint; None before its first batch.

    Raises:
        CheckpointDamaged: what it has noted is not there.
    """
    newest = state_store.last(folder / "offsets")
    return None if newest is None else _Batch.read(folder / "offsets" / str(newest)).shuffle_partitions


@dataclass(frozen=True, slots=True)
class _Batch:
    """A file in ``offsets``: a version, what Spark has noted of a batch, and a line for each source."""

    version: bytes
    noted: dict[str, Any]
    shuffle_partitions: int
    offsets: list[bytes]

    @classmethod
    def read(cls, file: Path) -> _Batch:
        try:
            version, metadata, *offsets = file.read_bytes().splitlines()
            noted = msgspec.json.decode(metadata, type=dict[str, Any])
            partitions = msgspec.convert(noted["conf"][_PARTITIONS], _Partitions, strict=False)
        except (*UNREADABLE, ValueError, KeyError, TypeError) as error:
            raise failures.damaged(str(file.parents[1]), f"{file} is damaged") from error
        return cls(version, noted, partitions, offsets)


def outgrown(folder: Path) -> str | None:
    """What to do about a checkpoint whose buckets have become too large; None when they have not.

    By the sizes of its files (:func:`streaming.spark.state_store.size`).
    """
    card = cards.read(folder) if (folder / cards.NAME).exists() else None
    try:
        total = state_store.size(folder)
    except OSError as error:
        raise failures.unusable(str(folder), error) from error
    if card is None or total <= _MOST * card.buckets:
        return None
    wanted = 1 << (total // _AIM).bit_length()
    each = total // card.buckets // 1000
    return (
        f"its state has outgrown its {card.buckets} buckets (some {each} kB each on disk): "
        f"stop the job, then `rebalance-monitor stream resize --checkpoint {folder} --buckets {wanted}`"
    )


def _resize(folder: Path, card: cards.Card, before: Numbers, after: Numbers, *, dry_run: bool) -> Resized:
    staged = cards.staged(folder)
    shutil.rmtree(staged, ignore_errors=True)  # of one that was interrupted
    done = state_store.last(folder / "commits")
    old: Mapping[int, bytes] = {}
    new: Mapping[int, bytes] = {}
    if done is not None and (dry_run or before != after):
        options = SessionOptions(
            connector=False,
            shuffle_partitions=after.shuffle_partitions or 1,
            state_store=after.state_store,
            # What reads both stores' files is Spark's own choice.
            local_checkpoint=before.state_store == after.state_store,
        )
        with session(options) as spark:
            old = blobs(spark, str(folder))
            new = regrouped(old.values(), after.buckets)
            if not dry_run:
                _write_state(spark, new, staged)
    aside = None
    if not dry_run and before != after:
        staged.mkdir(exist_ok=True)
        if done is not None:
            _carry_over(folder, staged, done, after)
        os.sync()
        cards.write(staged, structs.replace(card, buckets=after.buckets, state_store=after.state_store))
        aside = cards.switch(folder)
    largest = max(map(len, old.values()), default=0), max(map(len, new.values()), default=0)
    return Resized(before, after, sum(len(Bucket(blob)) for blob in old.values()), largest, aside)


def _write_state(spark: SparkSession, state: Mapping[int, bytes], staged: Path) -> None:
    """One batch of a query whose state is this, in a checkpoint of its own."""
    from streaming.spark.operator import OUTPUT_SCHEMA, STATE_SCHEMA

    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-") as source:
        table = pa.table(
            {"bucket": pa.array(state.keys(), pa.int32()), "blob": pa.array(state.values(), pa.binary())}
        )
        parquet.write_table(table, Path(source) / "state.parquet")
        (
            spark.readStream.schema("bucket int, blob binary")
            .parquet(source)
            .groupBy("bucket")
            .applyInPandasWithState(_keep, OUTPUT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout")
            .writeStream.format("noop")
            .option("checkpointLocation", str(staged.absolute()))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


def _keep(_key: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
    """Keep a bucket's only row as its state."""
    for part in parts:
        state.update((bytes(part.iloc[0, 1]),))
    return iter(())


def _carry_over(folder: Path, staged: Path, done: int, after: Numbers) -> None:
    """Make the staged checkpoint's only batch the last one that the old checkpoint had done."""
    batch = _Batch.read(folder / "offsets" / str(done))
    batch.noted["conf"] |= {
        _PARTITIONS: str(after.shuffle_partitions),
        state_store.PROVIDER: state_store.provider(after.state_store),
    }
    lines = [batch.version, msgspec.json.encode(batch.noted), *batch.offsets]
    (staged / "offsets" / "0").write_bytes(b"\n".join(lines))
    shutil.copy(folder / "metadata", staged / "metadata")
    for rewritten in ("offsets/.0.crc", ".metadata.crc"):  # Hadoop's checksums, of what it wrote
        (staged / rewritten).unlink(missing_ok=True)
    shutil.rmtree(staged / "sources")
    if (folder / "sources").exists():
        shutil.copytree(folder / "sources", staged / "sources")
