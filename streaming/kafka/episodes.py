"""Episodes as they stand in their topic now, for programs and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streaming.kafka.topic_reader import read_to_end
from streaming.settings.config import Settings
from streaming.wire import codec
from streaming.wire.episodes import EPISODE_TYPE, Episode, MalformedEpisode, decode_episode, of_key


def read_episodes(
    settings: Settings,
    group: str | None = None,
    *,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
) -> Iterator[Episode]:
    """The last record of every episode, or of one group's, by group and time; of a topic read to its end.

    ``until``: reading ends early when it is true. ``on_malformed`` is told of each record that is no episode, and
    reading goes on behind it.

    Raises:
        MalformedEpisode: a record is no episode, and there is no ``on_malformed``.
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
        NotAllowed, ClusterUnavailable: as named.
    """
    found: dict[tuple[str, int], Episode] = {}
    wanted = None if group is None else f"{group}/".encode()
    for message in read_to_end(settings.kafka, settings.topics.episodes, until=until):
        key, value = message.key(), message.value()
        if key is None or (wanted is not None and not key.startswith(wanted)):
            continue
        try:
            place = of_key(key)
            if value is None:
                found.pop(place, None)
            elif codec.ce_attributes(message.headers()).get("type", EPISODE_TYPE) == EPISODE_TYPE:
                found[place] = decode_episode(value)
        except MalformedEpisode as problem:
            if on_malformed is None:
                raise
            on_malformed(problem)
    told = (one for one in found.values() if group is None or one.group_id == group)
    yield from sorted(told, key=lambda one: (one.group_id, one.opened_at, one.episode))
