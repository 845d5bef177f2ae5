"""``partition``: one key a line in, one partition a line out.

A key that can't be read (not UTF-8, not base64, over the limit) is answered with ``{"error": …}`` on its line.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from typing import BinaryIO, Literal

import msgspec

from assignors.errors import BadInput, MonitorError
from assignors.java import JavaRandom
from assignors.partitioner import BuiltInPartitioner, CountingPartitioner, TopicView, partition_for_key
from streaming.cli.json_lines import BAD_INPUT, MAX_LINE, LineTooLong, error_answer, read_lines
from streaming.cli.output import Progress

Partitioner = Literal["murmur2", "round-robin", "sticky"]
KeyFormat = Literal["utf8", "base64"]

MAX_PARTITIONS = 2**31 - 1


class InvalidKey(BadInput):
    """The key can't be read in the format given."""


def partition_chooser(
    partitioner: Partitioner,
    partitions: int,
    *,
    start: int = 0,
    batch_size: int = 16_384,
    record_size: int = 100,
    seed: int | None = None,
) -> Callable[[bytes], int]:
    """Return the partitioner of that name over ``partitions`` partitions, all of them available.

    Args:
        partitioner: ``murmur2`` hashes keys; ``round-robin`` is ``RoundRobinPartitioner``, which counts records
            whatever their key; ``sticky`` is the producer since 3.3 with ``partitioner.ignore.keys``.
        partitions: 1 to 2147483647.
        start: round robin's first count.
        batch_size: bytes after which sticky goes to another partition (``batch.size``).
        record_size: bytes a record counts for towards that.
        seed: of sticky's random choices, as ``new java.util.Random(seed)``.

    Raises:
        BadInput: an argument out of range.
    """
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise BadInput(f"--partitions: {partitions}; must be between 1 and {MAX_PARTITIONS}")
    view = TopicView(partitions)
    if partitioner == "murmur2":
        return lambda key: partition_for_key(key, partitions)
    if partitioner == "round-robin":
        if not -(2**31) <= start < 2**31:
            raise BadInput(f"--start: {start} is no 32-bit integer")
        counter = CountingPartitioner(lambda: start, ignore_keys=True)
        return lambda _: counter.partition("", None, view)
    if record_size < 1:
        raise BadInput(f"--record-size: {record_size}; at least 1 byte")
    if not 1 <= batch_size < 2**31:
        raise BadInput(f"--batch-size: {batch_size}; must be between 1 and {2**31 - 1} bytes")
    random = JavaRandom(secrets.randbits(48) if seed is None else seed)
    sticky = BuiltInPartitioner(batch_size, random.next_signed)

    def choose(_: bytes) -> int:
        partition = sticky.partition(None, view)
        sticky.appended(record_size, view)
        return partition

    return choose


def partition_lines(
    source: BinaryIO,
    target: BinaryIO,
    choose: Callable[[bytes], int],
    *,
    keys: KeyFormat = "utf8",
    limit: int | None = None,
) -> int:
    """Answer every line (an empty line is the empty key); return 2 if one was answered with an error, else 0."""
    limit = limit or MAX_LINE
    status = 0
    with Progress("keys placed") as progress:
        for line in read_lines(source, limit):
            try:
                if line.data is None:
                    raise LineTooLong(f"line {line.number}: longer than {limit} bytes, the limit")
                target.write(b"%d\n" % choose(_key(line.data, line.number, keys)))
            except MonitorError as error:
                status = BAD_INPUT
                target.write(msgspec.json.encode(error_answer(error)) + b"\n")
            target.flush()
            progress.step()
    return status


def _key(line: bytes, number: int, keys: KeyFormat) -> bytes:
    try:
        if keys == "base64":  # standard or url-safe, with padding
            return base64.b64decode(line.translate(_STANDARD), validate=True)
        line.decode()
    except ValueError as error:
        raise InvalidKey(f"line {number}: not {keys}: {error}") from error
    return line


_STANDARD = bytes.maketrans(b"-_", b"+/")
