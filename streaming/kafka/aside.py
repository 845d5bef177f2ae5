"""A topic that is read beside others: where it is missing, or may not be read, they go on without it."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from streaming.kafka import listening
from streaming.kafka.listening import Listening
from streaming.kafka.topic_reader import TopicReader

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.kafka.offsets import Place
    from streaming.settings.connection import KafkaSettings

_BATCH: Final = 500
#: Batches that wait to be taken: more stay in the topic until then.
_WAITING: Final = 4


class Portion(NamedTuple):
    """What was read of the topic with this id; it is another topic when it was made again."""

    topic_id: str
    messages: list[Message]


class Aside(Listening):
    """Reads a topic while its ``with`` block lasts; what it has read is taken from any other thread.

    Args:
        settings: how to reach the cluster.
        topic: what is read.
        what: what it holds, for the log.
        positions: ``{(topic, partition): next offset}`` to go on from; what is not named is read from its
            beginning.
        topic_id: of the topic that ``positions`` are of; another one is read from its beginning.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        what: str,
        *,
        positions: Mapping[Place, int],
        topic_id: str | None,
    ) -> None:
        super().__init__(topic, what)
        self._kafka = settings
        self._positions = {place: offset for place, offset in positions.items() if place[0] == topic}
        self._ids = {} if topic_id is None else {topic: topic_id}
        self._batches: queue.Queue[Portion] = queue.Queue(_WAITING)
        self._at_end = False

    def take(self) -> Portion | None:
        """What was read next; None where there is nothing."""
        try:
            return self._batches.get_nowait()
        except queue.Empty:
            return None

    @property
    def whole(self) -> bool:
        """Whether all that the topic has was taken."""
        return self._at_end and self._batches.empty()

    def deaf(self) -> None:
        """Claim nothing."""
        self._at_end = False

    def listen(self) -> None:
        """Read what comes, no faster than it is taken."""
        with TopicReader(
            self._kafka,
            [self.topic],
            positions=self._positions,
            ids=self._ids,
            wait=True,
            follow=True,
            properties={"fetch.wait.max.ms": 100, "queued.max.messages.kbytes": 4096},
        ) as reader:
            while not self.stopping.is_set():
                messages = reader.poll(listening.POLL_SECONDS, _BATCH)
                if reader.ids and (messages or reader.ids != self._ids):
                    self._hand_over(Portion(reader.ids[self.topic], messages))
                    self._positions, self._ids = reader.positions, reader.ids
                self._at_end = reader.at_end and reader.silent_since is None and not reader.leaderless
                self.say(None)

    def _hand_over(self, batch: Portion) -> None:
        handed = False
        while not (handed or self.stopping.is_set()):
            with suppress(queue.Full):
                self._batches.put(batch, timeout=listening.POLL_SECONDS)
                handed = True
