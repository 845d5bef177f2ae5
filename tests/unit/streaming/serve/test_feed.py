import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from anyio import CapacityLimiter

from streaming.serve import board as board_module
from streaming.serve.archive import Archive
from streaming.serve.board import Board, FeedFilter, FeedStatus, Stale
from streaming.serve.feed import Feed, FeedResponse, FeedTimes
from streaming.serve.history import History, Retention
from tests.support.compacted import checkout_group
from tests.support.feed import records, stories, story
from tests.support.histories import Group
from tests.support.incidents import incident


@dataclass
class Event:
    name: str
    id: str | None
    data: dict[str, object]

    @property
    def seq(self) -> object:
        return self.data.get("seq")


def parse_event(chunk: bytes) -> list[Event]:
    events = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in fields:
            events.append(Event(fields["event"], fields.get("id"), json.loads(fields["data"])))
    return events


def run_async(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return a function that runs the coroutine test in an event loop."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


class FeedUnderTest:
    """A feed over a history into which only the test writes."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.group = Group("g", {"t": 6}, 1)
        self.offset = 0
        self.board = Board(history.round_range, history.groups)
        times = FeedTimes(keep_alive_seconds=0.05, gather_seconds=0)
        self.served = Feed(self.board, Archive(history.path), CapacityLimiter(2), times)

    def store(self, count: int, *, publish: bool = True) -> None:
        diffs = [diff for _ in range(count) for diff in self.group.change()][:count]
        batch = self.history.append(records(diffs, start=self.offset))
        self.offset += count
        if publish:
            self.board.publish(batch)

    def trim(self, now_ms: int) -> None:
        """Remove the rounds that the history stored before this time."""
        self.history.trim(Retention(0, 2**40), now_ms)
        self.board.trimmed(self.history.round_range, self.history.groups, [], self.history.current_stories)

    @contextlib.asynccontextmanager
    async def listen(self, last: Any = None, wanted: FeedFilter | None = None) -> "AsyncIterator[Reader]":
        with self.board.listener_event() as waker:
            place = (last, None) if isinstance(last, int) else last
            response = FeedResponse(self.served, wanted or FeedFilter(), place)
            async with contextlib.aclosing(response.chunks(waker)) as chunks:
                yield Reader(chunks)


@dataclass
class Reader:
    chunks: AsyncIterator[bytes]

    async def until(self, name: str, seq: int | None = None) -> list[Event]:
        """Return the events up to the first event with this name and, unless it is None, this sequence number."""
        events: list[Event] = []
        async with asyncio.timeout(60):
            async for chunk in self.chunks:
                events += parse_event(chunk)
                if any(event.name == name and seq in (None, event.seq) for event in events):
                    return events
        return events


@pytest.fixture
def feed(history: History) -> FeedUnderTest:
    return FeedUnderTest(history)


def numbers(events: list[Event]) -> list[object]:
    return [event.seq for event in events if event.name == "round"]


@run_async
async def test_feed_sends_a_snapshot_and_then_each_round(feed: FeedUnderTest) -> None:
    feed.store(3)
    async with feed.listen() as reader:
        first = await reader.until("snapshot")
        assert [event.name for event in first] == ["snapshot"]
        assert first[0].id == f"{feed.history.epoch}.3"
        feed.store(2)
        assert numbers(await reader.until("round", 5)) == [4, 5]


@run_async
async def test_returning_client_receives_missed_rounds_only(feed: FeedUnderTest) -> None:
    feed.store(1200)
    async with feed.listen(last=150) as reader:
        events = await reader.until("progress")
        assert {event.name for event in events} == {"round", "progress"}
        assert numbers(events) == list(range(151, 1201))
        feed.store(1)
        assert numbers(await reader.until("round")) == [1201]
    async with feed.listen(last=1201) as reader:
        assert [event.name for event in await reader.until("progress")] == ["progress"]


@run_async
async def test_event_stored_while_connecting_is_sent_once(feed: FeedUnderTest) -> None:
    """A client that connects between the storing and the publishing of an event receives the event once."""
    feed.store(10)
    ahead = Group("h", {"t": 2}, 1)
    batch = feed.history.append(records(ahead.diffs(3), start=10))
    async with feed.listen(last=4) as reader:
        assert numbers(await reader.until("progress")) == [5, 6, 7, 8, 9, 10]
        feed.board.publish(batch)
        assert numbers(await reader.until("round", 13)) == [11, 12, 13]


@run_async
async def test_slow_client_continues_from_the_history(feed: FeedUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "MAX_EVENTS", 16)
    async with feed.listen(last=0) as reader:
        await reader.until("progress")
        feed.store(500)  # the client reads nothing meanwhile
        events = await reader.until("round", 500)
        assert numbers(events) == list(range(1, 501))
        assert feed.board.fell_behind_count == 1


@pytest.mark.parametrize("last", [-1, 3, 999])
@run_async
async def test_expired_cursor_is_reported_and_a_snapshot_follows(feed: FeedUnderTest, last: int) -> None:
    feed.store(20)
    feed.trim(2**60)
    feed.store(1)
    async with feed.listen(last=last) as reader:
        assert [event.name for event in await reader.until("snapshot")] == ["reset", "snapshot"]


@run_async
async def test_filter_sends_matches_and_keepalives_carry_positions(feed: FeedUnderTest) -> None:
    feed.store(1)
    async with feed.listen(wanted=FeedFilter(cause="member.left")) as reader:
        await reader.until("snapshot")
        feed.store(60)
        events = await reader.until("progress")
        kinds = {event.data["summary"]["cause"]["kind"] for event in events if event.name == "round"}
        assert kinds == {"member.left"}
        assert events[-1].id == f"{feed.history.epoch}.61"


@run_async
async def test_group_filter_gets_the_current_state(feed: FeedUnderTest) -> None:
    feed.store(2)
    async with feed.listen(wanted=FeedFilter(group="another")) as reader:
        await reader.until("snapshot")
        stale = Stale("kafka-unreachable", "No contact with Kafka", 5)
        feed.board.progress(FeedStatus(lag=None, stale=stale))
        progress = (await reader.until("progress"))[-1]
        assert progress.id is None  # progress arrives at once, and not with the next keep-alive
        assert progress.data["stale"] == msgspec.to_builtins(stale)


def test_a_history_that_cannot_be_read_ends_the_stream_in_order(feed: FeedUnderTest) -> None:
    feed.store(20)
    feed.history._connection.execute("UPDATE rounds SET body = x'00'")
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, object]) -> None:
        sent.append(dict(message))

    response = FeedResponse(feed.served, FeedFilter(), (5, None))
    asyncio.run(response({"method": "GET", "state": {}}, receive, send))
    assert sent[-1] == {"type": "http.response.body", "body": b""}


@run_async
async def test_closing_ends_the_stream(feed: FeedUnderTest) -> None:
    async with feed.listen() as reader:
        assert await anext(reader.chunks) == b"retry: 1000\n\n"
        await reader.until("snapshot")
        feed.board.close()
        assert [chunk async for chunk in reader.chunks] == []


@run_async
async def test_oldest_stored_position_can_be_resumed(feed: FeedUnderTest) -> None:
    feed.store(20)
    at = feed.history._connection.execute("SELECT timestamp FROM rounds WHERE seq = 8").fetchone()[0]
    feed.trim(at)
    trimmed_seq = feed.history.round_range.trimmed
    async with feed.listen(last=trimmed_seq) as reader:
        assert numbers(await reader.until("progress")) == list(range(trimmed_seq + 1, 21))
    async with feed.listen(last=trimmed_seq - 1) as reader:
        assert [event.name for event in await reader.until("snapshot")] == ["reset", "snapshot"]


class Client:
    """An ASGI client that reads until it disconnects."""

    def __init__(self, feed: FeedUnderTest) -> None:
        self.sent: list[dict[str, Any]] = []
        self.aborted_connections: list[bool] = []
        self.left = asyncio.Event()
        self.took = asyncio.Event()
        self._feed = feed.served

    async def run(self) -> None:
        scope = {"method": "GET", "state": {"abort": lambda: self.aborted_connections.append(True)}}
        async with asyncio.timeout(60):
            await FeedResponse(self._feed, FeedFilter(), None)(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, object]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(dict(message))
        if b"event: snapshot" in message.get("body", b""):
            self.took.set()


@run_async
async def test_departed_client_is_not_tracked(feed: FeedUnderTest) -> None:
    client = Client(feed)
    running = asyncio.create_task(client.run())
    await client.took.wait()
    assert len(feed.board.listeners) == 1
    client.left.set()
    await running
    board = feed.board
    assert (len(board.listeners), board.dropped_unread, client.aborted_connections) == (0, 0, [])
    assert client.sent[0]["status"] == 200
    assert client.sent[-1] == {"type": "http.response.body", "body": b""}


@run_async
async def test_feed_sends_bursts_in_few_full_writes(feed: FeedUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of events is sent in few writes, and no event is split between two writes."""
    monkeypatch.setattr("streaming.serve.feed.TARGET_WRITE_BYTES", 20_000)
    async with feed.listen() as reader:
        await reader.until("snapshot")
        feed.store(200)
        sizes, received_rounds = [], 0
        async for chunk in reader.chunks:
            assert chunk.endswith(b"\n\n")
            sizes.append(len(chunk))
            received_rounds += chunk.count(b"event: round")
            if received_rounds == 200:
                break
    assert len(sizes) > 3
    assert min(sizes[:-1]) >= 20_000


FILTER_WITH_STORIES = FeedFilter(stories=True)


def store_incidents(feed: FeedUnderTest, *numbers: int, group: str = "g", **fields: Any) -> None:
    """Store and publish incidents of a group with these incident numbers."""
    updates = [story(incident(group, number, **fields)) for number in numbers]
    feed.board.publish(feed.history.append(updates))


def incident_numbers(events: list[Event]) -> list[int]:
    return [event.data["incident"]["incident"] for event in events if event.name == "incident"]  # type: ignore[index]


@run_async
async def test_feed_without_stories_has_rounds_and_plain_ids(feed: FeedUnderTest) -> None:
    store_incidents(feed, 1)
    async with feed.listen() as reader:
        await reader.until("snapshot")
        store_incidents(feed, 2)
        feed.store(1)
        events = await reader.until("progress")
        assert [event.name for event in events] == ["round", "progress"]
        assert [event.id for event in events] == [f"{feed.history.epoch}.1"] * 2


@run_async
async def test_current_stories_come_first_and_then_changes(feed: FeedUnderTest) -> None:
    feed.board.publish(feed.history.append(stories(checkout_group())))
    store_incidents(feed, 1)
    store_incidents(feed, 2, closed_at=9)
    last = feed.board.current_stories.last
    async with feed.listen(wanted=FILTER_WITH_STORIES) as reader:
        first = await reader.until("stories")
        assert [event.name for event in first] == ["snapshot", "stories"]
        assert first[1].id == f"{feed.history.epoch}.0.{last}"
        episodes, incidents = (first[1].data[name] for name in ("episodes", "incidents"))
        assert [(episode["groupId"], episode["episode"]) for episode in episodes] == [("team/checkout", 2)]  # type: ignore[attr-defined]
        assert [value["incident"] for value in incidents] == [1]  # type: ignore[attr-defined]
        feed.store(1)
        store_incidents(feed, 1, closed_at=700)
        events = await reader.until("incident")
        position = f"{feed.history.epoch}.1"
        assert [(event.name, event.id) for event in events] == [
            ("round", f"{position}.{last}"),
            ("incident", f"{position}.{last + 1}"),
        ]
        assert events[1].data["incident"]["status"] == "closed"  # type: ignore[index]
        assert set(events[1].data) == {"seq", "id", "names", "incident"}
        mark = (await reader.until("progress"))[-1]
        assert mark.id == f"{position}.{last + 1}"


@run_async
async def test_returning_client_receives_each_changed_story_once(feed: FeedUnderTest) -> None:
    store_incidents(feed, 1, 2, 3)
    store_incidents(feed, 1, times=2)
    feed.store(3)
    async with feed.listen((1, 2), FILTER_WITH_STORIES) as reader:
        events = await reader.until("progress")
        assert [event.seq for event in events if event.name == "round"] == [2, 3]
        assert incident_numbers(events) == [3, 1]
        assert events[-2].id == f"{feed.history.epoch}.3.4"
        assert "stories" not in [event.name for event in events]


@run_async
async def test_cursor_of_rounds_alone_gets_the_current_stories(feed: FeedUnderTest) -> None:
    store_incidents(feed, 1)
    feed.store(2)
    async with feed.listen((1, None), FILTER_WITH_STORIES) as reader:
        names = [event.name for event in await reader.until("progress")]
        assert names == ["round", "stories", "progress"]


@run_async
async def test_slow_client_receives_every_story(feed: FeedUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "MAX_EVENTS", 16)
    async with feed.listen((0, 0), FILTER_WITH_STORIES) as reader:
        await reader.until("progress")
        for number in range(1, 40):
            store_incidents(feed, number)
            feed.store(1)
        events: list[Event] = []
        async with asyncio.timeout(60):
            while set(incident_numbers(events)) != set(range(1, 40)):
                events += await reader.until("incident")
        assert len(incident_numbers(events)) == 39
        assert [event.seq for event in events if event.name == "round"] == list(range(1, 40))


@run_async
async def test_deleted_story_does_not_block_clients(feed: FeedUnderTest) -> None:
    store_incidents(feed, 1, 2)
    feed.history._connection.execute("DELETE FROM stories WHERE number = 2")
    async with feed.listen((0, 0), FILTER_WITH_STORIES) as reader:
        assert incident_numbers(await reader.until("progress")) == [1]


@run_async
async def test_group_filter_applies_to_stories_too(feed: FeedUnderTest) -> None:
    store_incidents(feed, 1, group="other")
    async with feed.listen(wanted=FeedFilter(group="g", cause="member.left", stories=True)) as reader:
        first = await reader.until("stories")
        assert first[-1].data["incidents"] == []
        store_incidents(feed, 2, group="other")
        store_incidents(feed, 1)
        assert incident_numbers(await reader.until("incident")) == [1]
