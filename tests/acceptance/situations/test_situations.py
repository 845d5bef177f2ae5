"""Real situations of real groups: kinds, members, callbacks, downtime and incidents beside the truth from outside.

``make test-situations`` runs all of them and writes the tables of docs/explanation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import floor

import pytest

from tests.acceptance.situations import table
from tests.acceptance.situations.downtimes import Figures, is_inside, of_life
from tests.acceptance.situations.life import RealGroup
from tests.acceptance.situations.lives import LIVES, long_storm, one_join
from tests.acceptance.situations.stage import LOG, OFFSETS, stage
from tests.acceptance.situations.verdicts import faults
from tests.support.processes import process_lock

# Dozens of members run at once: beside other tests their sessions would time out.
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(1800)]

#: With more members at once they starve each other, and sessions time out.
AT_ONCE = 4 * (os.cpu_count() or 1)
#: From this many partitions on, the share of true bounds is meaningful.
ENOUGH = 100


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[RealGroup]]]:
    items = [item for item in request.session.items if item.path == request.path]
    named = [item.callspec.params.get("name") for item in items if hasattr(item, "callspec")]
    wanted = [name for name in named if name is not None]
    with process_lock("crowd"), stage(tmp_path_factory.mktemp("stage")) as made, ThreadPoolExecutor(AT_ONCE) as pool:

        def play(name: str) -> RealGroup:
            led = LIVES[name]
            life = led.life(made, name.replace(" ", "-").replace(",", ""), led.speaks, led.partitions)
            try:
                led.happens(life)
            finally:
                life.close()
            return life

        first = sorted(dict.fromkeys(wanted), key=lambda name: LIVES[name].happens is not long_storm)
        lives = {name: pool.submit(play, name) for name in first}
        yield lives
        if os.environ.get("WRITE_SITUATIONS"):
            table.write({name: life.result() for name, life in lives.items() if life.exception() is None})


@pytest.mark.parametrize("name", LIVES)
def test_no_source_reports_anything_false(played: dict[str, Future[RealGroup]], name: str) -> None:
    found = faults(played[name].result())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", [name for name, led in LIVES.items() if led.happens is one_join])
def test_a_join_under_kip_848_is_one_rebalance(played: dict[str, Future[RealGroup]], name: str) -> None:
    life = played[name].result()
    for view in (LOG, OFFSETS):
        [joined] = life.steps[1].told[view]
        rounds = life.views[view].rounds(life.group)
        together = [diff for diff in rounds if [member.present for member in diff.members.values()] == [True] * 2]
        epoch = max(diff.group_epoch or 0 for diff in together)
        assert (joined.rebalances, joined.round_count) == (1, 3), view
        assert [(diff.round, diff.cause.kind) for diff in rounds if diff.group_epoch == epoch] == [
            (number, "member.joined") for number in (1, 2, 3)
        ], view


@pytest.mark.parametrize("view", [LOG, OFFSETS])
def test_measured_downtime_lies_inside_its_bounds(played: dict[str, Future[RealGroup]], view: str) -> None:
    lives = [one.result() for one in played.values() if one.exception() is None]
    found = [(life.group, one) for life in lives for one in of_life(life, view)]
    figures = Figures.of(one for _, one in found)
    outside = [one for one in found if not is_inside(one[1])]
    assert figures.inside >= floor(0.95 * figures.partitions), (figures, outside)
    if figures.partitions >= ENOUGH:
        proved = [one for life in lives if _is_proved(life, view) for one in of_life(life, view)]
        assert (Figures.of(proved).ratio or 0) >= 0.5, Figures.of(proved)


def _is_proved(life: RealGroup, view: str) -> bool:
    """Return true if a log or KIP-848 records bound the downtime from below."""
    return life.speaks.protocol == "consumer" or (view == LOG and life.speaks.protocol == "eager")
