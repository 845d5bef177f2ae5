"""Episode stories and freshness warnings that ``watch`` prints beside the diffs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from streaming.cli.groups_view import story_line
from streaming.cli.output import json_lines, raw_json
from streaming.cli.render import clock, warn_skipped
from streaming.freshness import Freshness
from streaming.kafka.access import NotAllowed
from streaming.kafka.clients import Closing
from streaming.kafka.compacted_topics import EpisodeReader
from streaming.kafka.topic_reader import TopicUnreadable
from streaming.process.plain import warn
from streaming.process.terminal import console

if TYPE_CHECKING:
    from streaming.settings.config import Settings
    from streaming.wire.episodes import EpisodeRecord


_T = TypeVar("_T")

#: Between two looks at the topic.
_STORY_POLL_SECONDS: Final = 0.1
#: A diff waits so long for its story, which the stream writes at the same time: the story stands above it.
_STORY_WAIT_SECONDS: Final = 0.2
#: Between two such waits: a long run of diffs is not held up.
_STORY_WAIT_INTERVAL: Final = 1.0


class StoryFollower(Closing):
    """Tells each change of an episode on standard output; without the topic, or the right to read it, nothing.

    What keeps stories from being told is a warning, and whoever asked for them goes on without.

    Args:
        settings: the cluster and the topic.
        as_json: each record as it stands in the topic, on a line; otherwise the story on a line when it, or the
            episode's status, changes.
        group: only this group's.
        from_beginning: first all episodes that the topic holds.
        follow: a topic that is missing is waited for.
        stopped: whether to end before everything is read.

    Raises:
        ClusterUnavailable, …: as :class:`~streaming.kafka.topic_reader.TopicReader`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        as_json: bool,
        group: str | None,
        from_beginning: bool,
        follow: bool,
        stopped: Callable[[], bool],
    ) -> None:
        self._write = json_lines() if as_json else None
        self._screen = console(soft_wrap=True)
        self._stopped = stopped
        self._said: dict[str, tuple[int, str, str]] = {}
        self._next = self._hold = float("-inf")
        self._reader: EpisodeReader | None = None
        try:
            self._reader = EpisodeReader(
                settings, from_beginning=from_beginning, group=group, follow=follow, on_malformed=warn_skipped
            )
        except (NotAllowed, TopicUnreadable) as problem:
            self._without(problem)

    def look(self, now: float) -> None:
        """Tell what has changed, all that was there first; ``now``: seconds of the monotonic clock."""
        if now < self._next:
            return
        first = self._next == float("-inf")
        self._next = now + _STORY_POLL_SECONDS
        self._tell(0)
        while first and self._behind() and not self._stopped():
            self._tell(_STORY_POLL_SECONDS)

    def above(self, records: Iterable[_T]) -> Iterator[_T]:
        """The diffs, each after the stories that came with it."""
        for record in records:
            now = time.monotonic()
            if now >= self._hold:
                self._hold = now + _STORY_WAIT_INTERVAL
                by = now + _STORY_WAIT_SECONDS
                while not self._tell(max(0.0, by - time.monotonic())) and time.monotonic() < by:
                    if self._reader is None:
                        break
            yield record

    def _behind(self) -> bool:
        reader = self._reader
        return reader is not None and not (reader.at_end or reader.missing or reader.silent)

    def _tell(self, timeout: float) -> bool:
        """Tell what comes within ``timeout`` seconds; whether something has."""
        if self._reader is None:
            return False
        try:
            changes = self._reader.poll(timeout)
        except (NotAllowed, TopicUnreadable) as problem:
            self._without(problem)
            return False
        for change in changes:
            if change.record is not None:
                self._show(change.record)
        return bool(changes)

    def _show(self, record: EpisodeRecord) -> None:
        if self._write is not None:
            self._write(raw_json(record.value))
            return
        episode = record.episode
        now = (episode.episode, episode.status, episode.story)
        if self._said.get(episode.group_id) != now:
            self._said[episode.group_id] = now
            self._screen.print(story_line(episode))

    def _without(self, problem: Exception) -> None:
        warn(f"no stories: {problem}")
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


#: Between two looks.
_FRESHNESS_POLL_SECONDS: Final = 1.0


class FreshnessWarnings:
    """Tells on standard error which part is silent, has stopped or is behind, and when all are well again.

    ``freshness`` is asked with seconds of the monotonic clock.
    """

    def __init__(self, freshness: Callable[[float], Freshness]) -> None:
        self._freshness = freshness
        self._next = float("-inf")
        self._told: str | None = None

    def look(self, now: float, wall: float) -> None:
        """Tell what has changed at ``now``; ``wall`` is the same moment in seconds since the epoch."""
        if now < self._next:
            return
        self._next = now + _FRESHNESS_POLL_SECONDS
        found = self._freshness(now)
        if found.late is None:
            if found.known and self._told is not None:
                self._told = None
                warn("All parts of the monitor are heard again, and up to date")
            return
        if found.late.reason != self._told:
            self._told = found.late.reason
            since = found.late.since
            warn(
                f"{self._told} since {clock(since)} ({ago(wall - since / 1000)}): groups may have changed since"
            )


def ago(seconds: float) -> str:
    """``40 s ago``, ``13 min ago``, ``3 h ago``, ``2 d ago``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if whole >= length:
            return f"{whole // length} {unit} ago"
    return f"{whole} s ago"
