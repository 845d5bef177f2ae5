"""What the compacted topics hold now: the newest record of each key, read to the end once.

::

    assignments, told = read_groups(load(bootstrap_servers="127.0.0.1:9092"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from assignors.errors import BadInput
from streaming.kafka.topic_reader import TopicReader
from streaming.settings.config import Settings
from streaming.wire import codec
from streaming.wire.diffs import LatestAssignment
from streaming.wire.episodes import (
    EpisodeRecord,
    IncidentRecord,
    MalformedEpisode,
    decode_episode,
    decode_incident,
)

_AT_ONCE: Final = 1000
_assignments = msgspec.json.Decoder(LatestAssignment)


class MalformedLatest(BadInput):
    """A record of a compacted topic does not parse."""


def read_episodes(
    settings: Settings,
    *,
    group: str | None = None,
    on_malformed: Callable[[MalformedLatest], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[EpisodeRecord]:
    """Every episode that is known, of all groups or of one; its newest record.

    Args:
        settings: how to reach the cluster and what the topic is called.
        group: only this group's.
        on_malformed: told of each record that does not parse, which is left out; without it that is an error.
        each: told how many more records were read.

    Raises:
        TopicUnreadable: there is no such topic.
        MalformedLatest: a record does not parse, and there is no ``on_malformed``.
        NotAllowed, ClusterUnavailable, …: as :class:`TopicReader`.
    """
    topic = settings.topics.episodes
    return _episodes(topic, _newest(settings, [topic], group, each)[topic], on_malformed)


def read_incidents(
    settings: Settings,
    *,
    group: str | None = None,
    on_malformed: Callable[[MalformedLatest], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[IncidentRecord]:
    """Every incident that is known, of all groups or of one; its newest record.

    Arguments and errors are those of :func:`read_episodes`.
    """
    topic = settings.topics.incidents
    told = []
    for key, value in _newest(settings, [topic], group, each)[topic].items():
        try:
            told.append(IncidentRecord(decode_incident(value), value))
        except MalformedEpisode as problem:
            _refuse(topic, key, problem, on_malformed)
    return told


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
    return _assigned(topic, _newest(settings, [topic], group, each)[topic], on_malformed)


def read_groups(
    settings: Settings,
    *,
    group: str | None = None,
    on_malformed: Callable[[MalformedLatest], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> tuple[list[LatestAssignment], list[EpisodeRecord]]:
    """Who owns what now in all groups, or in one, and their episodes.

    Arguments and errors are those of :func:`read_episodes`.
    """
    episodes, latest = settings.topics.episodes, settings.topics.assignments
    found = _newest(settings, [latest, episodes], group, each)
    assignments = _assigned(latest, found[latest], on_malformed)
    return assignments, _episodes(episodes, found[episodes], on_malformed)


def _assigned(
    topic: str, values: Mapping[bytes, bytes], on_malformed: Callable[[MalformedLatest], None] | None
) -> list[LatestAssignment]:
    told = []
    for key, value in values.items():
        try:
            told.append(codec.decode(_assignments, value))
        except codec.UNREADABLE as problem:
            _refuse(topic, key, problem, on_malformed)
    return told


def _newest(
    settings: Settings, topics: Iterable[str], group: str | None, each: Callable[[int], None]
) -> dict[str, dict[bytes, bytes]]:
    """By topic the newest value of each key; a key whose newest record has no value is gone."""
    wanted = None if group is None else group.encode()
    found: dict[str, dict[bytes, bytes]] = {topic: {} for topic in topics}
    with TopicReader(settings.kafka, found) as reader:
        while not reader.at_end:
            messages = reader.poll(0.1, _AT_ONCE)
            each(len(messages))
            for message in messages:
                topic, key, value = message.topic() or "", message.key() or b"", message.value()
                of_group = key if topic == settings.topics.assignments else key.rpartition(b"/")[0]
                if wanted is not None and of_group != wanted:
                    continue
                if value is None:
                    found[topic].pop(key, None)
                else:
                    found[topic][key] = value
    return found


def _episodes(
    topic: str, values: Mapping[bytes, bytes], on_malformed: Callable[[MalformedLatest], None] | None
) -> list[EpisodeRecord]:
    told = []
    for key, value in values.items():
        try:
            told.append(EpisodeRecord(decode_episode(value), value))
        except MalformedEpisode as problem:
            _refuse(topic, key, problem, on_malformed)
    return told


def _refuse(
    topic: str, key: bytes, problem: Exception, on_malformed: Callable[[MalformedLatest], None] | None
) -> None:
    refused = MalformedLatest(f"{topic} key {key.decode(errors='backslashreplace')}: {problem}")
    if on_malformed is None:
        raise refused from problem
    on_malformed(refused)
