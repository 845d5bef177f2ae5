"""Reads the newest record of each key from the compacted topics: assignments, episodes, incidents."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypedDict, Unpack

from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.episodes.cluster_cause import explain_episodes
from streaming.kafka.clients import Closeable
from streaming.kafka.topic_reader import RecordOrder, TopicReader
from streaming.records import codec
from streaming.records import episodes as episode_records
from streaming.records.diffs import LatestAssignment, assignment_decoder
from streaming.records.episodes import Episode, EpisodeRecord, Incident, IncidentRecord, MalformedEpisode
from streaming.records.events import CLUSTER
from streaming.settings.config import Settings

_MAX_POLL_RECORDS: Final = 1000
#: A number with this many digits is not an episode's or incident's number.
_MAX_DIGITS: Final = 20


class MalformedLatest(BadInput):
    """A record of the topic of latest assignments does not parse."""


class ReadOptions(TypedDict, total=False):
    """The options that all functions for reading compacted topics have."""

    #: Read only this group's records; None: of all groups.
    group: str | None
    #: Reading ends early when this function returns true; it is called 10 times per second.
    until: Callable[[], bool]
    #: Called with the error of each malformed record, which is left out; without it the error is raised.
    on_malformed: Callable[[Any], None] | None
    #: Called with the number of records that each poll has read.
    on_step: Callable[[int], None]


class FollowOptions(ReadOptions, total=False):
    """The options of the functions that follow a topic, as in :func:`streaming.kafka.diff_reader.read_diffs`."""

    #: First yield the records in the topic; otherwise only records that are written from now on.
    from_beginning: bool
    #: End after the records that were in the topic at the start, instead of following it.
    exit_at_end: bool


class GroupRecords(NamedTuple):
    """The latest assignments, episodes and incidents of all groups, or of one group."""

    assignments: list[LatestAssignment]
    episodes: list[EpisodeRecord]
    incidents: list[IncidentRecord]


def read_groups(settings: Settings, **options: Unpack[ReadOptions]) -> GroupRecords:
    """Return the latest assignments, episodes and incidents of all groups, or of one group and the cluster.

    Raises:
        TopicUnreadable: a topic does not exist, or is deleted while it is read.
        MalformedEpisode, MalformedLatest: a record does not parse, and ``on_malformed`` is not given.
    """
    topics = settings.topics
    names = topics.assignments, topics.episodes, topics.incidents
    assignments, episodes, incidents = _read_topics(settings, names, **options)
    return GroupRecords(assignments, explain_episodes(episodes, incidents), incidents)


def read_episode_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[EpisodeRecord]:
    """Return the newest record of each episode, of all groups or one; raise the errors of :func:`read_groups`."""
    return _read_topics(settings, [settings.topics.episodes], **options)[0]


def read_explained_episodes(settings: Settings, **options: Unpack[ReadOptions]) -> list[EpisodeRecord]:
    """Return every episode with the cluster incident that explains it; raise the errors of :func:`read_groups`."""
    return explain_episodes(*_read_topics(settings, (settings.topics.episodes, settings.topics.incidents), **options))


def read_incident_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[IncidentRecord]:
    """Return the newest record of every incident of all groups, or of one group with the cluster's incidents."""
    return _read_topics(settings, [settings.topics.incidents], **options)[0]


def read_assignment_records(settings: Settings, **options: Unpack[ReadOptions]) -> list[LatestAssignment]:
    """Return the latest assignments of all groups or one; raise the errors of :func:`read_groups`."""
    return _read_topics(settings, [settings.topics.assignments], **options)[0]


def read_assignments(settings: Settings, **options: Unpack[FollowOptions]) -> Iterator[LatestAssignment]:
    """Yield the latest assignment of every group, then each newer one; raise the errors of :func:`read_groups`."""
    return _follow_topic(settings, settings.topics.assignments, **options)


def read_episodes(settings: Settings, **options: Unpack[FollowOptions]) -> Iterator[Episode]:
    """Yield every episode by group and number, then each changed episode; raises what :func:`read_groups` raises."""
    return (record.episode for record in _follow_topic(settings, settings.topics.episodes, **options))


def read_incidents(settings: Settings, **options: Unpack[FollowOptions]) -> Iterator[Incident]:
    """Yield every incident by group and number, then each changed incident; raise the errors of :func:`read_groups`."""
    return (record.incident for record in _follow_topic(settings, settings.topics.incidents, **options))


def _read_topics(settings: Settings, topics: Sequence[str], **options: Any) -> list[list[Any]]:
    """Return the newest records of each topic, without keys whose newest record is a tombstone."""
    return next(_read_changes(settings, topics, from_beginning=True, exit_at_end=True, **options), [[] for _ in topics])


def _follow_topic(settings: Settings, topic: str, **options: Any) -> Iterator[Any]:
    """Yield the newest record of each key once the topic is read to its end, then each newer record."""
    for (records,) in _read_changes(settings, [topic], **options):
        yield from records


def _read_changes(
    settings: Settings,
    topics: Sequence[str],
    *,
    from_beginning: bool = False,
    exit_at_end: bool = False,
    group: str | None = None,
    on_malformed: Callable[[Any], None] | None = None,
    until: Callable[[], bool] = lambda: False,
    on_step: Callable[[int], None] = lambda _: None,
) -> Iterator[list[list[Any]]]:
    """Yield each topic's new records whenever the reader has reached the end of all topics."""
    newest = {topic: _NewestRecords(settings, topic, group) for topic in topics}
    with TopicReader(settings.kafka, newest, from_beginning=from_beginning, follow=not exit_at_end) as reader:
        while not until():
            if reader.at_end:
                yield [list(records.take(on_malformed)) for records in newest.values()]
                if exit_at_end:
                    return
            messages = reader.poll(0.1, _MAX_POLL_RECORDS)
            on_step(len(messages))
            for message in messages:
                newest[message.topic() or ""].add(message)


class _NewestRecords:
    """The newest record of each key in a topic, by :class:`RecordOrder`; optionally only one group's records."""

    def __init__(self, settings: Settings, topic: str, group: str | None) -> None:
        kinds: dict[str, tuple[str | None, Callable[[bytes, bytes, int], Any]]] = {
            settings.topics.assignments: (None, _assignment),
            settings.topics.episodes: (episode_records.EPISODE_TYPE, _episode),
            settings.topics.incidents: (episode_records.INCIDENT_TYPE, _incident),
        }
        self._topic = topic
        self._type, self._decode = kinds[topic]
        self._owners = None if group is None else {group.encode()}
        if self._owners is not None and topic == settings.topics.incidents:
            self._owners.add(CLUSTER.encode())
        self._order = RecordOrder()
        self._values: dict[bytes, tuple[bytes, int]] = {}

    def add(self, message: Message) -> None:
        """Add a record if it has the topic's record type and belongs to the wanted group."""
        key, value = message.key(), message.value()
        if key is None:
            return
        owner = key if self._type is None else key.rpartition(b"/")[0]
        if self._owners is not None and owner not in self._owners:
            return
        if self._type is not None and codec.ce_attributes(message.headers()).get("type", self._type) != self._type:
            return
        if not self._order.accept(message):
            return
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value, message.timestamp()[1]

    def take(self, on_malformed: Callable[[Any], None] | None) -> Iterator[Any]:
        """Yield the records read since the last call; report or raise the error of each malformed record."""
        values, self._values = self._values, {}
        for key, (value, written) in sorted(values.items(), key=lambda item: _order(item[0])):
            try:
                yield self._decode(key, value, written)
            except (MalformedEpisode, MalformedLatest) as problem:
                refused = type(problem)(f"{self._topic} key {key.decode(errors='backslashreplace')}: {problem}")
                if on_malformed is None:
                    raise refused from problem
                on_malformed(refused)


def _order(key: bytes) -> tuple[bytes, int]:
    """Return a sort key by which records are ordered by group and number."""
    group, _, number = key.rpartition(b"/")
    return (group, int(number)) if number.isdigit() and len(number) < _MAX_DIGITS else (key, 0)


def _assignment(_key: bytes, value: bytes, _written_ms: int) -> LatestAssignment:
    try:
        return codec.decode(assignment_decoder, value)
    except codec.DECODE_ERRORS as problem:
        raise MalformedLatest(str(problem)) from problem


def _episode(key: bytes, value: bytes, written: int) -> EpisodeRecord:
    episode = episode_records.decode_episode(value)
    _require_key(key, episode.group_id, episode.episode)
    return EpisodeRecord(episode, value, written)


def _incident(key: bytes, value: bytes, _written_ms: int) -> IncidentRecord:
    incident = episode_records.decode_incident(value)
    _require_key(key, incident.group_id, incident.incident)
    return IncidentRecord(incident, value)


def _require_key(key: bytes, group_id: str, number: int) -> None:
    if episode_records.decode_key(key) != (group_id, number):
        raise MalformedEpisode(f"key: {key!r} does not match the value")


class EpisodeReader(Closeable):
    """Follows the topic of episodes without a consumer group; returns each record that is the newest of its episode.

    ``group``, ``from_beginning`` and ``on_malformed`` are those of :class:`FollowOptions`. ``follow``: wait for the
    topic if it is missing or deleted; otherwise a missing topic is an error.
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
        self._topic, self._group, self._on_malformed = settings.topics.episodes, group, on_malformed
        self._reader = TopicReader(
            settings.kafka, [self._topic], from_beginning=from_beginning, wait=follow, follow=follow
        )
        self._order, self._ids = RecordOrder(), self._reader.ids

    @property
    def is_behind(self) -> bool:
        """True if unread records can be read: the topic exists, has leaders and is not read to its end."""
        reader = self._reader
        return not (reader.at_end or reader.missing or reader.leaderless_partitions) and reader.silent_since is None

    def poll(self, timeout: float) -> list[EpisodeRecord]:
        """Return the changed episodes, or an empty list after ``timeout`` seconds; deleted episodes are left out."""
        messages = self._reader.poll(timeout, _MAX_POLL_RECORDS)
        if self._reader.ids != self._ids:  # the topic was created again, so its episodes are written again
            self._order, self._ids = RecordOrder(), self._reader.ids
        return [record for message in messages for record in self._records(message)]

    def _records(self, message: Message) -> Iterator[EpisodeRecord]:
        key, value = message.key() or b"", message.value()
        kind = episode_records.EPISODE_TYPE
        if codec.ce_attributes(message.headers()).get("type", kind) != kind:
            return
        try:
            group_id, _ = episode_records.decode_key(key)
            if self._group in (None, group_id) and self._order.accept(message) and value is not None:
                yield _episode(key, value, 0)
        except MalformedEpisode as problem:
            place = f"{self._topic} partition {message.partition()} offset {message.offset()}"
            self._on_malformed(MalformedEpisode(f"{place}: {problem}"))

    def close(self) -> None:
        """Close the connections to Kafka."""
        self._reader.close()
