"""Damages bytes: truncates them, changes their version, or replaces numbers in them."""

import random
from struct import pack

EDGE_NUMBERS = (-1, -2, 0, 1, 2, 127, 255, 32_767, 2**31 - 1, -(2**31))


def damaged_bytes(rng: random.Random, data: bytes, *, head: int = 0) -> bytes:
    """Return the bytes with up to two changes after the first ``head`` bytes, sometimes also truncated."""
    for _ in range(rng.randrange(3)):
        if len(data) <= head:
            break
        at = rng.randrange(head, len(data))
        edge = rng.choice(EDGE_NUMBERS)
        put = rng.choice((b"", pack(">i", edge), pack(">h", edge) if -32_768 <= edge < 32_768 else b"\xff", b"\x00"))
        data = data[:at] + put + data[at + rng.choice((0, 1, 2, 4)) :]
    return data[: rng.randrange(head, len(data) + 1)] if rng.random() < 0.15 else data
