"""Changes the number of buckets and the number of shuffle partitions of a stopped job's checkpoint.

Both numbers decide a group's place in the state. So a new checkpoint is created beside the old one: Spark itself writes
the state, in a query of one batch whose rows are the new buckets' blobs, and that batch gets the old checkpoint's
offsets and query id. Two renames replace the old checkpoint; the next command that opens it finishes an interrupted
switch.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from msgspec import Struct, field, structs
from pyarrow import parquet

from assignors.errors import BadInput
from streaming.monitor.bucket_state import Bucket
from streaming.spark import checkpoint as checkpoints
from streaming.spark import failures
from streaming.spark.checkpoint import LocalCheckpoint, Metadata, OffsetsFile
from streaming.spark.session import SessionOptions, session
from streaming.spark.state import blobs, regroup_buckets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: State on disk per bucket (bytes): the size from which batches get slow, and the target size.
_SLOW_BUCKET_BYTES: Final = 100_000
_TARGET_BUCKET_BYTES: Final = 30_000


class Layout(Struct, frozen=True, rename="camel"):
    """A checkpoint's number of buckets and of shuffle partitions (None until its first batch fixes the number)."""

    buckets: int
    shuffle_partitions: int | None


class ResizeResult(Struct, frozen=True, rename="camel"):
    """The result of a resize.

    ``largest_bytes`` has the size of the largest bucket ``before`` and ``after``. ``old_checkpoint`` is the
    path of the old checkpoint; None after a dry run, and if nothing had to be changed.
    """

    before: Layout
    after: Layout
    groups: int
    largest_bytes: dict[str, int]
    old_checkpoint: str | None = field(name="aside")

    def lines(self) -> Iterator[str]:
        """Yield lines of text about the result of the resize."""
        yield f"buckets: {_change(self.before.buckets, self.after.buckets)}"
        yield f"shuffle partitions: {_change(self.before.shuffle_partitions, self.after.shuffle_partitions)}"
        yield f"groups: {self.groups}; largest bucket, bytes: {_change(*self.largest_bytes.values())}"
        if self.old_checkpoint is not None:
            yield f"done; the old checkpoint is {self.old_checkpoint}, to be deleted when the job runs well"


def _change(before: int | None, after: int | None) -> str:
    text = "not chosen yet" if before is None else f"{before:,}"
    return text if before == after else f"{text} → {after:,}"


def resize(checkpoint: str, buckets: int | None, shuffle_partitions: int | None, *, dry_run: bool) -> ResizeResult:
    """Change the numbers of buckets and shuffle partitions of a checkpoint that no job uses; None changes nothing."""
    if checkpoints.is_remote(checkpoint):
        raise BadInput(f"--checkpoint {checkpoint}: only a checkpoint in a folder can be resized")
    folder = Path(checkpoint)
    try:
        checkpoints.settle(folder)
        # A folder without a checkpoint stays unlocked and unchanged.
        if LocalCheckpoint(checkpoint).read() is not None:
            with LocalCheckpoint(checkpoint) as store:
                if (metadata := store.read()) is not None:
                    checkpoints.require_release(checkpoint, metadata)
                    before = layout(folder, metadata)
                    after = Layout(buckets or before.buckets, shuffle_partitions or before.shuffle_partitions)
                    return _resize(folder, metadata, before, after, dry_run=dry_run)
    except OSError as error:
        raise failures.unusable_checkpoint(checkpoint, error) from error
    raise BadInput(f"--checkpoint {checkpoint}: contains no checkpoint of this program")


def layout(folder: Path, metadata: Metadata) -> Layout:
    """Return a checkpoint's numbers of buckets and shuffle partitions."""
    batch = checkpoints.last_batch(folder / "offsets")
    return Layout(metadata.buckets, None if batch is None else OffsetsFile.read(folder, batch).shuffle_partitions)


def resize_advice(folder: Path) -> str | None:
    """Return advice to resize if the checkpoint's buckets are too large; else None."""
    metadata = LocalCheckpoint(str(folder)).read() if (folder / checkpoints.METADATA_FILE).exists() else None
    try:
        total = checkpoints.state_bytes(folder)
    except OSError as error:
        raise failures.unusable_checkpoint(str(folder), error) from error
    if metadata is None or total <= _SLOW_BUCKET_BYTES * metadata.buckets:
        return None
    buckets = 1 << (total // _TARGET_BUCKET_BYTES).bit_length()
    each = total // metadata.buckets // 1000
    return (
        f"its state has outgrown its {metadata.buckets} buckets (some {each} kB each on disk): "
        f"stop the job, then `rebalance-monitor stream resize --checkpoint {folder} --buckets {buckets}`"
    )


def _resize(folder: Path, metadata: Metadata, before: Layout, after: Layout, *, dry_run: bool) -> ResizeResult:
    staged_folder = checkpoints.staging_folder(folder)
    shutil.rmtree(staged_folder, ignore_errors=True)  # left by an interrupted resize
    done = checkpoints.last_batch(folder / "commits")
    if done is None and before.shuffle_partitions != after.shuffle_partitions:
        raise BadInput(
            f"--checkpoint {folder}: no batch is finished; delete the folder, and start `stream` with the new numbers"
        )
    old, new = dict[int, bytes](), dict[int, bytes]()
    if done is not None and (dry_run or before != after):
        with session(SessionOptions(connector=False, shuffle_partitions=after.shuffle_partitions or 1)) as spark:
            old = blobs(spark, str(folder))
            new = regroup_buckets(old.values(), after.buckets)
            if not dry_run:
                _write_state(spark, new, staged_folder)
    old_checkpoint = None
    if not dry_run and before != after:
        staged_folder.mkdir(exist_ok=True)
        if done is not None:
            _copy_state(folder, staged_folder, done, after)
        os.sync()
        LocalCheckpoint(str(staged_folder)).write(structs.replace(metadata, buckets=after.buckets))
        old_checkpoint = str(checkpoints.replace_checkpoint(folder))
    sizes = {"before": max(map(len, old.values()), default=0), "after": max(map(len, new.values()), default=0)}
    return ResizeResult(before, after, sum(len(Bucket(blob)) for blob in old.values()), sizes, old_checkpoint)


def _write_state(spark: "SparkSession", state: Mapping[int, bytes], staged_folder: Path) -> None:
    from streaming.spark.operator import OUTPUT_SCHEMA, STATE_SCHEMA

    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-") as source:
        table = pa.table({"bucket": pa.array(state.keys(), pa.int32()), "blob": pa.array(state.values(), pa.binary())})
        parquet.write_table(table, Path(source) / "state.parquet")
        (
            spark.readStream.schema("bucket int, blob binary")
            .parquet(source)
            .groupBy("bucket")
            .applyInPandasWithState(_store_bucket, OUTPUT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout")
            .writeStream.format("noop")
            .option("checkpointLocation", str(staged_folder.absolute()))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


def _store_bucket(_key: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
    """Store the bytes in the only input row of a bucket as the state of the bucket."""
    for part in parts:
        state.update((bytes(part.iloc[0, 1]),))
    return iter(())


def _copy_state(folder: Path, staged_folder: Path, done: int, after: Layout) -> None:
    """Turn the staged checkpoint's only batch into the old checkpoint's last committed batch."""
    batch = OffsetsFile.read(folder, done)
    batch.metadata["conf"][checkpoints.SHUFFLE_PARTITIONS] = str(after.shuffle_partitions)
    lines = [batch.version, msgspec.json.encode(batch.metadata), *batch.sources]
    (staged_folder / "offsets" / "0").write_bytes(b"\n".join(lines))
    shutil.copy(folder / "metadata", staged_folder / "metadata")
    for checksum in ("offsets/.0.crc", ".metadata.crc"):  # Hadoop's checksums of the files before the rewrite
        (staged_folder / checksum).unlink(missing_ok=True)
    shutil.rmtree(staged_folder / "sources")
    if (folder / "sources").exists():
        shutil.copytree(folder / "sources", staged_folder / "sources")
