"""What the compacted topics hold now: the newest record of each key, read to the end once.

::

    told = read_groups(load(bootstrap_servers="127.0.0.1:9092"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from assignors.errors import BadInput
from streaming.kafka.topic_reader import TopicReader
from streaming.settings.config import Settings
from streaming.wire import codec
from streaming.wire.diffs import LatestAssignment
from streaming.wire.episodes import (
    EPISODE_TYPE,
    INCIDENT_TYPE,
    EpisodeRecord,
    IncidentRecord,
    MalformedEpisode,
    decode_episode,
    decode_incident,
    of_key,
)

_AT_ONCE: Final = 1000
_assignments = msgspec.json.Decoder(LatestAssignment)
_T = TypeVar("_T")
_E = TypeVar("_E", bound=BadInput)


class MalformedLatest(BadInput):
    """A record of the topic of latest assignments does not parse."""


class Told(NamedTuple):
    """What the topics tell of all groups, or of one: who owns what now, and every episode and incident."""

    assignments: list[LatestAssignment]
    episodes: list[EpisodeRecord]
    incidents: list[IncidentRecord]


def read_episodes(
    settings: Settings,
    *,
    group: str | None = None,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[EpisodeRecord]:
    """Every episode that is known, of all groups or of one; its newest record.

    Args:
        settings: how to reach the cluster and what the topic is called.
        group: only this group's.
        until: reading ends early when it is true.
        on_malformed: told of each record that does not parse, which is left out; without it that is an error.
        each: told how many more records were read.

    Raises:
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
        MalformedEpisode, MalformedLatest: a record does not parse, and there is no ``on_malformed``.
        NotAllowed, ClusterUnavailable, …: as :class:`TopicReader`.
    """
    topic = settings.topics.episodes
    return _told(
        topic, _newest(settings, [topic], group, each, until)[topic], _episode, MalformedEpisode, on_malformed
    )


def read_incidents(
    settings: Settings,
    *,
    group: str | None = None,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[IncidentRecord]:
    """Every incident that is known, of all groups or of one; its newest record.

    Arguments and errors are those of :func:`read_episodes`.
    """
    topic = settings.topics.incidents
    return _told(
        topic,
        _newest(settings, [topic], group, each, until)[topic],
        _incident,
        MalformedEpisode,
        on_malformed,
    )


def read_assignments(
    settings: Settings,
    *,
    group: str | None = None,
    on_malformed: Callable[[MalformedLatest], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[LatestAssignment]:
    """Who owns what now in all groups, or in one.

    Arguments and errors are those of :func:`read_episodes`.
    """
    topic = settings.topics.assignments
    return _told(
        topic, _newest(settings, [topic], group, each)[topic], _assignment, MalformedLatest, on_malformed
    )


def read_groups(
    settings: Settings,
    *,
    group: str | None = None,
    on_malformed: Callable[[BadInput], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> Told:
    """Who owns what now in all groups, or in one, and their episodes and incidents.

    Arguments and errors are those of :func:`read_episodes`.
    """
    latest, episodes, incidents = (
        settings.topics.assignments,
        settings.topics.episodes,
        settings.topics.incidents,
    )
    found = _newest(settings, [latest, episodes, incidents], group, each)
    return Told(
        _told(latest, found[latest], _assignment, MalformedLatest, on_malformed),
        _told(episodes, found[episodes], _episode, MalformedEpisode, on_malformed),
        _told(incidents, found[incidents], _incident, MalformedEpisode, on_malformed),
    )


def _newest(
    settings: Settings,
    topics: Iterable[str],
    group: str | None,
    each: Callable[[int], None],
    until: Callable[[], bool] = lambda: False,
) -> dict[str, dict[bytes, bytes]]:
    """By topic the newest value of each key; a key whose newest record has no value is gone."""
    wanted = None if group is None else group.encode()
    types = {settings.topics.episodes: EPISODE_TYPE, settings.topics.incidents: INCIDENT_TYPE}
    found: dict[str, dict[bytes, bytes]] = {topic: {} for topic in topics}
    with TopicReader(settings.kafka, found) as reader:
        while not (reader.at_end or until()):
            messages = reader.poll(0.1, _AT_ONCE)
            each(len(messages))
            for message in messages:
                topic, key, value = message.topic() or "", message.key(), message.value()
                if key is None:
                    continue
                ours = types.get(topic)
                if wanted not in (None, key if ours is None else key.rpartition(b"/")[0]):
                    continue
                if ours is not None and codec.ce_attributes(message.headers()).get("type", ours) != ours:
                    continue
                if value is None:
                    found[topic].pop(key, None)
                else:
                    found[topic][key] = value
    return found


def _assignment(_: bytes, value: bytes) -> LatestAssignment:
    try:
        return codec.decode(_assignments, value)
    except codec.UNREADABLE as problem:
        raise MalformedLatest(str(problem)) from problem


def _episode(key: bytes, value: bytes) -> EpisodeRecord:
    of_key(key)
    return EpisodeRecord(decode_episode(value), value)


def _incident(key: bytes, value: bytes) -> IncidentRecord:
    of_key(key)
    return IncidentRecord(decode_incident(value), value)


def _told(
    topic: str,
    values: Mapping[bytes, bytes],
    read: Callable[[bytes, bytes], _T],
    malformed: type[_E],
    on_malformed: Callable[[_E], None] | None,
) -> list[_T]:
    """What the values are; those that do not parse are told or refused by their topic and key."""
    told = []
    for key, value in values.items():
        try:
            told.append(read(key, value))
        except malformed as problem:
            refused = malformed(f"{topic} key {key.decode(errors='backslashreplace')}: {problem}")
            if on_malformed is None:
                raise refused from problem
            on_malformed(refused)
    return told
