"""Reads the state in a checkpoint, which has one blob per bucket of groups.

Spark reads its own state as a table (``spark.read.format("statestore")``) with one row per bucket.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

import msgspec

from assignors.errors import BadInput
from streaming.monitor.bucket_state import Bucket, TrackedGroup
from streaming.spark.checkpoint import is_remote, last_batch, settle
from streaming.spark.failures import checkpoint_failure, spark_errors, unusable_checkpoint
from streaming.spark.session import SessionOptions, jvm_path, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UINT32_MASK: Final = 0xFFFFFFFF
#: Spark's seed for hash partitioning.
_SEED: Final = 42
#: The most buckets whose numbers are chosen: more buckets are spread evenly by chance, and their list is too long.
_MAX_SPREAD_BUCKETS: Final = 256


class InspectedGroup(NamedTuple):
    """One group in a checkpoint: its bucket, its id, its size in bytes and its state."""

    bucket: int
    group_id: str
    size: int
    tracked: TrackedGroup

    def as_json(self) -> bytes:
        """Return the group's state as one JSON object, with timers in milliseconds since the epoch."""
        place = {"groupId": self.group_id, "bucket": self.bucket, "bytes": self.size}
        return msgspec.json.encode(place | _fields(self.tracked))


def groups(blob: bytes) -> dict[str, Mapping[str, Any]]:
    """Return the state of each group in a bucket as plain dicts, by group id.

    ``blob``: ``value.groupState.blob`` of a row of ``spark.read.format("statestore").load(checkpoint)``.
    """
    bucket = Bucket(bytes(blob))
    return {group_id: _fields(bucket.get(group_id)) for group_id in bucket}


def inspect_groups(checkpoint: str, group_id: str | None = None) -> Iterator[InspectedGroup]:
    """Yield the groups in a checkpoint's last batch, by bucket and id; only the group ``group_id`` if given."""
    if not is_remote(checkpoint):
        folder = Path(checkpoint)
        try:
            settle(folder)
            if last_batch(folder / "offsets") is None or not any((folder / "state").glob("0/*/*")):
                raise BadInput(f"--checkpoint {checkpoint}: has no state yet; `stream` writes it with its first batch")
        except OSError as error:
            raise unusable_checkpoint(checkpoint, error) from error
    with session(SessionOptions(connector=False)) as spark:
        buckets = blobs(spark, checkpoint)
    for number, blob in sorted(buckets.items()):
        bucket = Bucket(blob)
        for name in bucket:
            if group_id is None or name == group_id:
                yield InspectedGroup(number, name, bucket.size(name), bucket.get(name))


def blobs(spark: "SparkSession", checkpoint: str) -> dict[int, bytes]:
    """Return the blob of each bucket after the checkpoint's last batch, by bucket number."""
    location = jvm_path(checkpoint)
    # This creates the StateStoreCoordinator, without which the reader of Spark 4.2.0 fails ("Cannot find endpoint").
    _ = spark.streams.active
    try:
        rows = (
            spark.read.format("statestore")
            .load(location)
            .selectExpr("key.bucket AS bucket", "value.groupState.blob AS blob")
            .collect()
        )
    except spark_errors() as error:
        raise checkpoint_failure(error, checkpoint, location) or BadInput(
            f"--checkpoint {checkpoint}: this program can't read its state: {str(error).strip().splitlines()[0]}"
        ) from error
    return {row.bucket: bytes(row.blob) for row in rows}


def bucket_numbers(buckets: int) -> list[int]:
    """Return the numbers of the buckets, chosen so that Spark spreads the buckets evenly over its tasks.

    A bucket goes to the task ``pmod(murmur3(number), tasks)``. With the numbers 0 to 15 two tasks get 7 and 9 buckets,
    and a batch takes as long as its longest task. Numbers whose hashes modulo ``buckets`` are all different are spread
    evenly over any number of tasks that divides ``buckets``.
    """
    if buckets > _MAX_SPREAD_BUCKETS:
        return list(range(buckets))
    chosen: dict[int, int] = {}
    number = 0
    while len(chosen) < buckets:
        chosen.setdefault(murmur3(number) % buckets, number)
        number += 1
    return [chosen[place] for place in range(buckets)]


def regroup_buckets(blobs: Iterable[bytes], buckets: int) -> dict[int, bytes]:
    """Distribute the groups over ``buckets`` buckets; return the blob of each bucket that has groups.

    The CRC-32 of a group's key decides its bucket, as in the query (:func:`streaming.spark.query.select_input`).
    """
    numbers = bucket_numbers(buckets)
    new_buckets: defaultdict[int, Bucket] = defaultdict(Bucket)
    for blob in blobs:
        bucket = Bucket(blob)
        for group_id in bucket:
            new_buckets[numbers[crc32(group_id.encode()) % buckets]].take_over_group(bucket, group_id)
    return {number: bucket.pack() for number, bucket in sorted(new_buckets.items())}


def murmur3(number: int) -> int:
    """Return Spark's signed hash of an ``int`` (``Murmur3_x86_32.hashInt``)."""
    word = _rotate(number * 0xCC9E2D51 & _UINT32_MASK, 15) * 0x1B873593 & _UINT32_MASK
    mixed = (_rotate(_SEED ^ word, 13) * 5 + 0xE6546B64) & _UINT32_MASK
    mixed ^= 4  # the length of an int in bytes
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _UINT32_MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _UINT32_MASK
    mixed ^= mixed >> 16
    return mixed - (mixed >> 31 << 32)


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _UINT32_MASK


def _fields(tracked: TrackedGroup) -> dict[str, Any]:
    heartbeats = {member: _with_field_names(heartbeat) for member, heartbeat in tracked.heartbeats.items()}
    state = msgspec.to_builtins(_with_field_names(tracked.state))
    return {"state": state, "heard": heartbeats, "forgetAt": tracked.forget_at or None}


def _with_field_names(value: Any) -> Any:
    """Return a value with its structs, which are arrays in the blob, as dicts with camelCase field names."""
    if isinstance(value, msgspec.Struct):
        return {
            re.sub(r"_(\w)", lambda match: match[1].upper(), name): _with_field_names(field)
            for name in value.__struct_fields__
            if name != "applied" and (field := getattr(value, name)) is not msgspec.UNSET
        }
    if isinstance(value, dict):
        return {str(key): _with_field_names(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_field_names(item) for item in value]
    return value
