"""The newest record of each key in the compacted topics: assignments, episodes, incidents.

::

    groups = read_groups(load(bootstrap_servers="127.0.0.1:9092"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from assignors.errors import BadInput
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

if TYPE_CHECKING:
    from confluent_kafka import Message

_AT_ONCE: Final = 1000
_assignments = msgspec.json.Decoder(LatestAssignment)
_T = TypeVar("_T")
_E = TypeVar("_E", bound=BadInput)


class MalformedLatest(BadInput):
    """A record of the topic of latest assignments does not parse."""


class _Value(NamedTuple):
    """A record's value, when it was written (ms), and its partition."""

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


class GroupRecords(NamedTuple):
    """Records of all groups, or of one: the latest assignments, and every episode and incident."""

    assignments: list[LatestAssignment]
    episodes: list[EpisodeRecord]
    incidents: list[IncidentRecord]


def read_episode_records(
    settings: Settings,
    *,
    group: str | None = None,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[EpisodeRecord]:
    """Return the newest record of every episode, of all groups or of one.

    Args:
        settings: how to reach the cluster and what the topic is called.
        group: only this group's.
        until: reading ends early when it is true.
        on_malformed: called with each malformed record, which is left out; without it that is an error.
        each: called with the number of records that a poll has read.

    Raises:
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
        MalformedEpisode, MalformedLatest: a record does not parse, and there is no ``on_malformed``.
        NotAllowed, ClusterUnavailable, …: as :class:`TopicReader`.
    """
    topic = settings.topics.episodes
    values = _newest(settings, [topic], group, each, until)[topic]
    return _decoded(topic, values, _episode, MalformedEpisode, on_malformed)


def read_incident_records(
    settings: Settings,
    *,
    group: str | None = None,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[IncidentRecord]:
    """Return the newest record of every incident, of all groups, or of one with those of the cluster.

    Arguments and errors are those of :func:`read_episode_records`.
    """
    topic = settings.topics.incidents
    values = _newest(settings, [topic], group, each, until)[topic]
    return _decoded(topic, values, _incident, MalformedEpisode, on_malformed)


def read_assignments(
    settings: Settings,
    *,
    group: str | None = None,
    on_malformed: Callable[[MalformedLatest], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> list[LatestAssignment]:
    """Return the latest assignments of all groups, or of one.

    Arguments and errors are those of :func:`read_episode_records`.
    """
    topic = settings.topics.assignments
    values = _newest(settings, [topic], group, each)[topic]
    return _decoded(topic, values, _assignment, MalformedLatest, on_malformed)


def read_groups(
    settings: Settings,
    *,
    group: str | None = None,
    on_malformed: Callable[[BadInput], None] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> GroupRecords:
    """Return the latest assignments, episodes and incidents of all groups, or of one with those of the cluster.

    Arguments and errors are those of :func:`read_episode_records`.
    """
    topics = settings.topics
    latest, episodes, incidents = topics.assignments, topics.episodes, topics.incidents
    found = _newest(settings, [latest, episodes, incidents], group, each)
    return GroupRecords(
        _decoded(latest, found[latest], _assignment, MalformedLatest, on_malformed),
        _decoded(episodes, found[episodes], _episode, MalformedEpisode, on_malformed),
        _decoded(incidents, found[incidents], _incident, MalformedEpisode, on_malformed),
    )


def _newest(
    settings: Settings,
    topics: Iterable[str],
    group: str | None,
    each: Callable[[int], None],
    until: Callable[[], bool] = lambda: False,
) -> dict[str, dict[bytes, _Value]]:
    """Return the newest value of each key by topic; without keys whose newest record is a tombstone."""
    wanted = None if group is None else group.encode()
    cluster = CLUSTER.encode()
    types = {settings.topics.episodes: EPISODE_TYPE, settings.topics.incidents: INCIDENT_TYPE}
    found = {topic: NewestRecords() for topic in topics}
    with TopicReader(settings.kafka, found) as reader:
        while not (reader.at_end or until()):
            messages = reader.poll(0.1, _AT_ONCE)
            each(len(messages))
            for message in messages:
                topic, key, value = message.topic() or "", message.key(), message.value()
                if key is None:
                    continue
                ours = types.get(topic)
                owner = key if ours is None else key.rpartition(b"/")[0]
                if wanted not in (None, owner) and (owner != cluster or ours != INCIDENT_TYPE):
                    continue
                if ours is not None and codec.ce_attributes(message.headers()).get("type", ours) != ours:
                    continue
                found[topic].take(key, value, message.timestamp()[1], message.partition() or 0)
    return {topic: records.values for topic, records in found.items()}


def _assignment(_: bytes, record: _Value) -> LatestAssignment:
    try:
        return codec.decode(_assignments, record.value)
    except codec.UNREADABLE as problem:
        raise MalformedLatest(str(problem)) from problem


def episode_of(key: bytes, value: bytes) -> EpisodeRecord:
    """The episode of a record.

    Raises:
        MalformedEpisode: it is none, or that of another key.
    """
    record = EpisodeRecord(decode_episode(value), value)
    _held_to(key, record.episode.group_id, record.episode.episode)
    return record


def _episode(key: bytes, record: _Value) -> EpisodeRecord:
    return episode_of(key, record.value)._replace(written=record.written)


def _incident(key: bytes, found: _Value) -> IncidentRecord:
    record = IncidentRecord(decode_incident(found.value), found.value)
    _held_to(key, record.incident.group_id, record.incident.incident)
    return record


def _held_to(key: bytes, group_id: str, number: int) -> None:
    if of_key(key) != (group_id, number):
        raise MalformedEpisode(f"key: {key!r} is not that of the value")


def _decoded(
    topic: str,
    values: Mapping[bytes, _Value],
    read: Callable[[bytes, _Value], _T],
    malformed: type[_E],
    on_malformed: Callable[[_E], None] | None,
) -> list[_T]:
    """Return the decoded values; a malformed one is reported, or raised, with its topic and key."""
    records = []
    for key, value in values.items():
        try:
            records.append(read(key, value))
        except malformed as problem:
            refused = malformed(f"{topic} key {key.decode(errors='backslashreplace')}: {problem}")
            if on_malformed is None:
                raise refused from problem
            on_malformed(refused)
    return records


class EpisodeChange(NamedTuple):
    """A new record of a group's episode; ``record`` is None when the topic no longer has the episode."""

    group_id: str
    episode: int
    record: EpisodeRecord | None


class EpisodeReader(Closing):
    """Follows the topic of episodes without a consumer group: every record that is the newest of its episode.

    Args:
        settings: how to reach the cluster and what the topic is called.
        from_beginning: start at the oldest record that compaction has left; otherwise only what lands from now on.
        group: only this group's.
        follow: a topic that is missing or deleted is waited for, which is logged; otherwise that is an error.
        on_malformed: called with each record that is no episode; reading goes on behind it.

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
        """Return the changes, or none after ``timeout`` seconds.

        Raises:
            TopicUnreadable: the topic was deleted, and is not to be followed.
            NotAllowed: this user may not read it any more.
        """
        messages = self._reader.poll(timeout, _AT_ONCE)
        if self.topic_id != self._order_of:  # made again: its episodes are written anew
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
            record = None if value is None else episode_of(key or b"", value)
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

    ``until``: reading ends early when it is true. ``on_malformed`` is called with each record that is
    no episode, and reading continues.

    Raises:
        MalformedEpisode: a record is no episode, and there is no ``on_malformed``.
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
        NotAllowed, ClusterUnavailable: as named.
    """
    records = read_episode_records(settings, group=group, until=until, on_malformed=on_malformed)
    yield from sorted((one.episode for one in records), key=lambda one: (one.group_id, one.episode))


def read_incidents(
    settings: Settings,
    group: str | None = None,
    *,
    until: Callable[[], bool] = lambda: False,
    on_malformed: Callable[[MalformedEpisode], None] | None = None,
) -> Iterator[Incident]:
    """The last record of every incident, or of one group's, by group and number; as :func:`read_episodes`."""
    records = read_incident_records(settings, group=group, until=until, on_malformed=on_malformed)
    yield from sorted((one.incident for one in records), key=lambda one: (one.group_id, one.incident))
