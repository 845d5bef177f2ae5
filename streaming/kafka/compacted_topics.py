"""The newest record of each key in the compacted topics: assignments, episodes, incidents.

::

    groups = read_groups(load(bootstrap_servers="127.0.0.1:9092"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypedDict, Unpack

import msgspec
from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.episodes.cluster_cause import explain_episodes
from streaming.kafka.clients import Closing
from streaming.kafka.topic_reader import RecordOrder, TopicReader
from streaming.records import codec
from streaming.records.diffs import LatestAssignment
from streaming.records.episodes import (
    EPISODE_TYPE,
    INCIDENT_TYPE,
    Episode,
    EpisodeRecord,
    Incident,
    IncidentRecord,
    MalformedEpisode,
    decode_episode,
    decode_incident,
    of_key,
)
from streaming.records.events import CLUSTER
from streaming.settings.config import Settings

_AT_ONCE: Final = 1000
#: More digits than a record's number has.
_DIGITS: Final = 20
_assignments = msgspec.json.Decoder(LatestAssignment)


class MalformedLatest(BadInput):
    """A record of the topic of latest assignments does not parse."""


class _Value(NamedTuple):
    value: bytes
    written: int
    partition: int


class NewestRecords:
    """The newest record of each key that has a value, by :class:`RecordOrder`."""

    def __init__(self) -> None:
        self._order = RecordOrder()
        self.values: dict[bytes, _Value] = {}

    def take(self, key: bytes, value: bytes | None, written: int, partition: int) -> None:
        """Take the next record."""
        if not self._order.accept_key(key, partition, written):
            return
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = _Value(value, written, partition)


class ReadOptions(TypedDict, total=False):
    """Options of the readers of whole topics.

    Attributes:
        group: only this group's records.
        until: reading ends early when it is true.
        on_malformed: called with each malformed record, which is left out; without it that is an error.
        each: called with the number of records that a poll has read.
    """

    group: str | None
    until: Callable[[], bool]
    on_malformed: Callable[[Any], None] | None
    each: Callable[[int], None]


class GroupRecords(NamedTuple):
    """Records of all groups, or of one: the latest assignments, and every episode and incident."""

    assignments: list[LatestAssignment]
    episodes: list[EpisodeRecord]
    incidents: list[IncidentRecord]


def read_groups(settings: Settings, **options: Unpack[ReadOptions]) -> GroupRecords:
    """Return the latest assignments, episodes and incidents of all groups, or of one with those of the cluster.

    Raises:
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
        MalformedEpisode, MalformedLatest: a record does not parse, and there is no ``on_malformed``.
    """
    topics = settings.topics
    found = GroupRecords(*_read(settings, (topics.assignments, topics.episodes, topics.incidents), **options))
    return found._replace(episodes=explain_episodes(found.episodes, found.incidents))


def read_episode_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[EpisodeRecord]:
    """Return the newest record of every episode, of all groups or of one; raises as :func:`read_groups`."""
    return _read(settings, [settings.topics.episodes], **options)[0]


def read_explained_episodes(settings: Settings, **options: Unpack[ReadOptions]) -> list[EpisodeRecord]:
    """Return every episode with the cluster incident that explains it; raises as :func:`read_groups`."""
    return explain_episodes(*_read(settings, (settings.topics.episodes, settings.topics.incidents), **options))


def read_incident_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[IncidentRecord]:
    """Return the newest record of every incident, of all groups, or of one with those of the cluster."""
    return _read(settings, [settings.topics.incidents], **options)[0]


def read_assignment_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[LatestAssignment]:
    """Return the latest assignments of all groups, or of one; raises as :func:`read_groups`."""
    return _read(settings, [settings.topics.assignments], **options)[0]


class FollowOptions(TypedDict, total=False):
    """Options of the readers for other programs, as of :func:`streaming.kafka.diff_reader.read_diffs`.

    Attributes:
        from_beginning: yield what the topic holds first; otherwise only what is written from now on.
        group: only this group's records.
        exit_at_end: end with what the topic held at the start, in place of following it.
        until: reading ends when it is true; it is called 10 times a second.
        on_malformed: called with each malformed record, which is left out; without it that is an error.
    """

    from_beginning: bool
    group: str | None
    exit_at_end: bool
    until: Callable[[], bool]
    on_malformed: Callable[[Any], None] | None


def read_assignments(settings: Settings, **options: Unpack[FollowOptions]) -> Iterator[LatestAssignment]:
    """Yield the latest assignment of every group, then each newer one; raises as :func:`read_groups`."""
    return _follow(settings, settings.topics.assignments, **options)


def read_episodes(settings: Settings, **options: Unpack[FollowOptions]) -> Iterator[Episode]:
    """Yield the newest record of every episode by group and number, then each change; as :func:`read_groups`."""
    return (record.episode for record in _follow(settings, settings.topics.episodes, **options))


def read_incidents(settings: Settings, **options: Unpack[FollowOptions]) -> Iterator[Incident]:
    """Yield the newest record of every incident by group and number, then each change; as :func:`read_groups`."""
    return (record.incident for record in _follow(settings, settings.topics.incidents, **options))


def _follow(
    settings: Settings,
    topic: str,
    *,
    from_beginning: bool = False,
    group: str | None = None,
    exit_at_end: bool = False,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[Any], None] | None = None,
) -> Iterator[Any]:
    """Yield the newest record of each key once the topic is read to its end, then each newer one."""
    newest = NewestRecords()
    with TopicReader(settings.kafka, [topic], from_beginning=from_beginning, follow=not exit_at_end) as reader:
        while not until():
            for message in reader.poll(0.1, _AT_ONCE):
                _take(newest, message, settings, group)
            if reader.at_end:
                yield from _decoded(topic, newest.values, _decoder(settings, topic), on_malformed)
                newest.values.clear()
                if exit_at_end:
                    return


def _read(
    settings: Settings,
    topics: Sequence[str],
    *,
    group: str | None = None,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[Any], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[list[Any]]:
    """Return the newest records of each topic, without keys whose newest record is a tombstone."""
    newest = {topic: NewestRecords() for topic in topics}
    with TopicReader(settings.kafka, topics) as reader:
        while not (reader.at_end or until()):
            messages = reader.poll(0.1, _AT_ONCE)
            each(len(messages))
            for message in messages:
                _take(newest[message.topic() or ""], message, settings, group)
    return [list(_decoded(topic, newest[topic].values, _decoder(settings, topic), on_malformed)) for topic in topics]


def _take(newest: NewestRecords, message: Message, settings: Settings, group: str | None) -> None:
    """Take the record if it is of the topic's type and of the group, or an incident of the cluster."""
    types = {settings.topics.episodes: EPISODE_TYPE, settings.topics.incidents: INCIDENT_TYPE}
    key, ce_type = message.key(), types.get(message.topic() or "")
    if key is None:
        return
    owner = key if ce_type is None else key.rpartition(b"/")[0]
    is_of_cluster = ce_type == INCIDENT_TYPE and owner == CLUSTER.encode()
    if group is not None and owner != group.encode() and not is_of_cluster:
        return
    if ce_type is None or codec.ce_attributes(message.headers()).get("type", ce_type) == ce_type:
        newest.take(key, message.value(), message.timestamp()[1], message.partition() or 0)


def _decoder(settings: Settings, topic: str) -> Callable[[bytes, _Value], Any]:
    return {settings.topics.episodes: _episode, settings.topics.incidents: _incident}.get(topic, _assignment)


def _decoded(
    topic: str,
    values: Mapping[bytes, _Value],
    decode: Callable[[bytes, _Value], Any],
    on_malformed: Callable[[Any], None] | None,
) -> Iterator[Any]:
    """Yield the decoded values; a malformed one is reported, or raised, with its topic and key."""
    for key, value in sorted(values.items(), key=lambda item: _order(item[0])):
        try:
            yield decode(key, value)
        except (MalformedEpisode, MalformedLatest) as problem:
            refused = type(problem)(f"{topic} key {key.decode(errors='backslashreplace')}: {problem}")
            if on_malformed is None:
                raise refused from problem
            on_malformed(refused)


def _order(key: bytes) -> tuple[bytes, int]:
    """Return a key that sorts records by group and number."""
    group, _, number = key.rpartition(b"/")
    return (group, int(number)) if number.isdigit() and len(number) < _DIGITS else (key, 0)


def _assignment(_: bytes, record: _Value) -> LatestAssignment:
    try:
        return codec.decode(_assignments, record.value)
    except codec.UNREADABLE as problem:
        raise MalformedLatest(str(problem)) from problem


def _episode(key: bytes, record: _Value) -> EpisodeRecord:
    episode = decode_episode(record.value)
    _require_key(key, episode.group_id, episode.episode)
    return EpisodeRecord(episode, record.value, record.written)


def _incident(key: bytes, record: _Value) -> IncidentRecord:
    incident = decode_incident(record.value)
    _require_key(key, incident.group_id, incident.incident)
    return IncidentRecord(incident, record.value)


def _require_key(key: bytes, group_id: str, number: int) -> None:
    if of_key(key) != (group_id, number):
        raise MalformedEpisode(f"key: {key!r} is not that of the value")


class EpisodeChange(NamedTuple):
    """A new record of a group's episode; ``record`` is None when the topic no longer has the episode."""

    group_id: str
    episode: int
    record: EpisodeRecord | None


class EpisodeReader(Closing):
    """Follows the topic of episodes without a consumer group: every record that is the newest of its episode.

    Args:
        from_beginning: start at the oldest record that compaction has left; otherwise only what lands from now on.
        group: only this group's.
        follow: a topic that is missing or deleted is waited for, which is logged; otherwise that is an error.
        on_malformed: called with each record that is no episode; reading goes on behind it.
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
        self._order, self._order_of = RecordOrder(), self.topic_id

    @property
    def topic_id(self) -> str | None:
        """The topic's id, another one when it was made again; None while there is none."""
        return self._reader.ids.get(self._topic)

    @property
    def missing(self) -> bool:
        """True if the topic does not exist yet."""
        return bool(self._reader.missing)

    @property
    def at_end(self) -> bool:
        """True if all records that existed at the start have been read."""
        return self._reader.at_end

    @property
    def silent(self) -> bool:
        """True if a partition can't be read now: the cluster does not answer, or it has no leader."""
        return self._reader.silent_since is not None or bool(self._reader.leaderless)

    def poll(self, timeout: float) -> list[EpisodeChange]:
        """Return the changes, or none after ``timeout`` seconds."""
        messages = self._reader.poll(timeout, _AT_ONCE)
        if self.topic_id != self._order_of:  # made again: its episodes are written again
            self._order, self._order_of = RecordOrder(), self.topic_id
        return [change for message in messages for change in self._changes(message)]

    def _changes(self, message: Message) -> Iterator[EpisodeChange]:
        key, value = message.key(), message.value()
        if codec.ce_attributes(message.headers()).get("type", EPISODE_TYPE) != EPISODE_TYPE:
            return
        try:
            group_id, number = of_key(key or b"")
            if self._group not in (None, group_id) or not self._order.accept(message):
                return
            record = None if value is None else _episode(key or b"", _Value(value, 0, 0))
        except MalformedEpisode as problem:
            place = f"{self._topic} partition {message.partition()} offset {message.offset()}"
            self._on_malformed(MalformedEpisode(f"{place}: {problem}"))
            return
        yield EpisodeChange(group_id, number, record)

    def close(self) -> None:
        """Give the connections back."""
        self._reader.close()
