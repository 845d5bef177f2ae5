"""Every kind of episode, brought about with real members: each view names it, or says that it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from streaming.wire.episodes import Episode
from tests.integration.streaming.episodes.life import Life, Step
from tests.integration.streaming.episodes.lives import LIVES
from tests.integration.streaming.episodes.stage import LOG, stage

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Life]]]:
    """The lives that are asked for, all at the same time."""
    wanted = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    with stage(tmp_path_factory.mktemp("stage")) as made, ThreadPoolExecutor(len(LIVES)) as pool:

        def play(name: str) -> Life:
            speaks, happens = LIVES[name]
            life = Life(made, name.replace(" ", "-"), speaks)
            try:
                happens(life)
            finally:
                life.close()
            return life

        yield {name: pool.submit(play, name) for name in dict.fromkeys(wanted)}


def named(episode: Episode) -> dict[str, set[str]]:
    """Who came, went and came back, by client id."""
    members = episode.members

    def names(ids: list[str]) -> set[str]:
        return {members.names[one].client_id or one for one in ids}

    went = {*members.left, *members.lost, *members.gone}
    return {
        "came": names([one for one in members.joined if one not in went]),
        "went": names([*went]),
        "back": names([one.joined for one in members.replaced]),
    }


def wrong(step: Step, view: str) -> list[str]:
    """What a view says of a step that is not so."""
    told = step.told[view]
    if len(told) != 1:
        return [f"{view}: {step.kind} is {len(told)} episodes: {[one.story for one in told]}"]
    [episode] = told
    said = f"{view}: {step.kind} is {episode.kind}{'' if episode.sure else '?'}"
    said += f" {named(episode)}: {episode.story} {[(one.kind, one.reason[:90]) for one in episode.evidence]}"
    found = []
    right = episode.kind == step.kind or (
        view != LOG and (episode.kind == "unknown" or (episode.kind in step.may and not episode.sure))
    )
    wanted = {"came": step.came, "went": step.went, "back": step.back}
    if not right or episode.status != "settled":
        found.append(said)
    elif episode.kind != "unknown" and named(episode) != wanted:
        found.append(f"{said}; wanted {wanted}")
    return found


@pytest.mark.parametrize("name", LIVES)
def test_every_kind_is_named_by_those_who_can_know(played: dict[str, Future[Life]], name: str) -> None:
    life = played[name].result()
    faults = [fault for step in life.steps for view in life.views for fault in wrong(step, view)]
    assert not faults, "\n".join(faults)
