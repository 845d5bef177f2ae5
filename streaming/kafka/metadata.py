"""Requests topics' ids, partitions and leaders, and the first and end offsets of partitions.

A topic that was deleted and created again has another id.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import OffsetSpec

from streaming.kafka.clients import ClusterUnavailable, confluent_config, result_of
from streaming.settings.connection import KafkaSettings

#: Seconds between two requests for the description of topics.
CHECK_SECONDS: Final = 0.25
#: Timeout of a request (s); without an answer the cluster counts as unavailable.
_REQUEST_TIMEOUT_SECONDS: Final = 5.0


class Identity(NamedTuple):
    """A topic's id as Kafka prints it, and its number of partitions."""

    topic_id: str
    partitions: int


class ContactState:
    """Reports once when the cluster stops answering, and once when it answers again."""

    def __init__(self) -> None:
        self._is_away = False

    def news(self, trouble: str | None) -> str | None:
        """Return a log line if the cluster has stopped or resumed answering, else None; ``trouble``: the error."""
        if self._is_away == (trouble is not None):
            return None
        self._is_away = trouble is not None
        return f"no contact with Kafka ({trouble}): waiting for it" if self._is_away else "Kafka answers again"


class IdentityWatch:
    """Requests topics' ids and partition counts every ``interval_s`` seconds, without waiting for the answers.

    Attributes:
        trouble: why the last request had no answer; None if it had an answer.
        leaderless_partitions: the partitions without a leader in the last answer.
    """

    def __init__(self, settings: KafkaSettings, topics: Iterable[str], *, interval_s: float = CHECK_SECONDS) -> None:
        self.topics = tuple(topics)
        self.trouble: str | None = None
        self.leaderless_partitions: frozenset[Place] = frozenset()
        self._interval_s = interval_s
        self._next = float("-inf")
        self._requests: dict[str, Future[Any]] = {}
        self._settings = settings
        self._admin = kafka_admin.AdminClient(confluent_config(settings))  # a deleted client receives no answers

    def poll(self, now: float) -> Mapping[str, Identity | None] | None:
        """Return topics' ids and partition counts if an answer has arrived, else None; send requests that are due.

        A topic that does not exist maps to None. A topic that this user may not describe is left out.
        """
        answer = self._read_answers()
        if self._requests and now > self._next + 2 * _REQUEST_TIMEOUT_SECONDS:
            self._renew_client("no answer")
        if not self._requests and now >= self._next:
            self._next = now + self._interval_s
            topics = TopicCollection(list(self.topics))
            self._requests = self._admin.describe_topics(topics, request_timeout=_REQUEST_TIMEOUT_SECONDS)
        return answer

    def _renew_client(self, trouble: str) -> None:
        """Use a new client, because a client that lost its brokers may never answer again."""
        self.trouble, self._requests = trouble, {}
        self._admin = kafka_admin.AdminClient(confluent_config(self._settings))

    def _read_answers(self) -> dict[str, Identity | None] | None:
        if not self._requests or not all(future.done() for future in self._requests.values()):
            return None
        requests, self._requests = self._requests, {}
        identities: dict[str, Identity | None] = {}
        leaderless_partitions: set[Place] = set()
        self.trouble = None
        for topic, future in requests.items():
            try:
                described = result_of(future)
                identities[topic] = Identity(str(described.topic_id), len(described.partitions))
                leaderless_partitions |= {
                    (topic, partition.id)
                    for partition in described.partitions
                    if partition.leader is None or partition.leader.id < 0
                }
            except KafkaException as error:
                name = error.args[0].name()
                if name == "UNKNOWN_TOPIC_OR_PART":
                    identities[topic] = None
                elif name != "TOPIC_AUTHORIZATION_FAILED":
                    self.trouble = error.args[0].str()
        if self.trouble is not None:
            self._renew_client(self.trouble)
            return None
        self.leaderless_partitions = frozenset(leaderless_partitions)
        return identities


def request_identities(settings: KafkaSettings, topics: Iterable[str]) -> dict[str, Identity | None]:
    """Request the id and partition count of each topic (None: it does not exist), and wait for the answer."""
    watch = IdentityWatch(settings, topics)
    by = time.monotonic() + 2 * _REQUEST_TIMEOUT_SECONDS
    while (identities := watch.poll(time.monotonic())) is None:
        if time.monotonic() > by:
            raise ClusterUnavailable(
                f"bootstrap_servers {settings.bootstrap_servers}: no broker describes its topics "
                f"({watch.trouble or 'no answer'})"
            )
        time.sleep(0.01)
    return dict(identities)


_LATEST_OFFSETS: Final = OffsetSpec.latest()
#: A topic and the number of a partition.
Place = tuple[str, int]


def bounds(settings: KafkaSettings, places: Iterable[Place], *, max_wait: float = 10) -> dict[Place, tuple[int, int]]:
    """Return ``{(topic, partition): (earliest offset, next offset)}``, without records of open transactions.

    ``max_wait``: seconds to wait for partitions without a leader, such as those of a new topic.
    """
    places, request = list(places), OffsetRequest(settings, committed=True)
    by = time.monotonic() + max_wait
    while True:
        start_offsets = request.wait(places, OffsetSpec.earliest())
        end_offsets = request.wait(places) if len(start_offsets) == len(places) else {}
        if len(end_offsets) == len(places):
            return {place: (start_offsets[place], end_offsets[place]) for place in places}
        if request.refused or time.monotonic() >= by:
            names = ", ".join(sorted({topic for topic, _ in places}))
            raise ClusterUnavailable(f"topic {names}: no broker returns its partitions' ends: {request.trouble}")
        time.sleep(0.1)


class OffsetRequest:
    """Requests offsets of many partitions by ListOffsets, one request at a time.

    ``committed``: end offsets do not include records of open transactions.

    Attributes:
        refused: the topics that this user may not describe, according to the last answer.
        trouble: the last error of a partition.
    """

    def __init__(self, settings: KafkaSettings, *, committed: bool = False) -> None:
        self._settings = settings
        self._isolation_level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        self._last_request_at = float("-inf")
        self._pending: Mapping[Any, Future[Any]] = {}
        self._admin: Any = None
        self.refused: frozenset[str] = frozenset()
        self.trouble = "no answer"

    @property
    def is_pending(self) -> bool:
        """True if a request is in progress, or its answer has not been read yet."""
        return bool(self._pending)

    def send(self, places: Iterable[Place], now: float, spec: OffsetSpec = _LATEST_OFFSETS) -> None:
        """Request the end offsets of these partitions, or other offsets by ``spec``; ``now``: the current time, s."""
        if self._admin is None:
            self._admin = kafka_admin.AdminClient(confluent_config(self._settings))
        self._last_request_at = now
        self._pending = self._admin.list_offsets(
            {TopicPartition(*place): spec for place in places},
            isolation_level=self._isolation_level,
            request_timeout=_REQUEST_TIMEOUT_SECONDS,
        )

    def wait(self, places: Collection[Place], spec: OffsetSpec = _LATEST_OFFSETS) -> dict[Place, int]:
        """Request offsets of these partitions and wait for them; leave out partitions whose leader does not answer."""
        if not places:
            return {}
        if self._admin is None:
            self._admin = kafka_admin.AdminClient(confluent_config(self._settings))
            # The first request of a client without a connection to a broker waits for three seconds one time in five
            # (12 of 60, librdkafka 2.16); after a metadata request it never waited (0 of 120).
            with suppress(KafkaException):
                self._admin.list_topics(next(iter(places))[0], timeout=_REQUEST_TIMEOUT_SECONDS)
        self.send(places, time.monotonic(), spec)
        while (offsets := self.take(time.monotonic())) is None:
            time.sleep(0.01)
        return offsets

    def take(self, now: float) -> dict[Place, int] | None:
        """Return the offsets that leaders returned; None while answers are outstanding and not timed out."""
        if not all(future.done() for future in self._pending.values()):
            if now <= self._last_request_at + 2 * _REQUEST_TIMEOUT_SECONDS:
                return None
            self._pending = {}
            return {}
        pending, self._pending = self._pending, {}
        offsets: dict[Place, int] = {}
        refused = set()
        for partition, future in pending.items():
            try:
                offset = result_of(future).offset
            except KafkaException as error:  # the partition has no leader now, or was deleted
                self.trouble = error.args[0].str()
                if error.args[0].name() == "TOPIC_AUTHORIZATION_FAILED":
                    refused.add(partition.topic)
                continue
            if offset >= 0:  # a leader that is about to move returns OFFSET_INVALID
                offsets[partition.topic, partition.partition] = offset
        if not offsets:  # a client that lost its brokers may never answer again (see Stall)
            self._admin = None
        self.refused = frozenset(refused)
        return offsets


#: Seconds between two requests for end offsets.
_OFFSETS_INTERVAL_SECONDS: Final = 1.0
#: Age in seconds up to which an answer is current.
_MAX_OFFSET_AGE_SECONDS: Final = 5.0


class EndOffsets:
    """The end offset of each partition as of the last answer; never waits for an answer.

    ``Consumer.get_watermark_offsets(cached=True)`` needs no request, but it waits for librdkafka's lock while it holds
    Python's interpreter lock. So the whole process stops for as long as librdkafka holds the lock.
    """

    def __init__(self, settings: KafkaSettings, places: Iterable[Place]) -> None:
        self._request = OffsetRequest(settings)
        self.places = frozenset(places)
        self._requested_at = float("-inf")
        self._ends: dict[Place, int] = {}
        self._answered_at: dict[Place, float] = {}

    def poll(self, now: float) -> Mapping[Place, int]:
        """Return the end offsets as of the last answer; send the next request when it is due."""
        if self.places and not self._request.is_pending and now >= self._requested_at + _OFFSETS_INTERVAL_SECONDS:
            self._requested_at = now
            self._request.send(self.places, now)
        if self._request.is_pending and (answer := self._request.take(now)) is not None:
            self._ends |= answer
            self._answered_at |= dict.fromkeys(answer, self._requested_at)
        return self._ends

    def are_current(self, now: float) -> bool:
        """True if the leader of every partition has answered within the last ``_CURRENT_WITHIN_SECONDS``."""
        oldest = min((self._answered_at.get(place, float("-inf")) for place in self.places), default=now)
        return now - oldest <= _MAX_OFFSET_AGE_SECONDS


#: Seconds without a record after which the end offsets are requested.
STALL_SECONDS: Final = 5.0


class StallCheck:
    """Detects a client that has stopped reading, and partitions that have lost records.

    librdkafka drops every broker that a metadata answer does not contain. A client that sent its request to a broker
    during its start or shutdown may have no broker left, and never reads again (librdkafka issue 5301). A new client
    can read. A partition that ends before a reader's position has lost records, with its leader's disk or because the
    new leader had not copied all of them. New records in the partition then have offsets that were already read.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._previous_positions: dict[Place, int] = {}
        self._last_check: float | None = None

    def poll(self, positions: Mapping[Place, int], now: float) -> dict[Place, tuple[int, int]]:
        """Return the first and end offsets of partitions that were not read for ``STALL_SECONDS`` and lost records.

        If no partition was read at all, partitions with unread records are added, as a client reads one at a time.
        """
        if self._last_check is not None and now - self._last_check < STALL_SECONDS:
            return {}
        stalled_places = [place for place, offset in positions.items() if self._previous_positions.get(place) == offset]
        self._previous_positions, self._last_check = dict(positions), now
        idle = len(stalled_places) == len(positions)
        return {
            place: (low, high)
            # patience=0: the reader calls this function again soon, and reads other partitions until then.
            for place, (low, high) in bounds(self._settings, stalled_places, max_wait=0).items()
            if high < positions[place] or (idle and high > positions[place])
        }
