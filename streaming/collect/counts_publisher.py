"""Adds partition counts to events: a group receives its topics' counts before the snapshot that shows them.

The requests for counts also show what has changed in the cluster (:mod:`streaming.collect.cluster_view`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from streaming.collect.cluster import ClusterTopics
from streaming.collect.cluster_view import ClusterView
from streaming.collect.counts import PartitionCounts, subscribed
from streaming.collect.fold import CollectedEvent, Outcome, RejectedRecord
from streaming.records.events import Event, GroupObserved

if TYPE_CHECKING:
    from streaming.records.events import TopicMetadata

_log = logging.getLogger(__name__)


class CountsPublisher:
    """Requests the cluster's topics, and adds the counts that groups have not received.

    Args:
        every: seconds between two checks of the topics of all groups.
    """

    def __init__(self, topics: ClusterTopics, counts: PartitionCounts, view: ClusterView, every: float) -> None:
        self._topics = topics
        self._counts = counts
        self._view = view
        self._every = every
        self._due = 0.0

    def with_counts(
        self,
        outcomes: Sequence[Outcome | Event],
        groups: Callable[[], Mapping[str, GroupObserved]] | None,
        *,
        away: bool,
    ) -> list[Outcome | Event]:
        """Return ``outcomes`` with the missing counts before them; when due, with new counts of all groups.

        Args:
            outcomes: what is about to be published.
            groups: the last snapshot of each group; None while they are not all known.
            away: the cluster does not answer, so it is not asked: waiting would delay a signal.
        """
        due = groups is not None and time.monotonic() >= self._due
        all_groups = groups() if groups is not None and due else {}
        subscriptions = {group_id: subscribed(snapshot) for group_id, snapshot in all_groups.items()}
        events = [event for item in outcomes if (event := _event(item)) is not None]
        snapshots = [event.data for event in events if isinstance(event.data, GroupObserved)]
        current: Mapping[str, TopicMetadata] = {}
        if not away and (due or self._counts.lack(events)):
            current = self._request(
                topic for topics in (*subscriptions.values(), *map(subscribed, snapshots)) for topic in topics
            )
        items: list[Outcome | Event] = []
        for item in outcomes:
            if (event := _event(item)) is not None:
                items += self._counts.before(event, current)
            items.append(item)
        now = int(time.time() * 1000)
        for group_id, topics in subscriptions.items():
            items += self._counts.publish(group_id, topics, current, now)
        if due:
            self._counts.keep({group_id for group_id, topics in subscriptions.items() if topics})
            self._due = time.monotonic() + self._every
            items += self._cluster_changes(all_groups, now, away=away)
        return items

    def _cluster_changes(self, groups: Mapping[str, GroupObserved], now_ms: int, *, away: bool) -> list[Event]:
        snapshot = self._topics.snapshot
        if away or snapshot is None:
            self._view.take_silence(now_ms)
            return []
        event = self._view.take_snapshot(snapshot, groups, now_ms)
        return [] if event is None else [event]

    def _request(self, topics: Iterable[str]) -> Mapping[str, TopicMetadata]:
        from confluent_kafka import KafkaException

        try:
            return self._topics.refresh(topics)
        except KafkaException as error:
            _log.warning("topic metadata: %s", error.args[0].str())
            return {}


def _event(item: Outcome | Event) -> Event | None:
    if isinstance(item, RejectedRecord):
        return None
    return item.event if isinstance(item, CollectedEvent) else item
