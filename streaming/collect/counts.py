"""Publishes partition counts of the topics that groups subscribe to, each change once per group.

The published count of a deleted topic is 0 partitions.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, Message

from assignors.errors import BadInput
from streaming.collect.cluster import DELETED_TOPIC, ClusterTopics
from streaming.collect.cluster_view import ClusterView, subscribed
from streaming.collect.fold import CollectedEvent, Outcome, RejectedRecord
from streaming.kafka.topic_reader import RecordOrder, read_to_end
from streaming.records import codec, events
from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


def is_outdated(data: events.GroupObserved, published: Mapping[str, events.TopicMetadata]) -> bool:
    """True if a group's snapshot contradicts the partition counts that were published for the group.

    The snapshot has a topic or partition that was not published, or no partition of a subscribed topic, which may have
    been deleted.
    """
    topics = subscribed(data)
    if any(topic not in published for topic in topics):
        return True
    if data.holds_tasks:
        return False
    newest: dict[str, int] = {}
    for member in data.members:
        for share in (member.assigned, member.target or {}, member.pending_revocation):
            for topic, partitions in share.items():
                newest[topic] = max(newest.get(topic, -1), *partitions, -1)
    is_new = any(topic not in published or number >= published[topic].partitions for topic, number in newest.items())
    return is_new or any(published[topic].partitions and topic not in newest for topic in topics)


def partitions_changed(
    source: str, group_id: str, timestamp: int, topics: Mapping[str, events.TopicMetadata]
) -> events.Event:
    """Return the ``topic.partitions_changed`` event with the partition counts of a group's topics."""
    data = events.PartitionsChanged(group_id=group_id, timestamp=timestamp, topics=dict(topics))
    names = ",".join(f"{name}={topic.topic_id}/{topic.partitions}" for name, topic in sorted(topics.items()))
    return events.Event(source, f"{group_id}@{timestamp}:{names}", data)


_GROUP_OBSERVED: Final = "group.observed"
_TYPES: Final = (_GROUP_OBSERVED, "group.deleted", "group.rebalancing", "topic.partitions_changed", "cluster.observed")


class PublishedState:
    """The state at a collector's start, from the events of earlier collectors.

    Attributes:
        counts: group → topic → the topic's last published metadata; deleted groups are left out.
        rebalances: the rebalances without a published end, by group.
        brokers: the brokers in the last ``cluster.observed`` event; None if there is no such event.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._order = RecordOrder()
        self.counts: dict[str, dict[str, events.TopicMetadata]] = {}
        self.rebalances: dict[str, events.GroupRebalancing] = {}
        self.brokers: list[int] | None = None

    def take(self, message: Message) -> None:
        """Add the next record of the membership topic; skip undecodable records, which the stream reports."""
        attributes = codec.ce_attributes(message.headers())
        kind = attributes.get("type")
        if kind not in _TYPES or not self._order.accept(message):
            return
        if kind == _GROUP_OBSERVED:  # not decoded: snapshots are long
            self.rebalances.pop((message.key() or b"").decode(errors="replace"), None)
            return
        try:
            data = codec.decode_event(message.key(), message.value(), attributes).data
        except BadInput:
            return
        if isinstance(data, events.GroupDeleted | events.GroupRebalancing):
            self.rebalances.pop(data.group_id, None)
        if isinstance(data, events.GroupDeleted):
            self.counts.pop(data.group_id, None)
        elif isinstance(data, events.GroupRebalancing) and not data.ended:
            self.rebalances[data.group_id] = data
        elif isinstance(data, events.PartitionsChanged) and attributes["source"] == self._source:
            self.counts.setdefault(data.group_id, {}).update(data.topics)
        elif isinstance(data, events.ClusterObserved):
            self.brokers = data.brokers


def read_published(settings: Settings, source: str, each: Callable[[Message], None] = lambda _: None) -> PublishedState:
    """Read the membership topic once and return a collector's published state; call ``each`` with every record."""
    published = PublishedState(source)
    for message in read_to_end(settings.kafka, settings.topics.membership):
        published.take(message)
        each(message)
    return published


class CountsPublisher:
    """Publishes partition counts that were not yet published for a group; ``published``: the counts by group.

    ``interval_s``: seconds between two checks of the topics of all groups.
    """

    def __init__(
        self,
        topics: ClusterTopics,
        source: str,
        published: dict[str, dict[str, events.TopicMetadata]],
        view: ClusterView,
        interval_s: float,
    ) -> None:
        self._topics, self._source, self._published, self._cluster_view = topics, source, published, view
        self._interval_s, self._due_at = interval_s, 0.0

    def add_counts(
        self,
        outcomes: Sequence[Outcome | events.Event],
        groups: Callable[[], Mapping[str, events.GroupObserved]] | None,
        *,
        away: bool,
    ) -> list[Outcome | events.Event]:
        """Add changed partition counts to ``outcomes``: before a group's snapshot, and at intervals for all groups.

        ``groups`` returns the last snapshot of each group; None: some groups are still unknown. ``away``: the cluster
        does not answer, so no request is sent: waiting for an answer would delay the handling of signals.
        """
        is_due = groups is not None and time.monotonic() >= self._due_at
        all_groups = groups() if groups is not None and is_due else {}
        subscriptions = {group_id: subscribed(snapshot) for group_id, snapshot in all_groups.items()}
        outcome_data = [None if (event := _event(item)) is None else event.data for item in outcomes]
        observed = [subscribed(data) for data in outcome_data if isinstance(data, events.GroupObserved)]
        topics = frozenset().union(*subscriptions.values(), *observed)
        current = self._request(topics) if is_due and not away else None
        items: list[Outcome | events.Event] = []
        for item, data in zip(outcomes, outcome_data, strict=True):
            if isinstance(data, events.GroupDeleted):
                self._published.pop(data.group_id, None)
            elif isinstance(data, events.GroupObserved):
                if current is None and not away and is_outdated(data, self._published.get(data.group_id, {})):
                    current = self._request(topics)
                items += self._publish(data.group_id, subscribed(data), current or {}, data.timestamp)
            items.append(item)
        now = int(time.time() * 1000)
        for group_id, group_topics in subscriptions.items():
            items += self._publish(group_id, group_topics, current or {}, now)
        if is_due:
            # The stream also drops the counts of a group that was empty for long.
            self._published = {name: counts for name, counts in self._published.items() if subscriptions.get(name)}
            self._due_at = time.monotonic() + self._interval_s
            if away or self._topics.snapshot is None:
                self._cluster_view.add_outage(now)
            elif (change := self._cluster_view.add_snapshot(self._topics.snapshot, all_groups, now)) is not None:
                items.append(change)
        return items

    def _publish(
        self, group_id: str, topics: Iterable[str], current: Mapping[str, events.TopicMetadata], timestamp: int
    ) -> list[events.Event]:
        """Return the partition counts that a group has not received, as a list of one event or an empty list."""
        published = self._published.get(group_id, {})
        # A topic that never existed is not a change.
        pairs = ((name, current[name]) for name in sorted(topics) if name in current)
        new = {name: topic for name, topic in pairs if published.get(name, DELETED_TOPIC) != topic}
        if not new:
            return []
        self._published[group_id] = published | new
        return [partitions_changed(self._source, group_id, timestamp, new)]

    def _request(self, topics: Iterable[str]) -> Mapping[str, events.TopicMetadata]:
        try:
            return self._topics.refresh(topics)
        except KafkaException as error:
            _log.warning("topic metadata: %s", error.args[0].str())
            return {}


def _event(item: Outcome | events.Event) -> events.Event | None:
    if isinstance(item, RejectedRecord):
        return None
    return item.event if isinstance(item, CollectedEvent) else item
