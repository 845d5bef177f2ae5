"""The command ``partition``: one key a line in, one partition a line out."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from typing import Annotated, Literal

import typer

from assignors.errors import BadInput
from assignors.java import JavaRandom
from assignors.partitioner import BuiltInPartitioner, partition_for_key, round_robin
from streaming.cli.json_lines import answer_lines, standard_input
from streaming.cli.options import MaxLineBytes, command, flag, offline, option
from streaming.cli.output import json_lines

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
    """Return a function that chooses a partition for a key; all partitions are available.

    Args:
        partitioner: ``murmur2`` hashes keys; ``round-robin`` is ``RoundRobinPartitioner``, which counts records
            whatever their key; ``sticky`` is the producer since 3.3 with ``partitioner.ignore.keys``.
        partitions: 1 to 2147483647.
        start: first value of round robin's counter.
        batch_size: bytes after which sticky chooses another partition (``batch.size``).
        record_size: bytes of each record.
        seed: seed of ``java.util.Random`` for sticky's choices.
    """
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise BadInput(f"--partitions: {partitions}; must be between 1 and {MAX_PARTITIONS}")
    if partitioner == "murmur2":
        return lambda key: partition_for_key(key, partitions)
    if partitioner == "round-robin":
        if not -(2**31) <= start < 2**31:
            raise BadInput(f"--start: {start} is no 32-bit integer")
        circle = round_robin(partitions, start)
        return lambda _: next(circle)
    if record_size < 1:
        raise BadInput(f"--record-size: {record_size}; at least 1 byte")
    if not 1 <= batch_size < 2**31:
        raise BadInput(f"--batch-size: {batch_size}; must be between 1 and {2**31 - 1} bytes")
    random = JavaRandom(secrets.randbits(48) if seed is None else seed)
    sticky = BuiltInPartitioner(partitions, batch_size, random.next_signed)
    return lambda _: sticky.append(record_size)


def parse_key(line: bytes, keys: KeyFormat) -> bytes:
    """Return the key of a line."""
    try:
        if keys == "base64":  # standard or url-safe, with padding
            return base64.b64decode(line.translate(_STANDARD), validate=True)
        line.decode()
    except ValueError as error:
        raise InvalidKey(f"key: not {keys}: {error}") from error
    return line


_STANDARD = bytes.maketrans(b"-_", b"+/")


@command("printf 'alice\\nbob\\n' | rebalance-monitor partition --partitions 6")
@offline
def partition(
    *,
    partitions: Annotated[int, option("--partitions", "N", "Partitions of the topic.")],
    partitioner: Annotated[
        Partitioner, flag("--partitioner", "murmur2: by key. round-robin and sticky ignore keys.")
    ] = "murmur2",
    keys: Annotated[KeyFormat, flag("--keys", "Format of the keys.")] = "utf8",
    start: Annotated[int, option("--start", "N", "round-robin: first value of its counter.")] = 0,
    batch_size: Annotated[int, option("--batch-size", "BYTES", "sticky: batch.size of the producer.")] = 16_384,
    record_size: Annotated[int, option("--record-size", "BYTES", "sticky: size of each record.")] = 100,
    seed: Annotated[int | None, option("--seed", "N", "sticky: seed of java.util.Random.")] = None,
    max_line_bytes: MaxLineBytes = None,
) -> None:
    """Compute the partition that a producer would choose for each key.

    Reads one key a line from standard input and writes one partition a line. An empty line is the empty key. A key
    that can't be read gives a line with the error, and the exit status is then 2.
    """
    choose = partition_chooser(
        partitioner, partitions, start=start, batch_size=batch_size, record_size=record_size, seed=seed
    )
    status = answer_lines(
        standard_input(),
        lambda line: choose(parse_key(line, keys)),
        json_lines(),
        limit=max_line_bytes,
        skip_blank=False,
    )
    raise typer.Exit(status)
