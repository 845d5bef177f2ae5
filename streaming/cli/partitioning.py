"""``partition``: one key a line in, one partition a line out, in blocks: millions of lines a second.

A key that can't be read (not UTF-8, not base64, over the limit) is answered with ``{"error": …}`` on its line.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Literal, Protocol

import msgspec

from assignors.errors import BadInput, MonitorError
from assignors.java_random import JavaRandom
from assignors.partitioner import partition_for_key
from assignors.partitioner.columns import KeySpans, partition_column
from assignors.partitioner.eras import BuiltInPartitioner, CountingPartitioner, TopicView
from streaming.cli.json_lines import BAD_INPUT, MAX_LINE, LineTooLong, error_answer
from streaming.cli.output import Progress

Partitioner = Literal["murmur2", "round-robin", "sticky"]
KeyFormat = Literal["utf8", "base64"]

MAX_PARTITIONS = 2**31 - 1
#: Read at once; also the room a block's temporaries take, a few times over.
BLOCK = 1 << 20
#: Numbers up to here are written from a table.
_TABLE = 1 << 16
_BOM = b"\xef\xbb\xbf"


class InvalidKey(BadInput):
    """The key can't be read in the format given."""


class PartitionChooser(Protocol):
    """Chooses partitions of keys, in order."""

    def one(self, key: bytes) -> int:
        """The partition of one key."""
        ...

    def lines(self, region: bytes) -> list[int]:
        """The partitions of whole lines of UTF-8, each ended by a line feed."""
        ...


class _Murmur2:
    """The key's hash over all partitions."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def one(self, key: bytes) -> int:
        return partition_for_key(key, self._partitions)

    def lines(self, region: bytes) -> list[int]:
        import numpy as np

        data = np.frombuffer(region, np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
        lengths = ends - starts
        lengths -= (lengths > 0) & (data[ends - 1] == ord("\r"))
        found: list[int] = partition_column(KeySpans(data, starts, lengths), self._partitions).tolist()
        return found


class _Counting:
    """A choice that looks at no key."""

    def __init__(self, choose: Callable[[], int]) -> None:
        self._choose = choose

    def one(self, key: bytes) -> int:
        del key
        return self._choose()

    def lines(self, region: bytes) -> list[int]:
        return [self._choose() for _ in range(region.count(b"\n"))]


def partition_chooser(
    partitioner: Partitioner,
    partitions: int,
    *,
    start: int = 0,
    batch_size: int = 16_384,
    record_size: int = 100,
    seed: int | None = None,
) -> PartitionChooser:
    """The partitioner of that name over ``partitions`` partitions, all of them available.

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
        return _Murmur2(partitions)
    if partitioner == "round-robin":
        if not -(2**31) <= start < 2**31:
            raise BadInput(f"--start: {start} is no 32-bit integer")
        counter = CountingPartitioner(lambda: start, ignore_keys=True)
        return _Counting(lambda: counter.partition("", None, view))
    if record_size < 1:
        raise BadInput(f"--record-size: {record_size}; at least 1 byte")
    if not 1 <= batch_size < 2**31:
        raise BadInput(f"--batch-size: {batch_size}; must be between 1 and {2**31 - 1} bytes")
    random = JavaRandom(secrets.randbits(48) if seed is None else seed)
    sticky = BuiltInPartitioner(batch_size, random.next_signed)

    def choose() -> int:
        partition = sticky.partition(None, view)
        sticky.appended(record_size, view)
        return partition

    return _Counting(choose)


def partition_lines(
    source: BinaryIO,
    target: BinaryIO,
    chosen: PartitionChooser,
    *,
    keys: KeyFormat = "utf8",
    partitions: int = MAX_PARTITIONS,
    limit: int | None = None,
) -> int:
    """Answer every line (an empty line is the empty key); 2 when one was answered with an error, else 0."""
    limit = limit or MAX_LINE
    failed = False
    number = 1
    table = [b"%d\n" % partition for partition in range(min(partitions, _TABLE))]
    with Progress("keys placed") as progress:
        for region in _read_regions(source, limit):
            found: Sequence[int | MonitorError]
            if region is None:
                found = [LineTooLong(f"line {number}: longer than {limit} bytes, the limit")]
            else:
                found = _region_partitions(region, chosen, keys, number)
            failed = failed or any(isinstance(answer, MonitorError) for answer in found)
            target.write(_encode_partitions(found, table))
            target.flush()
            number += len(found)
            progress.step(len(found))
    return BAD_INPUT if failed else 0


def _region_partitions(
    region: bytes, chosen: PartitionChooser, keys: KeyFormat, number: int
) -> Sequence[int | MonitorError]:
    if keys == "utf8" and _is_utf8(region):
        return chosen.lines(region)
    read = _utf8 if keys == "utf8" else _base64
    answers: list[int | MonitorError] = []
    for at, line in enumerate(region.removesuffix(b"\n").split(b"\n")):
        try:
            answers.append(chosen.one(read(line.removesuffix(b"\r"))))
        except (binascii.Error, ValueError) as error:
            answers.append(InvalidKey(f"line {number + at}: not {keys}: {error}"))
    return answers


def _is_utf8(region: bytes) -> bool:
    try:
        region.decode()
    except UnicodeDecodeError:
        return False
    return True


def _utf8(line: bytes) -> bytes:
    line.decode()
    return line


def _base64(line: bytes) -> bytes:
    """Standard or url-safe, with padding."""
    return base64.b64decode(line.replace(b"-", b"+").replace(b"_", b"/"), validate=True)


def _encode_partitions(answers: Sequence[int | MonitorError], table: Sequence[bytes]) -> bytes:
    try:
        return b"".join([table[partition] for partition in answers])  # type: ignore[index] # errors: see below
    except (IndexError, TypeError):  # a large number, or an error: written one by one
        return b"".join(
            msgspec.json.encode(error_answer(answer)) + b"\n"
            if isinstance(answer, MonitorError)
            else b"%d\n" % answer
            for answer in answers
        )


def _read_regions(source: BinaryIO, limit: int) -> Iterator[bytes | None]:
    """Whole lines, each ended by a line feed, as they arrive; None for a line over ``limit`` bytes."""
    read = getattr(source, "read1", source.read)  # what is there, so that a person at a terminal is answered
    held = bytearray()
    start_of_input = True
    skipping = False
    while block := read(BLOCK):
        if skipping:
            end = block.find(b"\n") + 1
            skipping = end == 0
            block = block[end:] if end else b""
        held += block
        if start_of_input and held and not (len(held) < len(_BOM) and _BOM.startswith(held)):
            start_of_input = False
            if held.startswith(_BOM):
                del held[: len(_BOM)]
        cut = held.rfind(b"\n") + 1
        if cut:
            yield from _split_region(bytes(held[:cut]), limit)
            del held[:cut]
        if len(held) > limit:
            yield None
            held.clear()
            skipping = True
    if held:
        yield from _split_region(bytes(held) + b"\n", limit)


def _split_region(region: bytes, limit: int) -> Iterator[bytes | None]:
    """The region, cut where one of its lines (without its end) is over ``limit`` bytes."""
    if len(region) <= limit:
        yield region
        return
    start = 0
    kept = 0
    while start < len(region):
        end = region.index(b"\n", start) + 1
        if len(region[start:end].removesuffix(b"\n").removesuffix(b"\r")) > limit:
            if kept < start:
                yield region[kept:start]
            yield None
            kept = end
        start = end
    if kept < start:
        yield region[kept:start]
