"""Reads topics to their ends, or follows them, without a consumer group.

Unlike a plain consumer, the reader detects that a topic was deleted, was created again or got more partitions, and
since when the cluster does not answer.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, Message, TopicPartition

from assignors.errors import OutsideFailure
from streaming.kafka.access import NoPermission, Permission, denial
from streaming.kafka.clients import Closeable, ClusterUnavailable, check_reachable, reader_config
from streaming.kafka.metadata import EndOffsets, Identity, IdentityWatch, Place, StallCheck, bounds, request_identities
from streaming.kafka.security import CredentialRenewal
from streaming.settings.connection import KafkaSettings

log = logging.getLogger(__name__)
#: Seconds between two checks of the topics' metadata.
CHECK_SECONDS: Final = 2.0


class TopicUnreadable(OutsideFailure):
    """The topic does not exist, or can't be read."""


class TopicReader(Closeable):
    """Reads all partitions of some topics, each in order; commits no offsets.

    Args:
        from_beginning: start at the earliest records; otherwise start at the ends of the partitions.
        positions: ``{(topic, partition): next offset}``, which has priority over ``from_beginning``.
        ids: ``{topic: id}`` for ``positions``; a topic that now has another id is read from its beginning.
        wait: wait for topics that do not exist yet; otherwise a missing topic is an error.
        follow: wait for a deleted topic, and read a recreated topic from its beginning; otherwise both are errors.
        properties: further properties of librdkafka.

    Attributes:
        missing: topics that do not exist yet.
        silent_since: when the cluster last answered, seconds since the epoch; None while it answers. Detected within
            ten seconds, as long as :meth:`poll` is called.

    Raises TopicUnreadable if a topic does not exist, and NoPermission if this user may not read a topic.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Iterable[str],
        *,
        from_beginning: bool = True,
        positions: Mapping[Place, int] | None = None,
        ids: Mapping[str, str] | None = None,
        wait: bool = False,
        follow: bool = False,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        check_reachable(settings)
        self.topics, self._kafka, self._is_following = tuple(topics), settings, follow
        self._positions: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._end_offsets = EndOffsets(settings, ())
        self._unread_partitions: set[Place] = set()
        self._identities: dict[str, Identity] = {}
        self.missing: set[str] = set()
        self.silent_since: float | None = None
        self._contact = time.time()
        self._watch = IdentityWatch(settings, self.topics, interval_s=CHECK_SECONDS)
        self._properties = dict(properties or {})
        self._stall_check, self._credential_renewal = StallCheck(settings), CredentialRenewal(settings)
        self._consumer = self._connect()
        try:
            self._start(from_beginning, positions or {}, ids or {}, wait=wait)
        except BaseException:
            self._consumer.close()
            raise

    def _connect(self) -> confluent_kafka.Consumer:
        group_id = "rebalance-monitor-reader"  # the client requires an id, but this reader joins no group
        return confluent_kafka.Consumer(reader_config(self._kafka, group_id) | self._properties)

    def _start(self, from_beginning: bool, starts: Mapping[Place, int], ids: Mapping[str, str], *, wait: bool) -> None:
        identities = request_identities(self._kafka, self.topics)
        starts = dict(starts)
        for topic in self.topics:
            if topic not in identities:
                raise NoPermission(denial(self._kafka, Permission("Read", topic), "which this program must"))
            identity = identities[topic]
            if identity is None and not wait:
                raise TopicUnreadable(f"topic {topic}: does not exist; `rebalance-monitor topics --create` creates it")
            if identity is None:
                self.missing.add(topic)
                log.warning("topic %s does not exist yet: waiting for it", topic)
            elif ids.get(topic, identity.topic_id) != identity.topic_id:
                _warn_recreated(topic)
                starts = {place: offset for place, offset in starts.items() if place[0] != topic}
                starts |= {(topic, number): 0 for number in range(identity.partitions)}
        self._add_partitions(identities, starts, from_beginning=from_beginning)

    def _add_partitions(
        self, identities: Mapping[str, Identity | None], starts: Mapping[Place, int], *, from_beginning: bool = True
    ) -> None:
        """Start to read partitions that are not read yet, each at its offset in ``starts`` if it has one."""
        known_topics = {topic: identity for topic, identity in identities.items() if identity is not None}
        places = [(topic, number) for topic, identity in known_topics.items() for number in range(identity.partitions)]
        new = [place for place in places if place not in self._positions]
        for place, (low, high) in bounds(self._kafka, new).items():
            start = starts.get(place, low if from_beginning else high)
            if start > high:  # the offset belongs to an earlier topic with this name
                _warn_deleted_records(place, high, start)
                start = low
            self._positions[place], self._ends[place] = start, high
            if max(start, low) < high:
                self._unread_partitions.add(place)
        for topic in self.missing & known_topics.keys():
            log.warning("topic %s exists now: it is read from its beginning", topic)
        self._identities |= known_topics
        self.missing -= known_topics.keys()
        if new:
            self._consumer.incremental_assign([TopicPartition(*place, self._positions[place]) for place in new])

    @property
    def positions(self) -> dict[Place, int]:
        """Next offset of each (topic, partition); with :attr:`ids` it lets a later reader resume."""
        return dict(self._positions)

    @property
    def ids(self) -> dict[str, str]:
        """``{topic: id}`` of the topics that exist; if a topic is created again, its id changes with its positions."""
        return {topic: identity.topic_id for topic, identity in self._identities.items()}

    @property
    def leaderless_partitions(self) -> frozenset[Place]:
        """The partitions that can't be read now because they have no leader."""
        return self._watch.leaderless_partitions

    @property
    def at_end(self) -> bool:
        """True if all records that existed at the start have been read."""
        return not self._unread_partitions and not self.missing

    @property
    def lag(self) -> int:
        """The number of unread records up to the partitions' ends as of the last answer; never waits for an answer."""
        if self._end_offsets.places != self._positions.keys():
            self._end_offsets = EndOffsets(self._kafka, self._positions)
        ends = self._end_offsets.poll(time.monotonic())
        lags = (max(self._ends[place], ends.get(place, 0)) - offset for place, offset in self._positions.items())
        return sum(max(0, lag) for lag in lags)

    def poll(self, timeout: float, most: int = 1) -> list[Message]:
        """Return up to ``most`` records; ``timeout``: the seconds to wait for the first of them."""
        self._check_topics()
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        more = self._consumer.consume(most - 1, 0) if most > 1 else []
        return [message for message in (first, *more) if self._is_new(message)]

    def _is_new(self, message: Message) -> bool:
        if (error := message.error()) is not None:
            self._handle_error(message, error)
            return False
        place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        if offset < self._positions.get(place, offset + 1):  # the topic was recreated, which the next check detects
            return False
        self._set_position(place, offset + 1)
        return True

    def _handle_error(self, message: Message, error: KafkaError) -> None:
        name, topic = error.name(), message.topic()
        if name == "_PARTITION_EOF":
            place = (topic or "", message.partition() or 0)
            self._unread_partitions.discard(place)
            if message.offset() is not None and place in self._positions:
                self._set_position(place, max(self._positions[place], message.offset() or 0))
        elif name in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
            raise NoPermission(denial(self._kafka, Permission("Read", topic or ""), "which this program must"))
        elif error.fatal():
            raise TopicUnreadable(f"topic {topic or ', '.join(self.topics)}: {error.str()}")
        elif name in ("_ALL_BROKERS_DOWN", "_TRANSPORT") and self.silent_since is None:
            self.silent_since = self._contact
        # librdkafka connects again by itself, and the next check detects a deleted topic.

    def _set_position(self, place: Place, offset: int) -> None:
        self._positions[place] = offset
        if offset >= self._ends[place]:
            self._unread_partitions.discard(place)

    def _check_topics(self) -> None:
        if self._credential_renewal.renewed(time.monotonic()):
            self._watch = IdentityWatch(self._kafka, self.topics, interval_s=CHECK_SECONDS)
            self._reconnect()
        identities = self._watch.poll(time.monotonic())
        if identities is None:
            if self._watch.trouble is not None and self.silent_since is None:
                self.silent_since = self._contact
            return
        self._contact, self.silent_since = time.time(), None
        self._remove_topics(identities)
        try:
            self._add_partitions(identities, {})
            self._replace_stalled_client()
        except ClusterUnavailable as error:
            log.warning("%s", error)  # the next check tries again

    def _remove_topics(self, identities: Mapping[str, Identity | None]) -> None:
        """Stop reading topics that were deleted or created again; a new client continues with the remaining topics.

        librdkafka keeps the leader epoch of a partition under the topic's name. If a broker's restart has raised the
        epoch, a topic that is created again, whose epoch starts at 0, would never be fetched.
        """
        ids = self.ids
        for topic, identity in identities.items():
            if topic not in ids or (identity is not None and identity.topic_id == ids[topic]):
                continue
            if not self._is_following:
                what = "was deleted" if identity is None else "was deleted and created again"
                raise TopicUnreadable(f"topic {topic}: {what} while it was read; start again")
            if identity is None:
                self.missing.add(topic)
                log.warning("topic %s was deleted: waiting until it is created again", topic)
            else:
                _warn_recreated(topic)
            del self._identities[topic]
        if ids != self.ids:
            for place in [place for place in self._positions if place[0] not in self._identities]:
                del self._positions[place], self._ends[place]
                self._unread_partitions.discard(place)
            self._reconnect()

    def _reconnect(self) -> None:
        self._consumer.close()
        self._consumer = self._connect()
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._positions.items()])

    def _replace_stalled_client(self) -> None:
        """Replace a client that has stopped reading; read partitions that have lost records again from their start."""
        stalled_bounds = self._stall_check.poll(self._positions, time.monotonic())
        for place, (low, high) in stalled_bounds.items():
            if high < self._positions[place]:
                _warn_deleted_records(place, high, self._positions[place])
                self._positions[place], self._ends[place] = low, high
                if low < high:
                    self._unread_partitions.add(place)
            else:
                log.warning("topic %s partition %d: no record arrives, though it has more: using a new client", *place)
        if stalled_bounds:
            self._reconnect()

    def close(self) -> None:
        """Close the connections to Kafka."""
        self._consumer.close()


def _warn_deleted_records(place: Place, end: int, position: int) -> None:
    log.warning("topic %s partition %d: ends at offset %d, before position %d: reading it again", *place, end, position)


def _warn_recreated(topic: str) -> None:
    log.warning("topic %s was deleted and created again: it is read from its beginning", topic)


class RecordOrder:
    """Decides which record of each key is the newest, for records that arrive in any order across partitions.

    A partition contains the records of a key in order. After the topic got more partitions, the older records of a key
    stay in another partition, where compaction never removes them. Between partitions, the records' timestamps decide.
    """

    def __init__(self) -> None:
        self._last_by_key: dict[bytes | None, tuple[int, int]] = {}

    def accept(self, message: Message) -> bool:
        """Add the next record; return False if a newer record of its key was added before, else True."""
        key, partition, written_ms = message.key(), message.partition() or 0, message.timestamp()[1]
        last_partition, newest_ms = self._last_by_key.get(key, (partition, written_ms))
        if last_partition != partition and written_ms < newest_ms:
            return False
        self._last_by_key[key] = (partition, written_ms if last_partition != partition else max(written_ms, newest_ms))
        return True


def read_to_end(settings: KafkaSettings, topic: str, *, until: Callable[[], bool] = lambda: False) -> Iterator[Message]:
    """Yield every record that is in a topic now, each partition in order, until ``until()`` returns true."""
    with TopicReader(settings, [topic]) as reader:
        while not (reader.at_end or until()):
            yield from reader.poll(0.1, 1000)
