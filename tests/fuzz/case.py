"""Input of a target: parts of bytes (or none), such as key, value and headers of some records in a row.

A case is stored in a file of Python literals, a part a line, so that it can be read, edited and compared.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from hypothesis.strategies import SearchStrategy

Part = bytes | None
Case = list[Part]

FOUND = Path(__file__).parent / "found"
_packed = msgspec.msgpack.Decoder(Case)


@dataclass(frozen=True)
class Target:
    """One decoder or endpoint under attack.

    Args:
        name: as ``TARGET=`` takes it.
        check: raises for a finding; otherwise the input was accepted, or correctly rejected.
        seeds: real cases, from which mutations start.
        width: parts of one record; a case holds whole records.
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
    """Return the text of a case's file."""
    return "".join(f"{part!r}\n" for part in case)


def load(text: str) -> Case:
    """Return the case in a file's text; lines that begin with # describe it."""
    return [ast.literal_eval(line) for line in text.splitlines() if line and not line.startswith("#")]


def pack(case: Case) -> bytes:
    """Return a case as one string of bytes."""
    return msgspec.msgpack.encode(case)


def unpack(data: bytes) -> Case | None:
    """Return the case in a string of bytes; None if it is invalid."""
    try:
        return _packed.decode(data)
    except msgspec.MsgspecError:
        return None
