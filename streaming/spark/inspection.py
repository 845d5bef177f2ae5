"""What a checkpoint knows, read without a cluster: Spark's own reader of its state store, and our blobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assignors.errors import BadInput
from streaming.monitor.blob import Bucket
from streaming.monitor.tracked import Tracked
from streaming.spark import damage, state_store
from streaming.spark.checkpoint import settle
from streaming.spark.failures import errors, of_checkpoint
from streaming.spark.session import SessionOptions, jvm_path, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoState(BadInput):
    """There is no state of ours at that place."""


class Inspected(NamedTuple):
    """One group of a checkpoint: where it stands, how many bytes it takes, what is known of it."""

    bucket: int
    group_id: str
    size: int
    tracked: Tracked

    def as_json(self) -> bytes:
        """One JSON object; timers in milliseconds since the epoch."""
        state = msgspec.to_builtins(_named(self.tracked.state))
        heard = {member: _named(heard) for member, heard in self.tracked.heard.items()}
        return msgspec.json.encode(
            {
                "groupId": self.group_id,
                "bucket": self.bucket,
                "bytes": self.size,
                "state": state,
                "heard": heard,
                "forgetAt": self.tracked.forget_at or None,
            }
        )


def inspect(checkpoint: str, group_id: str | None = None) -> Iterator[Inspected]:
    """The groups of a checkpoint's last batch, by bucket and name; only ``group_id`` when given.

    Raises:
        NoState: the folder holds no checkpoint of ours, or its job has not finished a batch.
        CheckpointDamaged, CheckpointUnusable: its files are not as Spark left them, or can't be used.
        StateFromTheFuture, CorruptState: a blob can't be read.
        NoJava, SparkUnavailable: Spark can't be had.
    """
    if "://" not in checkpoint:
        settle(Path(checkpoint))
        if not any((Path(checkpoint) / "state").glob("0/*/*")):
            raise NoState(
                f"--checkpoint {checkpoint}: no state there; `stream` writes it with its first batch"
            )
    damage.look(checkpoint)
    store = None if "://" in checkpoint else state_store.of(Path(checkpoint))
    with session(SessionOptions(connector=False, state_store=store)) as spark:
        found = blobs(spark, checkpoint)
    for bucket, blob in sorted(found.items()):
        groups = Bucket(blob)
        for name in groups:
            if group_id is None or name == group_id:
                yield Inspected(bucket, name, groups.size(name), groups.get(name))


def blobs(spark: SparkSession, checkpoint: str) -> dict[int, bytes]:
    """The blob of each bucket after the checkpoint's last batch.

    Raises:
        NoState, CheckpointDamaged, CheckpointUnusable: see :func:`inspect`.
    """
    location = jvm_path(checkpoint)
    try:
        rows = (
            spark.read.format("statestore")
            .load(location)
            .selectExpr("key.bucket AS bucket", "value.groupState.blob AS blob")
            .collect()
        )
    except errors() as error:
        first = str(error).strip().splitlines()[0]
        raise of_checkpoint(error, spark, checkpoint, location) or NoState(
            f"--checkpoint {checkpoint}: its state is not ours to read: {first}"
        ) from error
    return {row.bucket: bytes(row.blob) for row in rows}


def _named(value: Any) -> Any:
    """Structs that the blob keeps as arrays, with their fields' names."""
    if isinstance(value, msgspec.Struct):
        return {
            msgspec_name: _named(getattr(value, name))
            for name, msgspec_name in zip(
                value.__struct_fields__, map(_camel, value.__struct_fields__), strict=True
            )
            if name != "applied" and getattr(value, name) is not msgspec.UNSET
        }
    if isinstance(value, dict):
        return {str(key): _named(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
