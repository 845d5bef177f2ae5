"""murmur2 against the JVM's and kafka-python's, in one run: ``make bench-partitioner``.

Vectorised: all keys in one call, against a warm loop over ``Utils.murmur2``. Scalar: one call a key, against
``kafka.partitioner.default.murmur2``. Both sides hash the same keys, and must agree.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from assignors.partitioner import murmur2
from assignors.partitioner.columns import murmur2_column
from benchmarks._document import machine, put, table
from tests.oracle.driver import Oracle

WIDTHS = (4, 8, 16, 36, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000, help="keys of 16 bytes, vectorised")
    parser.add_argument("--scalar-keys", type=int, default=200_000, help="keys a width, one by one")
    parser.add_argument("--rounds", type=int, default=7, help="the best counts")
    parser.add_argument("--document", action="store_true", help="write docs/benchmarks.md too")
    options = parser.parse_args()
    text = "\n\n".join(
        [
            "## Partitioner",
            f"{machine()}; keys made from seed 1; best of {options.rounds} rounds.",
            vectorised(options.keys, options.rounds),
            scalar(options.scalar_keys, options.rounds),
        ]
    )
    print(text)
    if options.document:
        put("partitioner", text)


def vectorised(count: int, rounds: int) -> str:
    matrix = keys_of_16_bytes(count)
    with Oracle("current") as oracle:
        (java,) = oracle.ask([{"family": "partitioner", "ask": "bench", "keys": count, "rounds": rounds}])
    reference = min(java["nanoseconds"]) / 1e9
    binary = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(matrix)])
    columns: dict[str, Any] = {
        "NumPy, uint8 matrix": matrix,
        "Arrow, fixed_size_binary[16]": binary,
        "Arrow, binary": binary.cast(pa.binary()),
    }
    rows = [[f"JVM, loop over Utils.murmur2, {count:,} keys of 16 bytes", f"{reference * 1e3:.0f}", "1.00"]]
    for name, column in columns.items():
        if int(murmur2_column(column).sum(dtype=np.int64)) != java["sum"]:
            raise SystemExit(f"{name}: not the JVM's hashes")
        seconds = best(lambda column=column: murmur2_column(column), rounds)
        rows.append([name, f"{seconds * 1e3:.0f}", f"{seconds / reference:.2f}"])
    return table(["vectorised", "ms", "ratio to the JVM"], rows)


def scalar(count: int, rounds: int) -> str:
    rng = np.random.default_rng(1)
    rows = []
    for width in WIDTHS:
        keys = [rng.bytes(width) for _ in range(count)]
        if [murmur2(key) & 0xFFFFFFFF for key in keys] != [
            kafka_python_murmur2(key) & 0xFFFFFFFF for key in keys
        ]:
            raise SystemExit(f"{width} bytes: not kafka-python's hashes")
        ours = theirs = float("inf")
        for _ in range(rounds):  # in turns, so that both meet the same disturbances
            ours = min(ours, best(lambda keys=keys: [murmur2(key) for key in keys], 1))
            theirs = min(theirs, best(lambda keys=keys: [kafka_python_murmur2(key) for key in keys], 1))
        rows.append(
            [
                f"{width} bytes",
                f"{ours / count * 1e9:.0f}",
                f"{theirs / count * 1e9:.0f}",
                f"{theirs / ours:.2f}",
            ]
        )
    return table(["scalar", "ns a key", "kafka-python", "times as fast"], rows)


def keys_of_16_bytes(count: int) -> np.ndarray:
    """One key a row; the JVM's side makes the same."""
    words = np.empty((count, 2), "<u8")
    words[:, 0] = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words[:, 1] = words[:, 0] ^ (words[:, 0] >> np.uint64(31))
    return words.view(np.uint8)


def best(work: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest round."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
