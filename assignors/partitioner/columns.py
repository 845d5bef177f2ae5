"""murmur2 over a whole column of keys: NumPy and Arrow arrays in, one NumPy array out.

NumPy is imported on first use, Arrow never: its arrays are read through their buffers. Rows are worked off in
blocks that stay in the processor's cache; within a block the words of all keys are mixed at once. Keys of one
length (UUIDs, numbers) are a plain matrix; keys of mixed lengths are sorted by length within their block, so that
step i works on a prefix. Keys past ``LONG`` bytes are rare and hashed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from assignors.errors import BadInput
from assignors.partitioner.murmur import POSITIVE, SEED, InvalidPartition, M, murmur2

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Rows a block: words, temporaries and hashes of 16-byte keys fill about 400 KiB.
BLOCK = 16_384
#: Longest key, in bytes, that is hashed in columns.
LONG = 512
#: The partition of a null key, which has no hash.
NO_PARTITION = -1


class UnsupportedColumn(BadInput):
    """The column holds no keys in bytes."""


class KeySpans(NamedTuple):
    """Key i is ``data[starts[i]:starts[i] + lengths[i]]``, in ascending order and without overlap.

    ``nulls`` marks null keys, None when there are none.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    nulls: NDArray[np.bool_] | None = None


def murmur2_column(keys: Any) -> NDArray[np.int32]:
    """The signed hash of every key; a null key hashes as the empty key does.

    Args:
        keys: an Arrow (chunked) array of binary, string or fixed-size binary; a NumPy array of ``V`` (fixed
            width), ``uint8`` with two dimensions (one key a row), ``S`` (trailing NULs are no part of a key, as
            NumPy reads them) or objects; :class:`KeySpans`; or any sequence of bytes and None.

    Raises:
        UnsupportedColumn: it is none of these.
    """
    import numpy as np

    parts = [_hash(np, part) for part in _columns(np, keys)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int32), *parts])


def partition_column(keys: Any, partitions: int) -> NDArray[np.int32]:
    """The partition of every key among all ``partitions``; ``NO_PARTITION`` (−1) for a null key.

    Takes and raises what :func:`murmur2_column` does, and :class:`InvalidPartition` for fewer than 1 partition or
    more than an int32 counts.
    """
    import numpy as np

    if not 1 <= partitions <= POSITIVE:
        raise InvalidPartition(f"partitions: {partitions}; must be between 1 and {POSITIVE}")
    answers = []
    for part in _columns(np, keys):
        found = _hash(np, part)
        found &= POSITIVE
        found %= np.int32(partitions)
        if isinstance(part, KeySpans) and part.nulls is not None:
            found[part.nulls] = NO_PARTITION
        answers.append(found)
    return answers[0] if len(answers) == 1 else np.concatenate([np.empty(0, np.int32), *answers])


def _hash(np: Any, part: Any) -> NDArray[np.int32]:
    if not isinstance(part, KeySpans):
        return _fixed(np, part)
    if len(part.starts) == 0:
        nothing: NDArray[np.int32] = np.empty(0, np.int32)
        return nothing
    width = int(part.lengths[0])
    steps = np.diff(part.starts)
    if width <= LONG and (part.lengths == width).all() and (steps == steps[:1]).all():
        first, step = int(part.starts[0]), int(steps[0]) if len(steps) else width
        shape = (len(part.starts), width)
        rows = np.lib.stride_tricks.as_strided(part.data[first:], shape, (step, 1), writeable=False)
        return _fixed(np, rows)
    return _mixed(np, part)


def _fixed(np: Any, matrix: Any) -> NDArray[np.int32]:
    """Hashes of the rows of a uint8 matrix whose rows are contiguous."""
    rows, width = matrix.shape
    count, tail = divmod(width, 4)
    m, r13, r15, r24 = np.uint32(M), np.uint32(13), np.uint32(15), np.uint32(24)
    hashes = np.empty(rows, np.uint32)
    block = max(1, BLOCK * 4 // max(count, 4))
    words_room = np.empty((max(count, 1), min(block, rows)), np.uint32)
    mixed_room = np.empty_like(words_room)
    for start in range(0, rows, block):
        part = matrix[start : start + block]
        h = hashes[start : start + block]
        h.fill((SEED ^ width) & 0xFFFFFFFF)
        if count:
            words, mixed = words_room[:, : len(part)], mixed_room[:, : len(part)]
            whole = np.ascontiguousarray(part[:, : count * 4])
            np.copyto(words, whole.view("<u4").T)  # one row a word: everything after runs along memory
            np.multiply(words, m, out=words)
            np.right_shift(words, r24, out=mixed)
            np.bitwise_xor(words, mixed, out=words)
            np.multiply(words, m, out=words)
            for word in words:
                np.multiply(h, m, out=h)
                np.bitwise_xor(h, word, out=h)
        if tail:
            short = part[:, count * 4].astype(np.uint32)
            for place in range(1, tail):
                short |= part[:, count * 4 + place].astype(np.uint32) << np.uint32(8 * place)
            h ^= short
            h *= m
        scratch = mixed_room[0, : len(part)]
        np.right_shift(h, r13, out=scratch)
        np.bitwise_xor(h, scratch, out=h)
        np.multiply(h, m, out=h)
        np.right_shift(h, r15, out=scratch)
        np.bitwise_xor(h, scratch, out=h)
    signed: NDArray[np.int32] = hashes.view(np.int32)
    return signed


def _mixed(np: Any, keys: KeySpans) -> NDArray[np.int32]:
    """Hashes of keys of several lengths."""
    rows = len(keys.starts)
    hashes = np.empty(rows, np.uint32)
    for start in range(0, rows, BLOCK):
        size = keys.lengths[start : start + BLOCK]
        places = keys.starts[start : start + BLOCK]
        first, end = int(places[0]), int(places[-1] + size[-1])
        # Four more bytes, so that the last tail can be read as a whole word.
        data = np.zeros(end - first + 4, np.uint8)
        data[:-4] = keys.data[first:end]
        order = np.argsort(-size, kind="stable")
        longer = int(np.count_nonzero(size > LONG))
        for row in order[:longer].tolist():
            begin = int(places[row])
            hashes[start + row] = murmur2(keys.data[begin : begin + int(size[row])].tobytes()) & 0xFFFFFFFF
        order = order[longer:]
        hashes[start + order] = _block(np, data, places[order] - first, size[order])
    signed: NDArray[np.int32] = hashes.view(np.int32)
    return signed


def _block(np: Any, data: Any, places: Any, lengths: Any) -> Any:
    """Hashes of the keys at ``places``, longest first."""
    m = np.uint32(M)
    # A word that begins at any byte: overlapping, unaligned, and only ever indexed.
    words = np.ndarray((len(data) - 3,), "<u4", buffer=data, strides=(1,))
    h = np.uint32(SEED) ^ lengths.astype(np.uint32)
    counts = lengths >> 2
    for step in range(int(counts[0]) if len(counts) else 0):
        active = int(np.searchsorted(-counts, -step, side="left"))  # those with more than `step` words
        k = words[places[:active] + 4 * step]
        k *= m
        k ^= k >> np.uint32(24)
        k *= m
        h[:active] *= m
        h[:active] ^= k
    tails = np.flatnonzero(lengths & 3)
    bits = ((lengths[tails] & 3) * 8).astype(np.uint32)
    short = words[places[tails] + (counts[tails] << 2)] & ((np.uint32(1) << bits) - np.uint32(1))
    h[tails] = (h[tails] ^ short) * m
    h ^= h >> np.uint32(13)
    h *= m
    h ^= h >> np.uint32(15)
    return h


def _columns(np: Any, keys: Any) -> Iterator[Any]:
    """The column in its order, as uint8 matrices and :class:`KeySpans`."""
    if isinstance(keys, KeySpans):
        yield keys
    elif hasattr(keys, "chunks") and hasattr(keys, "type"):
        for chunk in keys.chunks:
            yield _arrow(np, chunk)
    elif hasattr(keys, "buffers") and hasattr(keys, "type"):
        yield _arrow(np, keys)
    elif isinstance(keys, np.ndarray):
        yield _numpy(np, keys)
    elif hasattr(keys, "to_numpy"):
        yield _numpy(np, keys.to_numpy())
    elif isinstance(keys, Iterable) and not isinstance(keys, (str, bytes)):
        yield _objects(np, list(keys))
    else:
        raise UnsupportedColumn(f"keys: {type(keys).__name__} is no column of bytes")


def _numpy(np: Any, keys: Any) -> Any:
    if keys.dtype == np.uint8 and keys.ndim == 2:  # noqa: PLR2004 - a matrix
        return np.ascontiguousarray(keys)
    if keys.ndim == 1 and keys.dtype.kind == "V" and keys.dtype.names is None:
        return np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), keys.dtype.itemsize)
    if keys.ndim == 1 and keys.dtype.kind in "SO":
        return _objects(np, keys.tolist())
    raise UnsupportedColumn(
        f"keys: a NumPy array of {keys.dtype} with {keys.ndim} dimensions; "
        "give dtype V, S, object of bytes, or uint8 with one key a row"
    )


def _objects(np: Any, keys: Sequence[bytes | None]) -> KeySpans:
    for row, key in enumerate(keys):
        if key is not None and not isinstance(key, bytes):
            raise UnsupportedColumn(f"keys[{row}]: {type(key).__name__}; encode keys to bytes first")
    offsets = np.zeros(len(keys) + 1, np.int64)
    np.cumsum([0 if key is None else len(key) for key in keys], out=offsets[1:])
    data = np.frombuffer(b"".join(key for key in keys if key), np.uint8)
    nulls = np.fromiter((key is None for key in keys), np.bool_, len(keys))
    return KeySpans(data, offsets[:-1], np.diff(offsets), nulls if nulls.any() else None)


#: Arrow types that hold bytes behind offsets, and the offsets' width.
_OFFSETS = {"binary": "<i4", "string": "<i4", "large_binary": "<i8", "large_string": "<i8"}


def _arrow(np: Any, keys: Any) -> Any:
    name = str(keys.type)
    nulls = None
    if keys.null_count:
        nulls = np.asarray(keys.is_null().to_numpy(zero_copy_only=False))
    buffers = keys.buffers()
    if name.startswith("fixed_size_binary"):
        width = keys.type.byte_width
        raw = np.frombuffer(buffers[1], np.uint8)
        matrix = raw[keys.offset * width : (keys.offset + len(keys)) * width].reshape(len(keys), width)
        if nulls is None:
            return matrix
        lengths = np.full(len(keys), width, np.int64)
        return KeySpans(matrix.reshape(-1), np.arange(len(keys), dtype=np.int64) * width, lengths, nulls)
    if name not in _OFFSETS:
        raise UnsupportedColumn(f"keys: an Arrow array of {name}; cast it to binary or string")
    if len(keys) == 0:
        return np.empty((0, 0), np.uint8)
    offsets = np.frombuffer(buffers[1], _OFFSETS[name])[keys.offset : keys.offset + len(keys) + 1]
    data = np.empty(0, np.uint8) if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)
    if nulls is None and _evenly_spaced(np, offsets):
        return data[int(offsets[0]) : int(offsets[-1])].reshape(len(keys), -1)
    offsets = offsets.astype(np.int64)
    return KeySpans(data, offsets[:-1], np.diff(offsets), nulls)


def _evenly_spaced(np: Any, offsets: Any) -> bool:
    """Whether all keys have one length, above 0; block by block, since whole temporaries would leave the cache."""
    width = offsets[1] - offsets[0]
    if width == 0 or width > LONG or offsets[-1] - offsets[0] != int(width) * (len(offsets) - 1):
        return False
    blocks = range(0, len(offsets) - 1, BLOCK)
    return all((np.diff(offsets[at : at + BLOCK + 1]) == width).all() for at in blocks)
