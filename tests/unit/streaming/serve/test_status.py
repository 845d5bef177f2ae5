from pathlib import Path
from typing import Any

import msgspec

from streaming.records.episodes import Episode, Rebalancing
from streaming.serve.history import History
from tests.support.asgi import ask
from tests.support.compacted import checkout_group, episode_updates, latest
from tests.support.feed import assignment, service, story

SHOP_GROUP = checkout_group("shop")
CLOSED_EPISODE = episode_updates(SHOP_GROUP)[-1]
ASSIGNMENT = assignment(SHOP_GROUP)
SLOW_MEMBER, JOINED_MEMBER = sorted(SHOP_GROUP.members)[:2]


def rebalancing(**fields: Any) -> Episode:
    running = Rebalancing(
        since=CLOSED_EPISODE.updated_at + 5,
        reason=f"{JOINED_MEMBER} joined",
        joined=[JOINED_MEMBER],
        awaited=[SLOW_MEMBER],
    )
    changes = {"status": "rebalancing", "closed_at": None, "updated_at": CLOSED_EPISODE.updated_at + 5}
    return msgspec.structs.replace(CLOSED_EPISODE, rebalancing=running, **changes | fields)


def status(history: History) -> tuple[Any, ...]:
    group = ask(service(history), "/api/v1/groups").json["groups"][0]
    assert ask(service(history), "/api/v1/groups/shop").json["group"] == group
    return group["status"], group["since"], group["reason"], group["awaited"]


def test_a_group_has_the_status_of_its_newest_episode(history: History) -> None:
    history.append([ASSIGNMENT])
    assert status(history) == ("stable", latest(SHOP_GROUP).timestamp, None, [])
    update = history.append([story(rebalancing())])
    assert [*update.groups] == ["shop"]
    assert status(history) == ("rebalancing", CLOSED_EPISODE.updated_at + 5, "pay (h2) joined", [SLOW_MEMBER])
    assert history.groups["shop"].names == {SLOW_MEMBER: "pay (h1)"}
    history.append([story(msgspec.structs.replace(CLOSED_EPISODE, updated_at=CLOSED_EPISODE.updated_at + 9), offset=1)])
    assert status(history) == ("stable", CLOSED_EPISODE.closed_at, None, [])


def test_episode_before_its_group_sets_the_groups_status(history: History) -> None:
    history.append([story(rebalancing())])
    assert history.groups == {}
    history.append([ASSIGNMENT])
    assert history.groups["shop"].status == "rebalancing"


def test_a_deleted_group_is_dead(history: History) -> None:
    history.append([ASSIGNMENT, story(CLOSED_EPISODE)])
    history.append([msgspec.structs.replace(ASSIGNMENT, value=None, offset=1)])
    assert status(history)[0] == "dead"


def test_group_status_survives_a_restart(tmp_path: Path) -> None:
    groups = []
    for arrived in ([ASSIGNMENT, story(rebalancing())], []):
        history = History(tmp_path / "h.sqlite", cluster_id="c", diffs_topic="rebalance.diffs")
        history.append(arrived)
        groups.append(history.groups)
        history.close()
    assert groups[0] == groups[1]
    assert groups[1]["shop"].status == "rebalancing"
