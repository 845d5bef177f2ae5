"""Partition counts among what is published: each group is told of its topics before the view that shows them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from streaming.collect.cluster import ClusterTopics
from streaming.collect.counts import PartitionCounts, subscribed
from streaming.collect.fold import CollectedEvent, Outcome, UnusableRecord
from streaming.records.events import Event, GroupObserved

if TYPE_CHECKING:
    from streaming.records.events import TopicMetadata

_log = logging.getLogger(__name__)


class Telling:
    """Asks the cluster for its topics, and tells groups what they have not been told.

    Args:
        topics: what the cluster says.
        counts: what groups were told.
        every: seconds between two looks at the topics of all groups.
    """

    def __init__(self, topics: ClusterTopics, counts: PartitionCounts, every: float) -> None:
        self._topics = topics
        self._counts = counts
        self._every = every
        self._due = 0.0

    def with_counts(
        self,
        outcomes: Sequence[Outcome | Event],
        subscriptions: Callable[[], Mapping[str, frozenset[str]]] | None,
        *,
        away: bool,
    ) -> list[Outcome | Event]:
        """``outcomes`` with the counts that groups were not told, before what shows them.

        When it is time, all groups are told what is new.

        Args:
            outcomes: what is about to be published.
            subscriptions: the topics of each group; None while they are not all known.
            away: the cluster is known not to answer: to wait for it would be to hear no signal meanwhile.
        """
        due = subscriptions is not None and time.monotonic() >= self._due
        told = subscriptions() if subscriptions is not None and due else {}
        events = [event for item in outcomes if (event := _event(item)) is not None]
        views = [event.data for event in events if isinstance(event.data, GroupObserved)]
        current: Mapping[str, TopicMetadata] = {}
        if not away and (told or self._counts.lack(events)):
            current = self._asked(
                topic for topics in (*told.values(), *map(subscribed, views)) for topic in topics
            )
        items: list[Outcome | Event] = []
        for item in outcomes:
            if (event := _event(item)) is not None:
                items += self._counts.before(event, current)
            items.append(item)
        now = int(time.time() * 1000)
        for group_id, topics in told.items():
            items += self._counts.publish(group_id, topics, current, now)
        if due:
            self._counts.keep({group_id for group_id, topics in told.items() if topics})
            self._due = time.monotonic() + self._every
        return items

    def _asked(self, topics: Iterable[str]) -> Mapping[str, TopicMetadata]:
        """What the cluster says of these topics; nothing while it does not answer."""
        from confluent_kafka import KafkaException

        try:
            return self._topics.refresh(topics)
        except KafkaException as error:
            _log.warning("topic metadata: %s", error.args[0].str())
            return {}


def _event(item: Outcome | Event) -> Event | None:
    if isinstance(item, UnusableRecord):
        return None
    return item.event if isinstance(item, CollectedEvent) else item
