"""Requests the cluster's topics and the brokers' limits for session timeouts."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import ClusterMetadata, ConfigResource, ResourceType

from streaming.collect.cluster_view import ClusterSnapshot
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.kafka.clients import confluent_config, result_of
from streaming.records.events import TopicMetadata
from streaming.settings.connection import KafkaSettings

_log = logging.getLogger(__name__)
_TIMEOUT = 10.0
#: The metadata of a topic that does not exist.
DELETED_TOPIC = TopicMetadata(partitions=0)
#: The most topics in one DescribeTopics request.
_TOPICS_PER_REQUEST = 500
#: The broker settings that limit the timeouts of groups.
_MIN_SESSION_CONFIG = "group.consumer.min.session.timeout.ms"
_MAX_HEARTBEAT_CONFIG = "group.consumer.max.heartbeat.interval.ms"


def max_silence_ms(kafka: KafkaSettings) -> int | None:
    """Return the time (ms) after a commit in which no KIP-848 session can expire; None without the brokers' limits.

    The settings of every group lie within the brokers' limits: see :mod:`streaming.collect.evidence`.
    """
    admin = kafka_admin.AdminClient(confluent_config(kafka))
    for attempts_left in reversed(range(3)):
        try:
            # One request per broker, as librdkafka requires.
            brokers = [ConfigResource(ResourceType.BROKER, str(n)) for n in admin.list_topics(timeout=_TIMEOUT).brokers]
            requests = [admin.describe_configs([broker], request_timeout=_TIMEOUT)[broker] for broker in brokers]
            configs = [result_of(request) for request in requests]
        except KafkaException as error:  # soon after a broker's death the metadata no longer contains it
            if attempts_left == 0:
                unknown = "the limits of KIP-848 sessions are unknown, so commits prove no leave from such a group"
                _log.info("%s: %s", unknown, error.args[0].str())
        else:
            bounds = [
                int(config[_MIN_SESSION_CONFIG].value) - int(config[_MAX_HEARTBEAT_CONFIG].value)
                for config in configs
                if _MIN_SESSION_CONFIG in config and _MAX_HEARTBEAT_CONFIG in config
            ]
            return max(0, min(bounds, default=0)) or None
    return None


class ClusterTopics:
    """The topics of the cluster; their metadata is requested only when it is needed."""

    def __init__(self, kafka: KafkaSettings, stop: threading.Event) -> None:
        self._kafka, self._stop = kafka, stop
        self._admin: kafka_admin.AdminClient | None = None
        self._counts: dict[str, int] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[str, str] = {}
        self._unknown_topics: set[str] = set()
        self._has_all_counts = False
        #: The cluster's metadata at the last request; None if the cluster did not answer.
        self.snapshot: ClusterSnapshot | None = None

    def on_fetch(self, past: bool) -> None:
        """Record that the collector fetched records, which may name topics created after the last topic request.

        ``past``: all fetched records were in the log before this object was created, so one topic request covers them.
        """
        self._has_all_counts = self._has_all_counts and past

    def name(self, topic_id: str) -> str:
        """Return the name of the topic with this id, or the id itself if the cluster no longer has the topic."""
        if topic_id not in self._names and topic_id not in self._unknown_topics:
            if not self._has_all_counts:
                self._list_topics()
            if topic_id not in self._names:
                self._unknown_topics.add(topic_id)
                _log.warning("topic id %s: the topic no longer exists; the id is used as its name", topic_id)
        return self._names.get(topic_id, topic_id)

    def _list_topics(self) -> None:
        self._topics.clear()  # a topic that was created again has the old name and count, but another id
        for attempts_left in reversed(range(6)):
            try:
                self.refresh(None)
            except KafkaException as error:
                if attempts_left == 0 or self._stop.is_set():
                    raise
                _log.warning("topic ids: %s", error.args[0].str())
            else:
                break
        self._has_all_counts = True

    def refresh(self, wanted: Iterable[str] | None) -> Mapping[str, TopicMetadata]:
        """Request the topics again; return topics of ``wanted`` (None: all) that certainly exist, or certainly do not.

        The list of all topics with their counts is one cheap request; ids and racks are requested only for topics
        that are new or have another count. A topic that does not exist has 0 partitions; a topic that this user may
        not describe is left out.

        Raises:
            KafkaException: the cluster does not answer; the next call uses a new client, as one that lost its brokers
                may never answer again (:mod:`streaming.kafka.metadata`).
        """
        admin, self._admin = self._admin, None
        self.snapshot = None
        if admin is None:  # not "or": a client without pending requests has the length 0
            admin = kafka_admin.AdminClient(confluent_config(self._kafka))
        cluster = admin.list_topics(timeout=3.0)  # short, because the collector publishes nothing meanwhile
        counts = {name: len(topic.partitions) for name, topic in cluster.topics.items() if topic.error is None}
        for gone in self._topics.keys() - counts.keys():
            del self._topics[gone]
        requested_topics = counts.keys() if wanted is None else {name for name in wanted if name}
        names = counts.keys() & requested_topics
        self._describe_topics(admin, [n for n in names if n not in self._topics or self._counts.get(n) != counts[n]])
        self._counts = counts
        topics = {name: self._topics[name] for name in names if name in self._topics}
        for name, topic in _topic_descriptions(admin, requested_topics - counts.keys()):
            # A topic that this user may not see has another error.
            if isinstance(topic, KafkaError) and topic.name() == "UNKNOWN_TOPIC_OR_PART":
                topics[name] = DELETED_TOPIC
        self.snapshot = _snapshot(cluster, {name: topic.partitions for name, topic in topics.items()})
        self._admin = admin
        return topics

    def _describe_topics(self, admin: kafka_admin.AdminClient, names: Iterable[str]) -> None:
        for name, topic in _topic_descriptions(admin, names):
            if isinstance(topic, KafkaError):  # deleted between the two requests
                _log.info("topic %s: %s", name, topic.str())
                continue
            topic_id = str(topic.topic_id).rstrip("=").replace("+", "-").replace("/", "_")
            racks = [
                sorted({node.rack for node in partition.replicas if node.rack})
                for partition in sorted(topic.partitions, key=lambda partition: partition.id)
            ]
            self._names[topic_id] = name
            self._unknown_topics.discard(topic_id)
            self._topics[name] = TopicMetadata(
                partitions=len(topic.partitions), racks=racks if any(racks) else None, topic_id=topic_id
            )


def _snapshot(cluster: ClusterMetadata, partitions: Mapping[str, int]) -> ClusterSnapshot:
    offsets = cluster.topics.get(OFFSETS_TOPIC)
    leaders = {number: partition.leader for number, partition in offsets.partitions.items()} if offsets else {}
    coordinators = tuple(leader if leader in cluster.brokers else None for _, leader in sorted(leaders.items()))
    return ClusterSnapshot(frozenset(cluster.brokers), coordinators, partitions)


def _topic_descriptions(admin: kafka_admin.AdminClient, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield each topic's name with its description, or with the error that the cluster returned for it."""
    ordered = sorted(names)
    for start in range(0, len(ordered), _TOPICS_PER_REQUEST):
        batch = TopicCollection(ordered[start : start + _TOPICS_PER_REQUEST])
        for name, answer in admin.describe_topics(batch, request_timeout=_TIMEOUT).items():
            try:
                yield name, result_of(answer)
            except KafkaException as error:
                yield name, error.args[0]
