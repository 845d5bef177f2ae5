"""The machines answer what they answered: every request, share and round of random lives, to the millisecond.

``lives.xz`` holds the events beside the answers: a changed generator is not taken for a changed machine.
``python -m tests.golden.streaming.protocols.test_lives`` writes it anew. It takes a reason: the answers stood
while real groups were compared with the machines (``tests/integration/streaming/protocols``).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from assignors.errors import InvalidGroup
from streaming.protocols.group import LIVE
from streaming.protocols.vocabulary import InconsistentGroupProtocol, UndefinedTransition, Wants
from tests.golden.streaming.protocols.lives import SORTS, answers, begun, life
from tests.support.answers import record, recorded
from tests.support.machines import Driver

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


@pytest.mark.parametrize(("protocol", "assignor"), [sort[:2] for sort in SORTS if not sort[2]])
@pytest.mark.parametrize("tight", [False, True])
def test_what_is_wanted_is_what_live_members_subscribe_to(protocol: str, assignor: str, tight: bool) -> None:
    """After every single event: a partition that nobody wants any more is no gap, and one that is wanted is."""
    for number in range(8):
        lived = life(number, protocol, assignor, mixed=False, tight=tight)
        driver = begun(lived)
        wanted: frozenset[str] = frozenset()
        for event in lived.events:
            while driver.queue and driver.queue[0][0] < event.at:
                with suppress(InconsistentGroupProtocol, InvalidGroup):
                    driver.step()
                wanted = _compared(driver, wanted)
            with suppress(UndefinedTransition, InconsistentGroupProtocol, InvalidGroup):
                driver.tell(event)
            wanted = _compared(driver, wanted)


def _compared(driver: Driver, wanted: frozenset[str]) -> frozenset[str]:
    """What is said to be wanted now; it is what the members' own clients say."""
    for output in driver.outputs:
        wanted = output.topics if isinstance(output, Wants) else wanted
    driver.outputs.clear()
    live = [member.client.topics for member in driver.state.members.values() if member.stage in LIVE]
    connect = driver.machine.name == "connect" and live
    assert wanted == (set(driver.state.topics) if connect else {topic for topics in live for topic in topics})
    return wanted


if __name__ == "__main__":
    record(GOLDEN, SECTIONS)
