"""Where partitions end, requested again and again while somebody reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from streaming.kafka.clients import answer_of, confluent_config

if TYPE_CHECKING:
    from concurrent.futures import Future

    from streaming.kafka.offsets import Place
    from streaming.settings.connection import KafkaSettings

#: Seconds between two requests.
_EVERY_SECONDS: Final = 1.0
#: Seconds that brokers have for an answer.
_ANSWER_SECONDS: Final = 5.0
#: Age in seconds up to which an answer counts as current.
_CURRENT_SECONDS: Final = 5.0


class EndOffsets:
    """The end offset of each partition as of the last answer; never waits for one.

    ``Consumer.get_watermark_offsets(cached=True)`` would give the same without a request, but it waits for
    librdkafka's lock while it holds Python's interpreter lock: a process that meets librdkafka holding it stands
    still as a whole.

    Args:
        settings: how to reach the cluster.
        places: the partitions, as ``(topic, partition)``.
    """

    def __init__(self, settings: KafkaSettings, places: Iterable[Place]) -> None:
        self._settings = settings
        self._places = tuple(places)
        self._next = float("-inf")
        self._requested_at = float("-inf")
        self._pending: Mapping[Any, Future[Any]] = {}
        self._admin: Any = None
        self._ends: dict[Place, int] = {}
        self._answered: dict[Place, float] = {}

    @property
    def places(self) -> frozenset[Place]:
        """The partitions whose ends are requested."""
        return frozenset(self._places)

    def look(self, now: float) -> Mapping[Place, int]:
        """The ends that are known by now; sends the next request when it is time.

        Args:
            now: seconds, on any clock that only goes forward.
        """
        if not self._pending and now >= self._next and self._places:
            self._request(now)
        if self._pending and (self._take() or now > self._requested_at + 2 * _ANSWER_SECONDS):
            self._pending = {}
        return self._ends

    def are_current(self, now: float) -> bool:
        """Whether every partition's leader has answered a request of the last seconds."""
        oldest = min((self._answered.get(place, float("-inf")) for place in self._places), default=now)
        return now - oldest <= _CURRENT_SECONDS

    def _request(self, now: float) -> None:
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        if self._admin is None:
            self._admin = AdminClient(confluent_config(self._settings))
        self._next, self._requested_at = now + _EVERY_SECONDS, now
        self._pending = self._admin.list_offsets(
            {TopicPartition(*place): OffsetSpec.latest() for place in self._places},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )

    def _take(self) -> bool:
        """Take the answer to the pending request; whether it is there."""
        from confluent_kafka import KafkaException

        if not all(future.done() for future in self._pending.values()):
            return False
        answers = 0
        for partition, future in self._pending.items():
            place = (partition.topic, partition.partition)
            try:
                offset = answer_of(future).offset
            except KafkaException:  # without a leader now; the end from before stays
                continue
            if offset < 0:  # a leader that is about to move answers OFFSET_INVALID
                continue
            self._ends[place] = offset
            self._answered[place] = self._requested_at
            answers += 1
        if not answers:  # a client that lost its brokers may never answer again (streaming.kafka.stall)
            self._admin = None
        return True
