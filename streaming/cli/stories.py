"""The stories that ``watch --stories`` tells beside the diffs: each when it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from streaming.answers.output import json_lines, one_line
from streaming.cli.groups_view import story_line
from streaming.cli.render import skipped
from streaming.kafka.access import NotAllowed
from streaming.kafka.closing import Closing
from streaming.kafka.episodes import EpisodeReader
from streaming.kafka.topic_reader import TopicUnreadable
from streaming.process.plain import warn
from streaming.process.terminal import console

if TYPE_CHECKING:
    from streaming.settings.config import Settings
    from streaming.wire.episodes import EpisodeRecord

_T = TypeVar("_T")

#: Between two looks at the topic.
_LOOK_SECONDS: Final = 0.1
#: A diff waits so long for its story, which the stream writes at the same time: the story stands above it.
_HOLD_SECONDS: Final = 0.2
#: Between two such waits: a long run of diffs is not held up.
_HOLD_EVERY: Final = 1.0


class StoriesTold(Closing):
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
                settings, from_beginning=from_beginning, group=group, follow=follow, on_malformed=skipped
            )
        except (NotAllowed, TopicUnreadable) as problem:
            self._without(problem)

    def look(self, now: float) -> None:
        """Tell what has changed, all that was there first; ``now``: seconds of the monotonic clock."""
        if now < self._next:
            return
        first = self._next == float("-inf")
        self._next = now + _LOOK_SECONDS
        self._tell(0)
        while first and self._behind() and not self._stopped():
            self._tell(_LOOK_SECONDS)

    def above(self, records: Iterable[_T]) -> Iterator[_T]:
        """The diffs, each after the stories that came with it."""
        for record in records:
            now = time.monotonic()
            if now >= self._hold:
                self._hold = now + _HOLD_EVERY
                by = now + _HOLD_SECONDS
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
            self._write(one_line(record.value))
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
