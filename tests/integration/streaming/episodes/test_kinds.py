"""Every kind of episode, brought about with real members: each view names it, or says that it does not know.

``WRITE_EPISODES=1`` writes the table of docs/explanation/episodes.md, of what is run; ``-m ""`` runs it all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.integration.streaming.episodes import table
from tests.integration.streaming.episodes.life import Life
from tests.integration.streaming.episodes.lives import LIVES, long_storm, one_join
from tests.integration.streaming.episodes.stage import LOG, OFFSETS, stage
from tests.integration.streaming.episodes.verdicts import faults
from tests.support.turns import turn

# Dozens of members at once: beside other tests sessions run out that nobody meant to.
pytestmark = [pytest.mark.broker, pytest.mark.full]

#: More at once, and members starve each other: sessions run out.
AT_ONCE = 4 * (os.cpu_count() or 1)


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Life]]]:
    """The lives that are asked for, as many at the same time as the machine bears; the longest begins at once."""
    wanted = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    with (
        turn("crowd"),
        stage(tmp_path_factory.mktemp("stage")) as made,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):

        def play(name: str) -> Life:
            led = LIVES[name]
            life = led.life(made, name.replace(" ", "-"), led.speaks, led.partitions)
            try:
                led.happens(life)
            finally:
                life.close()
            return life

        first = sorted(dict.fromkeys(wanted), key=lambda name: LIVES[name].happens is not long_storm)
        lives = {name: pool.submit(play, name) for name in first}
        yield lives
        if os.environ.get("WRITE_EPISODES"):
            table.write([life.result() for life in lives.values()])


def marked(name: str) -> object:
    return pytest.param(name, marks=[pytest.mark.full] if LIVES[name].full else [])


@pytest.mark.parametrize("name", [*map(marked, LIVES)])
def test_every_kind_is_named_by_those_who_can_know(played: dict[str, Future[Life]], name: str) -> None:
    life = played[name].result()
    assert not faults(life)


@pytest.mark.parametrize("name", [name for name, led in LIVES.items() if led.happens is one_join])
def test_a_join_under_kip_848_is_one_rebalance(played: dict[str, Future[Life]], name: str) -> None:
    life = played[name].result()
    for view in (LOG, OFFSETS):
        [joined] = life.steps[1].told[view]
        rounds = life.views[view].rounds(life.group)
        together = [diff for diff in rounds if [one.present for one in diff.members.values()] == [True] * 2]
        epoch = max(diff.group_epoch or 0 for diff in together)
        assert (joined.rebalances, joined.round_count) == (1, 3), view
        assert [(diff.round, diff.cause.kind) for diff in rounds if diff.group_epoch == epoch] == [
            (number, "member.joined") for number in (1, 2, 3)
        ], view
