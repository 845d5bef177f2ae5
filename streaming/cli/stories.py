"""Prints episode stories and freshness warnings among the diffs of ``watch``."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from streaming.cli.diff_lines import FeedPrinter, clock
from streaming.cli.output import warn_skipped
from streaming.freshness import Freshness
from streaming.kafka.access import NoPermission
from streaming.kafka.clients import Closeable
from streaming.kafka.compacted_topics import EpisodeReader
from streaming.kafka.topic_reader import TopicUnreadable
from streaming.process import warn

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_T = TypeVar("_T")
#: Seconds between polls of the topic.
_STORY_POLL_SECONDS: Final = 0.1
#: Seconds that a diff waits for its story, as the stream writes both at the same time.
_STORY_WAIT_SECONDS: Final = 0.2


class StoryFollower(Closeable):
    """Prints each change of an episode to standard output.

    If the topic is missing, or this user may not read it, one warning is printed and no stories.

    ``as_json``: print each record unchanged; otherwise print a line if the story or the episode's status has changed.
    ``follow``: wait for a missing topic. ``stopped``: returns True to end before all records are read.
    """

    def __init__(
        self,
        settings: "Settings",
        *,
        as_json: bool,
        group: str | None,
        from_beginning: bool,
        follow: bool,
        stopped: Callable[[], bool],
    ) -> None:
        self._printer, self._prints_only_changes = FeedPrinter(as_json=as_json), not as_json
        self._is_stopped = stopped
        self._next = self._next_wait_at = float("-inf")
        self._reader: EpisodeReader | None = None
        try:
            self._reader = EpisodeReader(
                settings, from_beginning=from_beginning, group=group, follow=follow, on_malformed=warn_skipped
            )
        except (NoPermission, TopicUnreadable) as problem:
            self._warn_and_stop_reading(problem)

    def poll(self, now: float) -> None:
        """Print changed episodes (on the first call all episodes); ``now``: seconds of the monotonic clock."""
        if now < self._next:
            return
        first = self._next == float("-inf")
        self._next = now + _STORY_POLL_SECONDS
        self._print_stories(0)
        while first and self._reader is not None and self._reader.is_behind and not self._is_stopped():
            self._print_stories(_STORY_POLL_SECONDS)

    def with_stories(self, records: Iterable[_T]) -> Iterator[_T]:
        """Yield the diffs; before each diff, print the episode stories that were published with the diff."""
        for record in records:
            now = time.monotonic()
            if now >= self._next_wait_at:
                self._next_wait_at = now + 1.0  # so that many diffs in a row are not delayed
                deadline = now + _STORY_WAIT_SECONDS
                while self._reader is not None and (seconds_left := deadline - time.monotonic()) > 0:
                    if self._print_stories(seconds_left):
                        break
            yield record

    def _print_stories(self, timeout: float) -> bool:
        if self._reader is None:
            return False
        try:
            records = self._reader.poll(timeout)
        except (NoPermission, TopicUnreadable) as problem:
            self._warn_and_stop_reading(problem)
            return False
        for record in records:
            self._printer.story(record.episode, record.value, prints_only_changes=self._prints_only_changes)
        return bool(records)

    def _warn_and_stop_reading(self, problem: Exception) -> None:
        warn(f"no stories: {problem}")
        self.close()

    def close(self) -> None:
        """Close the command's connections to Kafka."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class FreshnessWarnings:
    """Reports on standard error when a component's heartbeats are late, and when all components are up to date again.

    ``freshness`` takes seconds of the monotonic clock.
    """

    def __init__(self, freshness: Callable[[float], Freshness]) -> None:
        self._freshness = freshness
        self._next = float("-inf")
        self._last_reason: str | None = None

    def poll(self, now: float, epoch_seconds: float) -> None:
        """Warn if the data became outdated or current again; ``now``: monotonic time, ``epoch_seconds``: wall clock."""
        if now < self._next:
            return
        self._next = now + 1.0
        freshness = self._freshness(now)
        late, reported = freshness.late, self._last_reason
        if late is not None and late.reason != reported:
            self._last_reason, age = late.reason, time_ago(epoch_seconds - late.since / 1000)
            warn(f"{late.reason} since {clock(late.since)} ({age}): groups may have changed since")
        elif late is None and freshness.is_known and reported is not None:
            self._last_reason = None
            warn("All components of the monitor send heartbeats again and are up to date")


def time_ago(seconds: float) -> str:
    """Return an age as ``40 s ago``, ``13 min ago``, ``3 h ago`` or ``2 d ago``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if whole >= length:
            return f"{whole // length} {unit} ago"
    return f"{whole} s ago"
