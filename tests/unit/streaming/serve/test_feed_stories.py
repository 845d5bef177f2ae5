"""Tests that feed clients receive episodes and incidents in order, only on request, and once each after a gap."""

import asyncio
from typing import Any

import pytest

from streaming.serve import board as board_module
from streaming.serve.board import FeedFilter
from streaming.serve.history import History
from tests.support.compacted import checkout_group
from tests.support.feed import stories, story
from tests.support.incidents import incident
from tests.unit.streaming.serve.test_feed import Event, FeedUnderTest, run_async

FILTER_WITH_STORIES = FeedFilter(stories=True)


@pytest.fixture
def feed_under_test(history: History) -> FeedUnderTest:
    return FeedUnderTest(history)


def store_incidents(feed_under_test: FeedUnderTest, *numbers: int, group: str = "g", **fields: Any) -> None:
    """Store and publish incidents of a group with these incident numbers."""
    updates = [story(incident(group, number, **fields)) for number in numbers]
    feed_under_test.board.publish(feed_under_test.history.append(updates))


def incident_numbers(events: list[Event]) -> list[int]:
    return [event.data["incident"]["incident"] for event in events if event.name == "incident"]  # type: ignore[index]


@run_async
async def test_feed_without_stories_has_rounds_and_plain_ids(feed_under_test: FeedUnderTest) -> None:
    store_incidents(feed_under_test, 1)
    async with feed_under_test.listen() as reader:
        await reader.until("snapshot")
        store_incidents(feed_under_test, 2)
        feed_under_test.store(1)
        events = await reader.until("progress")
        assert [event.name for event in events] == ["round", "progress"]
        assert [event.id for event in events] == [f"{feed_under_test.history.epoch}.1"] * 2


@run_async
async def test_current_stories_come_first_and_then_changes(feed_under_test: FeedUnderTest) -> None:
    feed_under_test.board.publish(feed_under_test.history.append(stories(checkout_group())))
    store_incidents(feed_under_test, 1)
    store_incidents(feed_under_test, 2, closed_at=9)
    last = feed_under_test.board.current_stories.last
    async with feed_under_test.listen(wanted=FILTER_WITH_STORIES) as reader:
        first = await reader.until("stories")
        assert [event.name for event in first] == ["snapshot", "stories"]
        assert first[1].id == f"{feed_under_test.history.epoch}.0.{last}"
        episodes, incidents = (first[1].data[name] for name in ("episodes", "incidents"))
        assert [(episode["groupId"], episode["episode"]) for episode in episodes] == [("team/checkout", 2)]  # type: ignore[attr-defined]
        assert [value["incident"] for value in incidents] == [1]  # type: ignore[attr-defined]
        feed_under_test.store(1)
        store_incidents(feed_under_test, 1, closed_at=700)
        events = await reader.until("incident")
        assert [(event.name, event.id) for event in events] == [
            ("round", f"{feed_under_test.history.epoch}.1.{last}"),
            ("incident", f"{feed_under_test.history.epoch}.1.{last + 1}"),
        ]
        assert events[1].data["incident"]["status"] == "closed"  # type: ignore[index]
        assert set(events[1].data) == {"seq", "id", "names", "incident"}
        mark = (await reader.until("progress"))[-1]
        assert mark.id == f"{feed_under_test.history.epoch}.1.{last + 1}"


@run_async
async def test_returning_client_receives_each_changed_story_once(feed_under_test: FeedUnderTest) -> None:
    store_incidents(feed_under_test, 1, 2, 3)
    store_incidents(feed_under_test, 1, times=2)
    feed_under_test.store(3)
    async with feed_under_test.listen((1, 2), FILTER_WITH_STORIES) as reader:
        events = await reader.until("progress")
        assert [event.seq for event in events if event.name == "round"] == [2, 3]
        assert incident_numbers(events) == [3, 1]
        assert events[-2].id == f"{feed_under_test.history.epoch}.3.4"
        assert "stories" not in [event.name for event in events]


@run_async
async def test_cursor_of_rounds_alone_gets_the_current_stories(feed_under_test: FeedUnderTest) -> None:
    store_incidents(feed_under_test, 1)
    feed_under_test.store(2)
    async with feed_under_test.listen((1, None), FILTER_WITH_STORIES) as reader:
        names = [event.name for event in await reader.until("progress")]
        assert names == ["round", "stories", "progress"]


@run_async
async def test_slow_client_receives_every_story(
    feed_under_test: FeedUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "MAX_EVENTS", 16)
    async with feed_under_test.listen((0, 0), FILTER_WITH_STORIES) as reader:
        await reader.until("progress")
        for number in range(1, 40):
            store_incidents(feed_under_test, number)
            feed_under_test.store(1)
        events: list[Event] = []
        async with asyncio.timeout(60):
            while set(incident_numbers(events)) != set(range(1, 40)):
                events += await reader.until("incident")
        assert len(incident_numbers(events)) == 39
        assert [event.seq for event in events if event.name == "round"] == list(range(1, 40))


@run_async
async def test_deleted_story_does_not_block_clients(feed_under_test: FeedUnderTest) -> None:
    store_incidents(feed_under_test, 1, 2)
    feed_under_test.history._connection.execute("DELETE FROM stories WHERE number = 2")
    async with feed_under_test.listen((0, 0), FILTER_WITH_STORIES) as reader:
        assert incident_numbers(await reader.until("progress")) == [1]


@run_async
async def test_group_filter_applies_to_stories_too(feed_under_test: FeedUnderTest) -> None:
    store_incidents(feed_under_test, 1, group="other")
    async with feed_under_test.listen(wanted=FeedFilter(group="g", cause="member.left", stories=True)) as reader:
        first = await reader.until("stories")
        assert first[-1].data["incidents"] == []
        store_incidents(feed_under_test, 2, group="other")
        store_incidents(feed_under_test, 1)
        assert incident_numbers(await reader.until("incident")) == [1]
