"""The command ``partition``: reads one key per line and writes one partition per line."""

import base64
import secrets
from collections.abc import Callable
from typing import Literal

import typer

from assignors.errors import BadInput
from assignors.java import JavaRandom
from assignors.partitioner import BuiltInPartitioner, partition_for_key, round_robin
from streaming.cli.json_lines import answer_lines, standard_input
from streaming.cli.options import MaxLineBytes, flag, offline, option
from streaming.cli.output import json_lines

Partitioner = Literal["murmur2", "round-robin", "sticky"]
KeyFormat = Literal["utf8", "base64"]


class InvalidKey(BadInput):
    """The record key is not valid in the format of ``--keys``."""


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

    ``murmur2`` hashes keys; ``round-robin`` is ``RoundRobinPartitioner``, which counts records and ignores their keys;
    ``sticky`` is the producer since 3.3 with ``partitioner.ignore.keys``.
    """
    _require_range("--partitions", partitions, 1)
    if partitioner == "murmur2":
        return lambda key: partition_for_key(key, partitions)
    if partitioner == "round-robin":
        _require_range("--start", start, -(2**31))
        circle = round_robin(partitions, start)
        return lambda _: next(circle)
    _require_range("--record-size", record_size, 1)
    _require_range("--batch-size", batch_size, 1)
    random = JavaRandom(secrets.randbits(48) if seed is None else seed)
    sticky = BuiltInPartitioner(partitions, batch_size, random.next_signed_int)
    return lambda _: sticky.append(record_size)


def _require_range(option: str, number: int, least: int) -> None:
    if not least <= number < 2**31:
        raise BadInput(f"{option}: {number}; must be between {least} and {2**31 - 1}")


def parse_key(line: bytes, keys: KeyFormat) -> bytes:
    """Return the record key in an input line, as bytes."""
    try:
        if keys == "base64":  # standard or url-safe, with padding
            return base64.b64decode(line.translate(bytes.maketrans(b"-_", b"+/")), validate=True)
        line.decode()
    except ValueError as error:
        raise InvalidKey(f"key: is not valid {keys}: {error}") from error
    return line


@offline("printf 'alice\\nbob\\n' | rebalance-monitor partition --partitions 6")
def partition(
    *,
    partitions: int = option("N", "Partitions of the topic.", ...),
    partitioner: Partitioner = flag("--partitioner", "murmur2: by key. round-robin and sticky ignore keys.", "murmur2"),
    keys: KeyFormat = flag("--keys", "Format of the keys.", "utf8"),
    start: int = option("N", "round-robin: first value of its counter.", 0),
    batch_size: int = option("BYTES", "sticky: batch.size of the producer.", 16_384),
    record_size: int = option("BYTES", "sticky: size of each record.", 100),
    seed: int | None = option("N", "sticky: seed of java.util.Random.", None),
    max_line_bytes: MaxLineBytes = None,
) -> None:
    """Compute the partition that a producer would choose for each key.

    Reads one key a line from standard input and writes one partition a line. An empty line is the empty key. A key
    that can't be read gives a line with the error, and the exit status is then 2.
    """
    sizes = {"batch_size": batch_size, "record_size": record_size}
    choose_partition = partition_chooser(partitioner, partitions, start=start, seed=seed, **sizes)
    lines, write = standard_input(), json_lines()

    def answer(line: bytes) -> int:
        return choose_partition(parse_key(line, keys))

    raise typer.Exit(answer_lines(lines, answer, write, limit=max_line_bytes, skip_blank=False))
