"""Java's hash codes and iteration orders, on which Kafka's assignments depend, and Kafka's Uuids.

Hash codes are signed 32-bit; strings are UTF-16. Checked against the JVM in ``tests/oracle/assignors/test_java.py``.
"""

import base64
import binascii
import struct
from collections.abc import Iterable, MutableSequence, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import eq
from typing import Any

from assignors.errors import BadInput
from assignors.java_hash_table import DEFAULT_CAPACITY, TREEIFY_ABOVE, HashTable, threshold

_UINT32_MASK = 0xFFFFFFFF
_SIGN_BIT = 0x80000000
_NOT_URL_SAFE = str.maketrans("+/", "!!")


def signed(value: int) -> int:
    """Return the low 32 bits of a number as a Java ``int``."""
    return ((value & _UINT32_MASK) ^ _SIGN_BIT) - _SIGN_BIT


@lru_cache(maxsize=1 << 16)  # A Java String also caches its hash code.
def string_hash(text: str) -> int:
    """Return ``String.hashCode``: h = 31·h + unit over the UTF-16 units."""
    value = 0
    for (unit,) in struct.iter_unpack(">H", string_key(text)):
        value = (31 * value + unit) & _UINT32_MASK
    return signed(value)


@lru_cache(maxsize=1 << 16)
def string_key(text: str) -> bytes:
    """Return the sort key of ``String.compareTo``: UTF-16 units, which put astral characters before U+E000…U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def in_string_order(texts: Iterable[str]) -> list[str]:
    """Return the strings sorted as by Java's ``String.compareTo``."""
    texts = list(texts)
    return sorted(texts) if all(map(str.isascii, texts)) else sorted(texts, key=string_key)


def topic_partition_hash(topic: str, partition: int) -> int:
    """Return ``TopicPartition.hashCode``: 31·(31 + partition) + hash(topic)."""
    return signed(31 * (31 + partition) + string_hash(topic))


@lru_cache(maxsize=1 << 16)
def uuid_bits(text: str) -> tuple[int, int]:
    """Return the most and least significant 64 bits (signed) of a Uuid in Kafka's format; pairs sort as Uuids do."""
    try:
        # "+" and "/" belong to standard base64: b64decode would accept them.
        padded_text = text.translate(_NOT_URL_SAFE) + "=" * (-len(text) % 4)
        uuid_bytes = base64.b64decode(padded_text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"topicId: {text!r} is not url-safe base64") from error
    if len(uuid_bytes) != 16:  # noqa: PLR2004 - a UUID has 16 bytes
        raise BadInput(f"topicId: {text!r} has {len(uuid_bytes)} bytes, not 16")
    most_strings, least = struct.unpack(">qq", uuid_bytes)
    return most_strings, least


@lru_cache(maxsize=1 << 16)
def uuid_of(name: str) -> str:
    """Return a Uuid in Kafka's format that is derived from a name."""
    return base64.urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest()).decode().rstrip("=")


def uuid_hash(table_bits: tuple[int, int]) -> int:
    """Return ``Uuid.hashCode``: both halves combined into one int."""
    hash_bits = table_bits[0] ^ table_bits[1]
    return signed((hash_bits >> 32) ^ hash_bits)


def hash_set_copy_capacity(size: int) -> int:
    """Return the number of bins in the table of ``new HashSet(collection)``, for a collection of this size."""
    return 1 << max(int(size / 0.75), DEFAULT_CAPACITY - 1).bit_length()


def hash_order(
    hashes: Sequence[int], *, capacity: int = DEFAULT_CAPACITY, keys: Sequence[str] | None = None
) -> list[int]:
    """Return the iteration order of a HashMap whose keys have these hash codes, inserted in this order; O(n log n).

    Returns positions in ``hashes``. ``capacity``: size of the map's first table, a power of two. ``keys``: the strings.
    If more than eight strings fall into one bin of a large table, Java orders strings with equal hash codes by
    ``compareTo``; without ``keys`` such strings keep the order of insertion.
    """
    count = len(hashes)
    capacity_at_end = capacity
    while count > threshold(capacity_at_end):
        capacity_at_end <<= 1
    mask = capacity_at_end - 1
    bins = [(code ^ (code >> 16 & 0xFFFF)) & mask for code in hashes]
    if count > TREEIFY_ABOVE and _overflows(bins, capacity, capacity_at_end):
        table = HashTable(capacity, [string_key(key) for key in keys] if keys is not None else None)
        for position, code in enumerate(hashes):
            table.add(position, code)
        return list(table)
    return sorted(range(count), key=bins.__getitem__)


def in_hash_order(texts: Sequence[str], *, capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Return distinct strings in the iteration order of a HashMap or HashSet, after insertion in this order."""
    return [texts[at] for at in hash_order([*map(string_hash, texts)], capacity=capacity, keys=texts)]


#: 2**64 divided by the golden ratio: Knuth's multiplicative hash, of which ``BaseHashTable`` takes the top bits.
_FIBONACCI = 0x9E3779B97F4A7C15


def in_timeline_order(texts: Sequence[str], *, most_strings: int = 0) -> list[str]:
    """Return distinct strings in the iteration order of a ``TimelineHashMap``, after insertion in this order.

    ``most_strings``: the largest number of strings that the map has ever held, as its table never shrinks.
    """
    table_bits = 1
    while max(most_strings, len(texts)) * 3 > 4 << table_bits:
        table_bits += 1
    table_slots = [(string_hash(text) * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> (64 - table_bits) for text in texts]
    # An iterator returns the newest entry of a slot first.
    return [texts[at] for at in sorted(range(len(texts)), key=lambda at: (table_slots[at], -at))]


def _overflows(bins: Sequence[int], capacity: int, capacity_at_end: int) -> bool:
    """Return True if a bin ever had more than eight keys, so that the table grew early or the bin became a tree.

    ``bins``: the bin of each key in the final table; the last bits of this number are the bin in a smaller table.
    """
    while capacity <= capacity_at_end:
        mask = capacity - 1
        bins_in_use = [key_bin & mask for key_bin in bins[: threshold(capacity) + 1]]
        # If the keys beyond one per used bin are too few to overflow a bin, the bins need not be counted.
        if len(bins_in_use) - len(set(bins_in_use)) >= TREEIFY_ABOVE:
            bins_in_use.sort()
            if any(map(eq, bins_in_use, bins_in_use[TREEIFY_ABOVE:])):
                return True
        capacity <<= 1
    return False


_MULTIPLIER = 0x5DEECE66D
_SEED_MASK = (1 << 48) - 1


class JavaRandom:
    """Java's ``new Random(seed)``."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _SEED_MASK

    def _next(self, table_bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _SEED_MASK
        return self._state >> (48 - table_bits)

    def next_int(self, bound: int) -> int:
        """Return ``nextInt(bound)``: uniform in [0, bound)."""
        if bound & -bound == bound:
            return (bound * self._next(31)) >> 31
        while True:
            table_bits = self._next(31)
            value = table_bits % bound
            if table_bits - value + (bound - 1) < 1 << 31:  # The last, incomplete run of values would not be uniform.
                return value

    def next_signed_int(self) -> int:
        """Return ``nextInt()``: any signed 32-bit integer."""
        value = self._next(32)
        return value - (1 << 32) if value >= 1 << 31 else value


def shuffle(items: MutableSequence[Any], random: JavaRandom) -> None:
    """Shuffle in place as ``Collections.shuffle(items, random)`` does."""
    for size in range(len(items), 1, -1):
        random_index = random.next_int(size)
        items[size - 1], items[random_index] = items[random_index], items[size - 1]
