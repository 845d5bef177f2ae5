"""The machines answer what they answered: every request, share and round of random lives, to the millisecond.

``lives.xz`` holds the events beside the answers: a changed generator is not taken for a changed machine.
``python -m tests.golden.streaming.protocols.test_lives`` writes it anew. It takes a reason: the answers stood
while real groups were compared with the machines (``tests/integration/streaming/protocols``).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.golden.streaming.protocols.lives import SORTS, answers, life
from tests.support.answers import record, recorded

GOLDEN = Path(__file__).with_name("lives.xz")


def lived(protocol: str, assignor: str, mixed: bool) -> list[str]:
    """Four lives of one sort of group."""
    found = []
    for one in (life(number, protocol, assignor, mixed) for number in range(4)):
        found += [f"{one.timing}", *answers(one)]
    return found


def lived_tight(protocol: str, assignor: str, mixed: bool) -> list[str]:
    """Twelve where all timers are milliseconds that end together: what comes first hangs on ``<`` or ``<=``."""
    found = []
    for one in (life(number, protocol, assignor, mixed, tight=True) for number in range(12)):
        found += [f"{one.timing}", *answers(one)]
    return found


SECTIONS = {
    **{" ".join(map(str, sort)): partial(lived, *sort) for sort in SORTS},
    **{" ".join(map(str, (*sort, "tight"))): partial(lived_tight, *sort) for sort in SORTS},
}


@pytest.mark.parametrize("title", SECTIONS)
def test_every_answer_to_random_lives_is_the_recorded_one(title: str) -> None:
    assert SECTIONS[title]() == recorded(GOLDEN)[title]


if __name__ == "__main__":
    record(GOLDEN, SECTIONS)
