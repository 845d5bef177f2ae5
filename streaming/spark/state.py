"""The groups of a checkpoint: a decoder for Spark's state reader, and ``stream inspect-state``.

Spark reads its own state as a table (``spark.read.format("statestore")``). Each row is a bucket of groups, as one
blob; :func:`groups` decodes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assignors.errors import BadInput
from streaming.monitor.bucket_state import Bucket, Tracked
from streaming.spark import state_store
from streaming.spark.checkpoint import settle
from streaming.spark.failures import errors, of_checkpoint, unusable
from streaming.spark.session import SessionOptions, jvm_path, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoState(BadInput):
    """There is no state of ours at that place."""


class Inspected(NamedTuple):
    """One group of a checkpoint: its bucket, its name, its bytes and its state."""

    bucket: int
    group_id: str
    size: int
    tracked: Tracked

    def as_json(self) -> bytes:
        """Return one JSON object; timers in milliseconds since the epoch."""
        place = {"groupId": self.group_id, "bucket": self.bucket, "bytes": self.size}
        return msgspec.json.encode(place | _fields(self.tracked))


def groups(blob: bytes) -> dict[str, Mapping[str, Any]]:
    """Return the state of each group of a bucket, as plain dicts, by group id.

    Args:
        blob: ``value.groupState.blob`` of a row of ``spark.read.format("statestore").load(checkpoint)``.

    Raises:
        StateFromTheFuture: a newer release wrote it.
        CorruptState: it is none of ours.
    """
    bucket = Bucket(bytes(blob))
    return {group_id: _fields(bucket.get(group_id)) for group_id in bucket}


def inspect(checkpoint: str, group_id: str | None = None) -> Iterator[Inspected]:
    """Yield the groups of a checkpoint's last batch, by bucket and name; only ``group_id`` when given.

    Raises:
        NoState: the folder holds no checkpoint of ours, or its job has not finished a batch.
        CheckpointDamaged, CheckpointUnusable: its files are not as Spark left them, or can't be used.
        StateFromTheFuture, CorruptState: a blob can't be read.
        NoJava, SparkUnavailable: Spark can't be had.
    """
    store: state_store.StateStore | None = None
    if "://" not in checkpoint:
        try:
            settle(Path(checkpoint))
            if not any((Path(checkpoint) / "state").glob("0/*/*")):
                raise NoState(
                    f"--checkpoint {checkpoint}: no state there; `stream` writes it with its first batch"
                )
            store = state_store.of(Path(checkpoint))
        except OSError as error:
            raise unusable(checkpoint, error) from error
    with session(SessionOptions(connector=False, state_store=store)) as spark:
        found = blobs(spark, checkpoint)
    for bucket, blob in sorted(found.items()):
        opened = Bucket(blob)
        for name in opened:
            if group_id is None or name == group_id:
                yield Inspected(bucket, name, opened.size(name), opened.get(name))


def blobs(spark: SparkSession, checkpoint: str) -> dict[int, bytes]:
    """Return the blob of each bucket after the checkpoint's last batch.

    Raises:
        NoState, CheckpointDamaged, CheckpointUnusable: see :func:`inspect`.
    """
    location = jvm_path(checkpoint)
    # This makes the StateStoreCoordinator that tasks ask: 4.2.0's reader fails without ("Cannot find endpoint").
    _ = spark.streams.active
    try:
        rows = (
            spark.read.format("statestore")
            .load(location)
            .selectExpr("key.bucket AS bucket", "value.groupState.blob AS blob")
            .collect()
        )
    except errors() as error:
        first = str(error).strip().splitlines()[0]
        raise of_checkpoint(error, checkpoint, location) or NoState(
            f"--checkpoint {checkpoint}: its state is not ours to read: {first}"
        ) from error
    return {row.bucket: bytes(row.blob) for row in rows}


def _fields(tracked: Tracked) -> dict[str, Any]:
    heard = {member: _named(heard) for member, heard in tracked.heard.items()}
    state = msgspec.to_builtins(_named(tracked.state))
    return {"state": state, "heard": heard, "forgetAt": tracked.forget_at or None}


def _named(value: Any) -> Any:
    """Return structs that the blob keeps as arrays as dicts, with their fields' names."""
    if isinstance(value, msgspec.Struct):
        return {
            _camel(name): _named(field)
            for name in value.__struct_fields__
            if name != "applied" and (field := getattr(value, name)) is not msgspec.UNSET
        }
    if isinstance(value, dict):
        return {str(key): _named(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
