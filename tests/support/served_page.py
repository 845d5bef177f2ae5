"""The page in a browser, served by this process over records in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser, Locator, Page, expect

from streaming.freshness import Freshness
from streaming.records.codec import encode
from streaming.records.episodes import Episode, Incident
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import Retention
from streaming.serve.records import TopicRecord
from tests.support.browser import open_page
from tests.support.built_diffs import START_MS, DiffBuilder
from tests.support.compacted import episode_updates, latest
from tests.support.feed import ASSIGNMENTS, DIFFS, MemorySource, story
from tests.support.feed_server import RunningServer, running
from tests.support.wait import eventually


def page_options(folder: Path) -> ServeOptions:
    """Return options of a server on a free port; generated diffs have timestamps of 2023, so no round is removed."""
    return ServeOptions(folder / "h.sqlite", port=0, limits=Retention(2**50, 2**40))


@contextmanager
def served_page(
    browser: Browser,
    folder: Path,
    source: MemorySource,
    path: str = "/",
    *,
    freshness: Callable[[], Freshness] = Freshness,
    timezone: str | None = None,
) -> Iterator[tuple[RunningServer, Page]]:
    """Serve the source's records and open a page of the server; assert that the page's console has no error.

    The page of a group opens once the server has read a group. ``about:blank``: the test opens a page later.
    """
    with running(page_options(folder), source, freshness) as feed:
        if path.startswith("/groups/"):
            eventually(lambda: feed.get("/api/v1/groups")["groups"])
        url = f"{feed.server.address}{path}" if path.startswith("/") else path
        watched = open_page(browser, url, timezone=timezone)
        yield feed, watched.page
        assert watched.errors == []
        watched.page.context.close()


@dataclass
class StoryPage:
    """The page in a browser, and the feed behind it, whose records the test writes."""

    page: Page
    feed: RunningServer
    shown_counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    update_count: int = 0

    def add(self, builder: DiffBuilder, *, over: bool = True, racks: dict[str, str] | None = None) -> DiffBuilder:
        """Write the group's new rounds and episode updates, and its latest assignment; return the group."""
        rounds, shown_story_count = self.shown_counts.get(builder.group_id, (0, 0))
        for ce_id, diff in builder.diffs[rounds:]:
            self._put(DIFFS, diff.group_id, encode(diff), f"{diff.group_id}/{ce_id}")
        stories = episode_updates(builder, over=over)
        for episode in stories[shown_story_count:]:
            round_keys = [f"{episode.group_id}/{ce_id}" for ce_id in episode.rounds]
            self.put(msgspec.structs.replace(episode, rounds=round_keys))
        value = encode(msgspec.structs.replace(latest(builder), racks=racks or msgspec.UNSET))
        self._put(ASSIGNMENTS, builder.group_id, value)
        # A longer story replaces the record that ends the last episode.
        self.shown_counts[builder.group_id] = len(builder.diffs), len(stories) - over
        return builder

    def _put(self, topic: str, group_id: str, value: bytes, ce_id: str | None = None) -> None:
        source = self.feed.source
        source.put(TopicRecord(topic, 0, len(source.log), group_id.encode(), value, ce_id))

    def put(self, episode_or_incident: Episode | Incident) -> None:
        self.feed.source.put(story(episode_or_incident, offset=len(self.feed.source.log)))

    def update(self, builder: DiffBuilder, *, over: bool = True, **fields: Any) -> None:
        """Write a later update of the group's newest episode with these fields."""
        self.update_count += 1
        newest = episode_updates(builder, over=over)[-1]
        changes = {"updated_at": newest.updated_at + self.update_count, "rounds": []} | fields
        self.put(msgspec.structs.replace(newest, **changes))

    def close(self, incident: Incident, at: int = START_MS + 9, **fields: Any) -> None:
        """Write the incident's last update: it is closed."""
        self.put(msgspec.structs.replace(incident, status="closed", closed_at=START_MS + 9, updated_at=at, **fields))

    def open(self, path: str) -> Page:
        # The console lists each 404 of a group that the server has not read yet.
        eventually(
            lambda: {*self.shown_counts} <= {group["groupId"] for group in self.feed.get("/api/v1/groups")["groups"]}
        )
        self.page.goto(f"{self.feed.server.address}{path}")
        expect(self.page.locator("#live")).to_have_attribute("data-state", "live")
        expect(self.page.locator("[data-loading]")).to_have_count(0)
        return self.page

    def region(self, label: str) -> Locator:
        return self.page.get_by_role("region", name=label)
