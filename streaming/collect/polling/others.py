"""What another collector publishes of the same groups while this one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streaming.collect.polling.resume import view_of
from streaming.kafka.clients import Closing
from streaming.kafka.topic_reader import RecordOrder, TopicReader
from streaming.records.events import Event, GroupObserved

if TYPE_CHECKING:
    from streaming.settings.config import Settings

#: Records that are read at once, so that a long log does not keep the collector from its questions.
_MOST = 1000


class Others(Closing):
    """Reads the membership topic from its end on.

    Args:
        settings: the cluster and the topic.
        source: this collector's own ``ce_source``, whose events are passed over.
        wanted: whether a group is followed.

    Raises:
        TopicUnreadable, NotAllowed, ClusterUnavailable: as named.
    """

    def __init__(self, settings: Settings, source: str, wanted: Callable[[str], bool]) -> None:
        self._source = source
        self._wanted = wanted
        self._order = RecordOrder()
        self._reader = TopicReader(
            settings.kafka, [settings.topics.membership], from_beginning=False, follow=True
        )

    def heard(self) -> list[Event]:
        """Views and deletions of groups that others published since the last call, in order; waits for nothing.

        Raises:
            NotAllowed: this user may not read the topic any more.
        """
        found = []
        for message in self._reader.poll(0, _MOST):
            event = view_of(message, self._wanted)
            if event is not None and not self._is_own(event) and self._order.accept(message):
                found.append(event)
        return found

    def _is_own(self, event: Event) -> bool:
        return event.source == self._source or (isinstance(event.data, GroupObserved) and event.data.polled)

    def close(self) -> None:
        """Give the connections back."""
        self._reader.close()
