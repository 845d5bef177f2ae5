"""The newest record of each key in the compacted topics: assignments, episodes, incidents.

::

    groups = read_groups(load(bootstrap_servers="127.0.0.1:9092"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, Unpack

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
        NotAllowed, ClusterUnavailable, …: as :class:`TopicReader`.
    """
    topics = settings.topics
    return GroupRecords(*_read(settings, (topics.assignments, topics.episodes, topics.incidents), **options))


def read_episode_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[EpisodeRecord]:
    """Return the newest record of every episode, of all groups or of one; raises as :func:`read_groups`."""
    return _read(settings, [settings.topics.episodes], **options)[0]


def read_incident_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[IncidentRecord]:
    """Return the newest record of every incident, of all groups, or of one with those of the cluster."""
    return _read(settings, [settings.topics.incidents], **options)[0]


def read_assignments(settings: Settings, **options: Unpack[ReadOptions]) -> list[LatestAssignment]:
    """Return the latest assignments of all groups, or of one; raises as :func:`read_groups`."""
    return _read(settings, [settings.topics.assignments], **options)[0]


def read_episodes(
    settings: Settings, group: str | None = None, *, on_malformed: Callable[[Any], None] | None = None
) -> Iterator[Episode]:
    """Yield the last record of every episode, or of one group's, by group and number; as :func:`read_groups`."""
    records = read_episode_records(settings, group=group, on_malformed=on_malformed)
    yield from sorted((one.episode for one in records), key=lambda one: (one.group_id, one.episode))


def read_incidents(
    settings: Settings, group: str | None = None, *, on_malformed: Callable[[Any], None] | None = None
) -> Iterator[Incident]:
    """Yield the last record of every incident, or of one group's, by group and number; as :func:`read_groups`."""
    records = read_incident_records(settings, group=group, on_malformed=on_malformed)
    yield from sorted((one.incident for one in records), key=lambda one: (one.group_id, one.incident))


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
    wanted, cluster = None if group is None else group.encode(), CLUSTER.encode()
    types = {settings.topics.episodes: EPISODE_TYPE, settings.topics.incidents: INCIDENT_TYPE}
    newest = {topic: NewestRecords() for topic in topics}
    with TopicReader(settings.kafka, topics) as reader:
        while not (reader.at_end or until()):
            messages = reader.poll(0.1, _AT_ONCE)
            each(len(messages))
            for message in messages:
                topic, key = message.topic() or "", message.key()
                ce_type = types.get(topic)
                if key is None:
                    continue
                owner = key if ce_type is None else key.rpartition(b"/")[0]
                if wanted not in (None, owner) and (owner != cluster or ce_type != INCIDENT_TYPE):
                    continue
                attributes = {} if ce_type is None else codec.ce_attributes(message.headers())
                if attributes.get("type", ce_type) != ce_type:
                    continue
                newest[topic].take(key, message.value(), message.timestamp()[1], message.partition() or 0)
    decoders = {None: _assignment, EPISODE_TYPE: _episode, INCIDENT_TYPE: _incident}
    return [list(_decoded(topic, newest[topic].values, decoders[types.get(topic)], on_malformed)) for topic in topics]


def _decoded(
    topic: str,
    values: Mapping[bytes, _Value],
    decode: Callable[[bytes, _Value], Any],
    on_malformed: Callable[[Any], None] | None,
) -> Iterator[Any]:
    """Yield the decoded values; a malformed one is reported, or raised, with its topic and key."""
    for key, value in values.items():
        try:
            yield decode(key, value)
        except (MalformedEpisode, MalformedLatest) as problem:
            refused = type(problem)(f"{topic} key {key.decode(errors='backslashreplace')}: {problem}")
            if on_malformed is None:
                raise refused from problem
            on_malformed(refused)


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
            record = None if value is None else _episode(key or b"", _Value(value, 0, 0))
        except MalformedEpisode as problem:
            place = f"{self._topic} partition {message.partition()} offset {message.offset()}"
            self._on_malformed(MalformedEpisode(f"{place}: {problem}"))
            return
        yield EpisodeChange(group_id, number, record)

    def close(self) -> None:
        """Give the connections back."""
        self._reader.close()
