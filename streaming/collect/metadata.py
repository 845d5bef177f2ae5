"""Topic names, ids and partition counts from the cluster's metadata, and what changed in them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from streaming.wire.events import Event, GroupObserved, PartitionsChanged, TopicMetadata

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_log = logging.getLogger(__name__)
_TIMEOUT = 10.0
#: Tries of ``_TIMEOUT`` seconds each.
_PATIENCE = 6
#: Topics asked about in one request.
_BATCH = 500


def changes(
    subscriptions: Mapping[str, Collection[str]],
    known: Mapping[str, Mapping[str, TopicMetadata]],
    current: Mapping[str, TopicMetadata],
) -> dict[str, dict[str, TopicMetadata]]:
    """Per group, the topics it subscribes to whose metadata differs from what it was told.

    Args:
        subscriptions: group → topics.
        known: group → topic → what was published last.
        current: topic → what the cluster has; topics that do not exist are left out.
    """
    found: dict[str, dict[str, TopicMetadata]] = {}
    for group_id, topics in subscriptions.items():
        told = known.get(group_id, {})
        new = {
            topic: current[topic]
            for topic in sorted(topics)
            if topic in current and told.get(topic) != current[topic]
        }
        if new:
            found[group_id] = new
    return found


def subscribed(data: GroupObserved) -> frozenset[str]:
    """The topics that some member subscribes to."""
    return frozenset(topic for member in data.members for topic in member.topics)


def outdated(data: GroupObserved, told: Mapping[str, TopicMetadata]) -> bool:
    """Whether a view shows a topic, or a partition, that the group has not been told of."""
    return any(topic not in told for topic in subscribed(data)) or any(
        topic not in told or max(partitions, default=-1) >= told[topic].partitions
        for member in data.members
        for topic, partitions in member.assigned.items()
    )


def partitions_changed(
    source: str, group_id: str, timestamp: int, topics: Mapping[str, TopicMetadata]
) -> Event:
    """The event that tells a group's topics; its id is unique because a group is told once a moment."""
    data = PartitionsChanged(group_id=group_id, timestamp=timestamp, topics=dict(topics))
    names = ",".join(f"{name}={topic.topic_id}/{topic.partitions}" for name, topic in sorted(topics.items()))
    return Event(source, f"{group_id}@{timestamp}:{names}", data)


class ClusterTopics:
    """What the cluster says of its topics, asked when needed."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._counts: dict[str, int] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[str, str] = {}
        self._unknown: set[str] = set()

    def name(self, topic_id: str) -> str:
        """The topic's name; the id itself when the cluster no longer knows it."""
        if topic_id not in self._names and topic_id not in self._unknown:
            self._topics.clear()  # a topic made anew has the old name and count, but another id
            self._ask_patiently()
            if topic_id not in self._names:
                self._unknown.add(topic_id)
                _log.warning("topic id %s has no topic any more; the id stands for its name", topic_id)
        return self._names.get(topic_id, topic_id)

    def refresh(self, wanted: Iterable[str] | None) -> Mapping[str, TopicMetadata]:
        """Ask again; returns the topics among ``wanted`` (None: all) that exist.

        The list of all topics with their counts is one cheap request; ids and racks are asked only for topics
        that are new or have another count.
        """
        listed = self._admin.list_topics(timeout=_TIMEOUT).topics
        counts = {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}
        for gone in self._topics.keys() - counts.keys():
            del self._topics[gone]
        names = counts.keys() if wanted is None else counts.keys() & set(wanted)
        asked = [n for n in sorted(names) if n not in self._topics or self._counts.get(n) != counts[n]]
        for start in range(0, len(asked), _BATCH):
            self._describe(asked[start : start + _BATCH])
        self._counts = counts
        return {name: self._topics[name] for name in names if name in self._topics}

    def _ask_patiently(self) -> None:
        """Ask about all topics; a cluster that is away for a moment is waited for."""
        from confluent_kafka import KafkaException

        for left in reversed(range(_PATIENCE)):
            try:
                self.refresh(None)
            except KafkaException as error:
                if left == 0:
                    raise
                _log.warning("topic ids: %s", error.args[0].str())
            else:
                return

    def _describe(self, names: list[str]) -> None:
        from confluent_kafka import KafkaException, TopicCollection

        answers = self._admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT)
        for name, answer in answers.items():
            try:
                topic: Any = answer.result()
            except KafkaException as error:  # deleted between the two requests
                _log.info("topic %s: %s", name, error.args[0].str())
                continue
            topic_id = str(topic.topic_id).rstrip("=").replace("+", "-").replace("/", "_")
            racks = [
                sorted({node.rack for node in partition.replicas if node.rack})
                for partition in sorted(topic.partitions, key=lambda partition: partition.id)
            ]
            self._names[topic_id] = name
            self._unknown.discard(topic_id)
            self._topics[name] = TopicMetadata(
                partitions=len(topic.partitions), racks=racks if any(racks) else None, topic_id=topic_id
            )
