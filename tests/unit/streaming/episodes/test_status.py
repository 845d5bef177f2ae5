from typing import Any

import msgspec
import pytest

from streaming.episodes.status import GroupStatus, group_status
from streaming.records.episodes import Episode, Rebalancing, Waiting
from tests.support.compacted import checkout_group, episode_updates, latest

SHOP_GROUP = checkout_group("shop")
ASSIGNMENT = latest(SHOP_GROUP)
EMPTY = msgspec.structs.replace(ASSIGNMENT, members={})
CLOSED_EPISODE = episode_updates(SHOP_GROUP)[-1]
AWAITED_CONDITIONS = [
    Waiting(since=5, reason="a holds t 0", member_id="a"),
    Waiting(since=3, reason="t 1 has no owner"),
]
REBALANCING = Rebalancing(since=7, reason="b joined", joined=["b"], awaited=["a"])


def episode(**fields: Any) -> Episode:
    return msgspec.structs.replace(CLOSED_EPISODE, **{"closed_at": None, "updated_at": 9, "opened_at": 2} | fields)


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (None, GroupStatus("stable", ASSIGNMENT.timestamp)),
        (episode(status="settled", closed_at=8), GroupStatus("stable", 8)),
        (episode(status="settling"), GroupStatus("stable", 9)),
        (episode(status="settling", waiting_for=AWAITED_CONDITIONS), GroupStatus("settling", 3, "a holds t 0", ("a",))),
        (episode(status="stuck", waiting_for=AWAITED_CONDITIONS), GroupStatus("stuck", 3, "a holds t 0", ("a",))),
        (episode(status="storming", story="a storms"), GroupStatus("storming", 2, "a storms")),
        (episode(status="catching-up"), GroupStatus("catching-up", 9)),
        (
            episode(status="stuck", waiting_for=AWAITED_CONDITIONS, rebalancing=REBALANCING),
            GroupStatus("rebalancing", 7, "b joined", ("a",)),
        ),
    ],
)
def test_newest_episode_sets_the_status_of_its_group(newest: Episode | None, expected: GroupStatus) -> None:
    assert group_status(ASSIGNMENT, newest) == expected


def test_an_empty_group_is_not_settling() -> None:
    settling_episode = episode(status="settling", waiting_for=AWAITED_CONDITIONS)
    assert group_status(EMPTY, settling_episode) == GroupStatus("empty", 9)
    assert group_status(EMPTY, episode(status="storming", story="s")).status == "storming"
    assert group_status(EMPTY, episode(rebalancing=REBALANCING)).status == "rebalancing"


def test_group_without_a_latest_assignment_is_dead() -> None:
    assert group_status(None, episode(status="stuck")) == GroupStatus("dead", 9)
