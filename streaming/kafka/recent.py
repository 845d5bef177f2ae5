"""The last episodes of each group, kept up to date on a thread of its own: whoever serves them asks here.

They are in memory alone: their topic is compacted, so that every start reads all of them again.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from streaming.kafka.access import NotAllowed
from streaming.kafka.episodes import EpisodeChange, EpisodeReader
from streaming.process.plain import printable

if TYPE_CHECKING:
    from assignors.errors import BadInput
    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)

#: Episodes kept of a group.
MOST_EPISODES: Final = 100
_POLL_SECONDS: Final = 0.5
#: Until it is tried again after the topic could not be read.
_AGAIN_SECONDS: Final = 10.0
#: For the thread to end; it is no reason to stay.
_END_SECONDS: Final = 5.0


class Recent(NamedTuple):
    """An episode: when it began (ms), its number, and its record's value, deflated."""

    opened_at: int
    episode: int
    deflated: bytes

    @property
    def value(self) -> bytes:
        """As it stands in the topic."""
        return zlib.decompress(self.deflated)


class GroupEpisodes(NamedTuple):
    """The last episodes of a group, the newest first; ``caught_up``: whether these are all that the topic has."""

    caught_up: bool = False
    told: tuple[Recent, ...] = ()


class RecentEpisodes:
    """Follows the topic of episodes while its ``with`` block lasts; goes on without where it can't be read.

    Args:
        settings: the cluster and the topic.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.topics.episodes
        self._groups: dict[str, Mapping[int, Recent]] = {}
        self._caught_up = False
        self._said: str | None = None
        self._odd = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="episodes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_END_SECONDS)

    def of(self, group_id: str) -> GroupEpisodes:
        """What is known of a group; may be called from any thread."""
        told = self._groups.get(group_id, {})  # replaced as a whole, never changed
        return GroupEpisodes(self._caught_up, tuple(sorted(told.values(), reverse=True)))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - a thread that ended unseen would leave episodes that seem new
                self._caught_up = False
                self._say(str(error) if isinstance(error, NotAllowed) else f"{type(error).__name__}: {error}")
                self._stopping.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        with EpisodeReader(self._settings, on_malformed=self._say_odd) as reader:
            topic_id, self._groups = reader.topic_id, {}
            while not self._stopping.is_set():
                changes = reader.poll(_POLL_SECONDS)
                if reader.topic_id != topic_id:  # made again, or gone
                    topic_id, self._groups = reader.topic_id, {}
                for change in changes:
                    self._take(change)
                self._caught_up = reader.at_end and not reader.silent
                self._say(None)

    def _take(self, change: EpisodeChange) -> None:
        group_id, number, record = change
        told = dict(self._groups.get(group_id, {}))
        told.pop(number, None)
        if record is not None:
            try:
                record.value.decode()  # the decoder skips the text of unknown fields, which is served with the rest
            except UnicodeDecodeError as problem:
                self._say_odd(problem)
                return
            told[number] = Recent(record.episode.opened_at, number, zlib.compress(record.value, 1))
        if len(told) > MOST_EPISODES:
            del told[min(told.values()).episode]
        if told:
            self._groups[group_id] = told
        else:
            self._groups.pop(group_id, None)

    def _say(self, trouble: str | None) -> None:
        if trouble == self._said:
            return
        if trouble is None:
            _log.info("topic %s: episodes are read", self._topic)
        else:
            _log.warning("episodes are not read: %s", trouble)
        self._said = trouble

    def _say_odd(self, problem: BadInput | ValueError) -> None:
        """Tell the first of them: there may be many."""
        if not self._odd:
            self._odd = True
            _log.warning("topic %s: not usable, skipped: %s", self._topic, printable(str(problem)))
