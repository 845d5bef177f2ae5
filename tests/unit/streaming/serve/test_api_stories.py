"""The API's JSON of episodes and incidents, requested without a server."""

from typing import Any

import msgspec
import pytest
from starlette.types import ASGIApp

from streaming.records.cost import figure_changes
from streaming.records.episodes import Episode
from streaming.serve.history import History
from tests.support.asgi import ask
from tests.support.compacted import RESTARTED_MS, checkout_group, episode_records
from tests.support.feed import records, service, stories, story
from tests.support.histories import Group
from tests.support.incidents import incident

GROUP = "team%2Fcheckout"


@pytest.fixture
def stored(history: History) -> ASGIApp:
    """Return the application with two episodes of one group, and three incidents (one closed) of two groups."""
    history.append(records(Group("team/checkout", {"t": 6}, 1).diffs(2)))
    history.append(stories(checkout_group()))
    history.append(
        [
            story(incident("team/checkout", 1, closed_at=500), offset=0),
            story(incident("team/checkout", 2, opened_at=600), offset=1),
            story(incident("orders", 1, opened_at=300), offset=2),
        ]
    )
    return service(history, whole={"episode"})


def stories_and_cursor(app: ASGIApp, target: str) -> tuple[list[tuple[str, int]], Any]:
    page = ask(app, target).json
    (sort,) = page.keys() & {"episodes", "incidents"}
    return [(value["groupId"], value[sort[:-1]]) for value in page[sort]], page["next"]


def test_episodes_endpoint_returns_topic_records_newest_first(stored: ASGIApp) -> None:
    whole = ask(stored, f"/api/v1/groups/{GROUP}/episodes")
    assert (whole.json["next"], whole.json["caughtUp"]) == (None, True)
    values = [record.value for record in reversed(episode_records(checkout_group()))]
    assert whole.body.startswith(b'{"episodes":[%b]' % b",".join(values))
    first, cursor = stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?limit=1")
    assert first == [("team/checkout", 2)]
    assert stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?limit=1&cursor={cursor}") == (
        [("team/checkout", 1)],
        None,
    )
    assert stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?cursor=99") == ([], None)


@pytest.mark.parametrize(
    ("query", "numbers"), [(f"from={RESTARTED_MS}", [2]), (f"to={RESTARTED_MS}", [1]), (f"from={RESTARTED_MS + 1}", [])]
)
def test_time_range_selects_episodes_by_opening_time(stored: ASGIApp, query: str, numbers: list[int]) -> None:
    assert [
        number for _, number in stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?{query}")[0]
    ] == numbers


def test_comparison_has_two_episodes_and_their_figures(stored: ASGIApp) -> None:
    newest, oldest = (
        msgspec.json.decode(record.value, type=Episode) for record in reversed(episode_records(checkout_group()))
    )
    answer = ask(stored, f"/api/v1/groups/{GROUP}/compare/1/2").body
    expected = {"before": oldest, "after": newest, "figures": figure_changes(oldest, newest)}
    assert msgspec.json.decode(answer) == msgspec.json.decode(msgspec.json.encode(expected))
    for numbers in ("1/3", "1/x", "0/2"):
        problem = ask(stored, f"/api/v1/groups/{GROUP}/compare/{numbers}")
        assert (problem.status, problem.json["type"]) == (404, "/problems#episode")


def test_group_without_episodes_has_not_caught_up(app: ASGIApp) -> None:
    nothing = {"episodes": [], "next": None, "names": {}, "caughtUp": False}
    assert ask(app, "/api/v1/groups/team%2Fbilling/episodes").json == nothing
    assert ask(app, "/api/v1/groups/none/episodes").status == 404
    assert ask(app, "/api/v1/groups/orders/episodes?cause=x").status == 400
    assert ask(app, "/api/v1/groups/orders/episodes?open=true").status == 400


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [("team/checkout", 2), ("orders", 1), ("team/checkout", 1)]),
        ("open=true", [("team/checkout", 2), ("orders", 1)]),
        ("open=false", [("team/checkout", 1)]),
        ("group=orders", [("orders", 1)]),
        ("group=team/checkout&open=false", [("team/checkout", 1)]),
        ("group=nobody", []),
        ("from=300&to=600", [("orders", 1)]),
    ],
)
def test_incidents_endpoint_filters_by_state_and_group(
    stored: ASGIApp, query: str, expected: list[tuple[str, int]]
) -> None:
    assert stories_and_cursor(stored, f"/api/v1/incidents?{query}") == (expected, None)


def test_incidents_are_paged_for_all_groups_or_one_group(stored: ASGIApp) -> None:
    first, cursor = stories_and_cursor(stored, "/api/v1/incidents?limit=2")
    rest = stories_and_cursor(stored, f"/api/v1/incidents?limit=2&cursor={cursor}")
    assert (len(first), rest) == (2, ([("team/checkout", 1)], None))
    assert stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/incidents")[0] == [
        ("team/checkout", 2),
        ("team/checkout", 1),
    ]
    assert stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/incidents?open=true")[0] == [("team/checkout", 2)]
    assert ask(stored, "/api/v1/groups/none/incidents").status == 404
    answer = ask(stored, "/api/v1/incidents?open=yes")
    assert (answer.status, answer.json["detail"]) == (400, "open: 'yes' is not one of true, false")


def test_caught_up_differs_between_episodes_and_incidents(stored: ASGIApp) -> None:
    assert ask(stored, "/api/v1/incidents").json["caughtUp"] is False
    assert ask(stored, f"/api/v1/groups/{GROUP}/episodes").json["caughtUp"] is True
