"""The machines answer what they answered: every request, share and round of random lives, to the millisecond.

``lives.txt.xz`` holds the events beside the answers: a changed generator is not taken for a changed machine.
``python -m tests.golden.streaming.protocols.test_lives`` writes it anew. It takes a reason: the answers stood
while real groups were compared with the machines (``tests/integration/streaming/protocols``).
"""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import pytest

from tests.support.lives import SORTS, answers, life

GOLDEN = Path(__file__).with_name("lives.txt.xz")
#: Lives of each sort of group.
LIVES = 4


def lived(protocol: str, assignor: str, *, mixed: bool) -> list[str]:
    """All lives of one sort, each with a title."""
    found = []
    for number in range(LIVES):
        one = life(number, protocol, assignor, mixed)
        found += [f"# {title(protocol, assignor, mixed=mixed)} {number} {one.timing}", *answers(one)]
    return found


def title(protocol: str, assignor: str, *, mixed: bool) -> str:
    """What sort of group it is."""
    return f"{protocol} {assignor}{' mixed' * mixed}"


@cache
def recorded() -> list[str]:
    """Every line of the golden file."""
    return lzma.decompress(GOLDEN.read_bytes()).decode().splitlines()


@pytest.mark.parametrize(("protocol", "assignor", "mixed"), SORTS)
def test_every_answer_to_random_lives_is_the_recorded_one(protocol: str, assignor: str, mixed: bool) -> None:
    begins = f"# {title(protocol, assignor, mixed=mixed)} "
    expected: list[str] = []
    ours = False
    for line in recorded():
        ours = line.startswith(begins) and line[len(begins)].isdigit() if line.startswith("#") else ours
        if ours:
            expected.append(line)
    assert lived(protocol, assignor, mixed=mixed) == expected
    assert len(expected) > 100 * LIVES


if __name__ == "__main__":
    lines = [line for sort in SORTS for line in lived(sort[0], sort[1], mixed=sort[2])]
    GOLDEN.write_bytes(lzma.compress("\n".join(lines).encode() + b"\n", preset=9))
