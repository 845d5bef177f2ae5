"""Random questions about records, settings and refusals are answered as they were (room ``wire``).

They are in ``tests/support/record_questions.py``. ``python -m tests.golden.streaming.wire.test_answers`` writes
``answers.xz`` anew, when a change of an answer is meant.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support import record_questions as questions
from tests.support.answers import record, recorded

GOLDEN = Path(__file__).with_name("answers.xz")
SECTIONS = {
    f"{ask.__name__} {number}": partial(ask, number)
    for ask, count in (
        (questions.decoded, 3),
        (questions.nested, 1),
    )
    for number in range(count)
}


@pytest.mark.parametrize("title", SECTIONS)
def test_every_answer_is_the_recorded_one(title: str) -> None:
    assert list(SECTIONS[title]()) == recorded(GOLDEN)[title]


if __name__ == "__main__":
    record(GOLDEN, SECTIONS)
