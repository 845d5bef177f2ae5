"""The input of a fuzz target: a list of parts (bytes or None), such as key, value and headers of consecutive records.

A case is stored in a file of Python literals, one part per line, so that it can be read, edited and compared.
"""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from hypothesis.strategies import SearchStrategy

RecordPart = bytes | None
Case = list[RecordPart]

FINDINGS_FOLDER = Path(__file__).parent / "found"
_case_decoder = msgspec.msgpack.Decoder(Case)


@dataclass(frozen=True)
class FuzzTarget:
    """One decoder or endpoint to fuzz.

    Args:
        name: the target's name, as ``make fuzz TARGET=`` accepts it.
        check: function that raises for a finding; it returns if the input was accepted or correctly rejected.
        seeds: real cases, from which mutations start.
        width: number of parts of one record; a case consists of complete records.
        shape: a strategy for well-typed cases.
        words: tokens of the format under attack.
    """

    name: str
    check: Callable[[Case], None]
    seeds: Callable[[], Iterable[Case]]
    width: int = 1
    shape: SearchStrategy[Case] | None = None
    words: tuple[bytes, ...] = field(default=())


def dump(case: Case) -> str:
    """Return the case as the text of a case file."""
    return "".join(f"{part!r}\n" for part in case)


def load(text: str) -> Case:
    """Return the case that the text of a case file contains; lines that begin with # are comments."""
    return [ast.literal_eval(line) for line in text.splitlines() if line and not line.startswith("#")]


def pack(case: Case) -> bytes:
    """Return the input of a fuzz target, packed into one string of bytes."""
    return msgspec.msgpack.encode(case)


def unpack(data: bytes) -> Case | None:
    """Decode a case that :func:`pack` encoded; return None if the bytes are invalid."""
    try:
        return _case_decoder.decode(data)
    except msgspec.MsgspecError:
        return None
