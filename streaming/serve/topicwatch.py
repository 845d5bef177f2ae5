"""What the cluster says of the topics that are read, asked every few seconds without waiting for the answers.

A consumer alone does not tell: librdkafka reconnects in silence, and goes on with a topic's name when the topic
behind it is another one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assignors.errors import OutsideFailure
from streaming.kafka.clients import confluent_config
from streaming.serve.standing import Stale

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import TopicDescription

    from streaming.settings.connection import KafkaSettings

log = logging.getLogger(__name__)

#: Seconds between two looks; while a topic is missing, and while nobody answers.
_LOOK_EVERY: Final = 3.0
_LOOK_SOON: Final = 1.0
#: Seconds that a request may take. With the pause before it: what it takes to notice that nobody answers.
_REQUEST_SECONDS: Final = 5.0
#: Refusals that waiting does not mend.
_DENIALS: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "_AUTHENTICATION"})
_UNKNOWN: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC"})


class TopicsUnreadable(OutsideFailure):
    """The diff topics can't be read."""


class _Silence(NamedTuple):
    """What was not answered, for people, and what librdkafka says of it."""

    reason: str
    error: str


class TopicWatch:
    """Ids, partitions and ends of topics, as of the last answer; and since when there is none.

    Args:
        settings: how to reach the cluster.
        topics: their names.
        cluster_id: what the cluster is expected to be.
    """

    def __init__(self, settings: KafkaSettings, topics: Iterable[str], cluster_id: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._servers = settings.bootstrap_servers
        self._cluster_id = cluster_id
        self._admin = AdminClient(confluent_config(settings))
        self._missing: dict[str, int | None] = dict.fromkeys(topics)
        self.topics: tuple[str, ...] = tuple(self._missing)
        #: ``{topic: id}`` of those that exist.
        self.ids: dict[str, str] = {}
        #: ``{(topic, partition): offset behind its last record}``; None until the first answer.
        self.ends: dict[tuple[str, int], int] | None = None
        self._contact = _now_ms()
        self._silence: _Silence | None = None
        self._looking = self._looks()

    def turn(self) -> None:
        """Take what has been answered and ask what is due; never waits.

        Raises:
            TopicsUnreadable: this user may not look at the topics, or another cluster answers.
        """
        next(self._looking)

    def first(self, seconds: float) -> None:
        """Wait for the first answer.

        Raises:
            TopicsUnreadable: there is none within ``seconds``.
        """
        by = time.monotonic() + seconds
        while self.ends is None:
            self.turn()
            if time.monotonic() > by:
                raise TopicsUnreadable(
                    f"cluster {self._servers}: does not describe its topics within {seconds:g} s"
                )
            time.sleep(0.01)

    @property
    def stale(self) -> Stale | None:
        """Why what was read may not be all there is; None when it is."""
        if self._silence is not None:
            return Stale("kafka-unreachable", self._silence.reason, self._contact)
        for topic in self.topics:
            since = self._missing.get(topic)
            if since is not None:
                return Stale("topic-missing", f"Topic {topic} is missing", since)
        return None

    def _looks(self) -> Iterator[None]:
        """One look after another; yields while there is nothing to do."""
        while True:
            silence = yield from self._look()
            self._judge(silence)
            soon = self._silence is not None or len(self.ids) < len(self.topics)
            due = time.monotonic() + (_LOOK_SOON if soon else _LOOK_EVERY)
            while time.monotonic() < due:
                yield

    def _judge(self, silence: _Silence | None) -> None:
        if silence is None:
            self._contact = _now_ms()
            if self._silence is not None:
                log.warning("cluster %s: answers again", self._servers)
        elif self._silence is None:
            log.warning("cluster %s: %s: %s", self._servers, silence.reason.lower(), silence.error)
        self._silence = silence

    def _look(self) -> Generator[None, None, _Silence | None]:
        """Ask everything once; what was not answered, or None."""
        from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        try:
            cluster = self._admin.describe_cluster(request_timeout=_REQUEST_SECONDS)
            described = self._admin.describe_topics(
                TopicCollection(list(self.topics)), request_timeout=_REQUEST_SECONDS
            )
            yield from _all_done([cluster, *described.values()])
            self._compare(cluster.result().cluster_id)
            found = self._described(described)
            wanted = {
                TopicPartition(topic, partition.id): OffsetSpec.latest()
                for topic, description in found.items()
                for partition in description.partitions
            }
            asked = (
                # As the consumer reads: an open transaction is not waited for.
                self._admin.list_offsets(
                    wanted,
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=_REQUEST_SECONDS,
                )
                if wanted
                else {}
            )
            yield from _all_done(asked.values())
        except KafkaException as error:
            return _Silence("No contact with Kafka", error.args[0].str())
        return self._ended(found, asked)

    def _compare(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self._cluster_id:
            raise TopicsUnreadable(
                f"cluster {self._servers}: another cluster answers now ({cluster_id}, before {self._cluster_id}); "
                "each cluster has a history of its own, start again for this one"
            )

    def _described(self, asked: Mapping[str, Future[TopicDescription]]) -> dict[str, TopicDescription]:
        """The topics that exist; those that don't are noted."""
        from confluent_kafka import KafkaException

        found = {}
        for topic, future in asked.items():
            try:
                found[topic] = future.result()
            except KafkaException as error:
                self._unless_denied(topic, error)
                if error.args[0].name() not in _UNKNOWN:
                    raise
                if self._missing[topic] is None:
                    seen = topic in self.ids
                    log.warning(
                        "topic %s %s: waiting for it", topic, "is gone" if seen else "does not exist yet"
                    )
                    self._missing[topic] = _now_ms()
            else:
                self._missing[topic] = None
        return found

    def _ended(
        self, found: Mapping[str, TopicDescription], asked: Mapping[TopicPartition, Future[Any]]
    ) -> _Silence | None:
        """Note ids and ends together: a topic's ends are never taken for those of its successor."""
        from confluent_kafka import KafkaException

        ends = {}
        for place, future in asked.items():
            try:
                ends[place.topic, place.partition] = future.result().offset
            except KafkaException as error:
                self._unless_denied(place.topic, error)
                return _Silence(
                    f"No answer from the leader of topic {place.topic} partition {place.partition}",
                    error.args[0].str(),
                )
        self.ids = {topic: str(description.topic_id) for topic, description in found.items()}
        self.ends = ends
        return None

    def _unless_denied(self, topic: str, error: KafkaException) -> None:
        if error.args[0].name() in _DENIALS:
            raise TopicsUnreadable(f"topic {topic}: {error.args[0].str()}") from error


def _all_done(asked: Iterable[Future[Any]]) -> Iterator[None]:
    waiting = list(asked)
    while not all(future.done() for future in waiting):
        yield


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
