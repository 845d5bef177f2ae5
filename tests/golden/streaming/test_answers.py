"""Pure parts answer what they answered to random questions: each room's are in its ``questions.py``.

``python -m tests.golden.streaming.test_answers`` writes every ``answers.xz`` anew, when a change of an answer is
meant; followed by names of rooms, theirs alone.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from tests.golden.streaming.collect import questions as collect
from tests.golden.streaming.kafka import questions as kafka
from tests.golden.streaming.settings import questions as settings
from tests.golden.streaming.spark import questions as spark
from tests.golden.streaming.wire import questions as wire
from tests.support.answers import record, recorded

ROOMS = {
    "collect": collect.ASKED,
    "kafka": kafka.ASKED,
    "settings": settings.ASKED,
    "spark": spark.ASKED,
    "wire": wire.ASKED,
}
SECTIONS = {
    room: {
        f"{ask.__name__} {number}": partial(ask, number) for ask, count in asked for number in range(count)
    }
    for room, asked in ROOMS.items()
}


def golden(room: str) -> Path:
    """The file with the answers of a room."""
    return Path(__file__).parent / room / "answers.xz"


@pytest.mark.parametrize(
    ("room", "title"),
    # Their names have the room's path in them, as those of tests in its own folder do: mutants go by that.
    [
        pytest.param(room, title, id=f"streaming/{room}/{title}")
        for room, sections in SECTIONS.items()
        for title in sections
    ],
)
def test_every_answer_is_the_recorded_one(room: str, title: str) -> None:
    assert list(SECTIONS[room][title]()) == recorded(golden(room))[title]


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SECTIONS:
        record(golden(chosen), SECTIONS[chosen])
