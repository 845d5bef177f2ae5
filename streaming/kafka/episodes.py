"""Episodes as they stand in their topic, now and as they change, for programs and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from streaming.kafka import newest
from streaming.kafka.closing import Closing
from streaming.kafka.topic_reader import TopicReader
from streaming.settings.config import Settings
from streaming.wire import codec
from streaming.wire.episodes import (
    EPISODE_TYPE,
    Episode,
    EpisodeRecord,
    Incident,
    MalformedEpisode,
    of_key,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

_AT_ONCE: Final = 1000


class EpisodeChange(NamedTuple):
    """A new record of a group's episode; ``record`` is None when the topic no longer has the episode."""

    group_id: str
    episode: int
    record: EpisodeRecord | None


class EpisodeReader(Closing):
    """Follows the topic of episodes without a consumer group: every record, those of a group in order.

    Args:
        settings: how to reach the cluster and what the topic is called.
        from_beginning: start at the oldest record that compaction has left; otherwise only what lands from now on.
        group: only this group's.
        follow: a topic that is missing or deleted is waited for, which is logged; otherwise that is an error.
        on_malformed: told of each record that is no episode; reading goes on behind it.

    Raises:
        TopicUnreadable, NotAllowed, ClusterUnavailable, …: as :class:`TopicReader`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        from_beginning: bool = True,
        group: str | None = None,
        follow: bool = True,
        on_malformed: Callable[[MalformedEpisode], None] = lambda _: None,
    ) -> None:
        self._topic = settings.topics.episodes
        self._group = group
        self._on_malformed = on_malformed
        self._reader = TopicReader(
            settings.kafka, [self._topic], from_beginning=from_beginning, wait=follow, follow=follow
        )

    @property
    def topic_id(self) -> str | None:
        """The topic's id, another one when it was made again; None while there is none."""
        return self._reader.ids.get(self._topic)

    @property
    def missing(self) -> bool:
        """Whether the topic does not exist, and is waited for."""
        return bool(self._reader.missing)

    @property
    def at_end(self) -> bool:
        """Whether everything that was in the topic when reading it began has been read."""
        return self._reader.at_end

    @property
    def silent(self) -> bool:
        """Whether a partition can't be read now: the cluster does not answer, or it has no leader."""
        return self._reader.silent_since is not None or bool(self._reader.leaderless)

    def poll(self, timeout: float) -> list[EpisodeChange]:
        """What has changed, or nothing after ``timeout`` seconds.

        Raises:
            TopicUnreadable: the topic was deleted, and is not to be followed.
            NotAllowed: this user may not read it any more.
        """
        return [
            change for message in self._reader.poll(timeout, _AT_ONCE) for change in self._changes(message)
        ]

    def _changes(self, message: Message) -> Iterator[EpisodeChange]:
        key, value = message.key(), message.value()
        if codec.ce_attributes(message.headers()).get("type", EPISODE_TYPE) != EPISODE_TYPE:
            return
        try:
            group_id, number = of_key(key or b"")
            if self._group not in (None, group_id):
                return
            record = None if value is None else newest.episode_of(key or b"", value)
        except MalformedEpisode as problem:
            place = f"{self._topic} partition {message.partition()} offset {message.offset()}"
            self._on_malformed(MalformedEpisode(f"{place}: {problem}"))
            return
        yield EpisodeChange(group_id, number, record)

    def close(self) -> None:
        """Give the connections back."""
        self._reader.close()


def read_episodes(
    settings: Settings,
    group: str | None = None,
    *,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
) -> Iterator[Episode]:
    """The last record of every episode, or of one group's, by group and number; of a topic read to its end.

    ``until``: reading ends early when it is true. ``on_malformed`` is told of each record that is no episode, and
    reading goes on behind it.

    Raises:
        MalformedEpisode: a record is no episode, and there is no ``on_malformed``.
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
        NotAllowed, ClusterUnavailable: as named.
    """
    told = newest.read_episodes(settings, group=group, until=until, on_malformed=on_malformed)
    yield from sorted((one.episode for one in told), key=lambda one: (one.group_id, one.episode))


def read_incidents(
    settings: Settings,
    group: str | None = None,
    *,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
) -> Iterator[Incident]:
    """The last record of every incident, or of one group's, by group and number; as :func:`read_episodes`."""
    told = newest.read_incidents(settings, group=group, until=until, on_malformed=on_malformed)
    yield from sorted((one.incident for one in told), key=lambda one: (one.group_id, one.incident))
