"""``java.util.Random``: the generator behind Kafka's random placements, so that a seed means the same here.

A 48-bit linear congruential generator; its constants and ``nextInt`` are specified in the class's documentation.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any

_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1


class JavaRandom:
    """``new Random(seed)``."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _MASK
        return self._state >> (48 - bits)

    def next_int(self, bound: int) -> int:
        """``nextInt(bound)``: uniform in [0, bound)."""
        if bound & -bound == bound:
            return (bound * self._next(31)) >> 31
        while True:
            bits = self._next(31)
            value = bits % bound
            if bits - value + (bound - 1) < 1 << 31:  # the last, short run of values would not be uniform
                return value

    def next_signed(self) -> int:
        """``nextInt()``: any signed 32-bit integer."""
        value = self._next(32)
        return value - (1 << 32) if value >= 1 << 31 else value


def shuffle(items: MutableSequence[Any], random: JavaRandom) -> None:
    """``Collections.shuffle(items, random)``, in place."""
    for size in range(len(items), 1, -1):
        other = random.next_int(size)
        items[size - 1], items[other] = items[other], items[size - 1]
