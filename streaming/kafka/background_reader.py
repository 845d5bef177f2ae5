"""Readers of one topic in a background thread, for programs that can work without the topic."""

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Self

from confluent_kafka import Message

from streaming.kafka.access import NoPermission
from streaming.kafka.metadata import Place
from streaming.kafka.topic_reader import TopicReader
from streaming.process import escape_unprintable
from streaming.settings.connection import KafkaSettings

_log = logging.getLogger(__name__)
POLL_SECONDS: Final = 0.5
#: Seconds before the next attempt to read the topic.
RETRY_SECONDS: Final = 10.0


class BackgroundReader(ABC):
    """Reads a topic in the background during the ``with`` block; starts again 10 s after a failure.

    Texts of log messages: ``what`` names the records ("heartbeats"), ``without`` is the effect of not reading them.
    """

    def __init__(self, topic: str, what: str, *, without: str = "") -> None:
        self.topic = topic
        self._record_kind, self._consequence = what, without
        self._reported: str | None = None
        self._has_malformed = False
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=topic, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    @abstractmethod
    def read(self) -> None:
        """Read the topic until :attr:`stopping` is set."""

    @abstractmethod
    def mark_unreadable(self) -> None:
        """Record that the reader can't read its topic."""

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.read()
            except Exception as error:  # noqa: BLE001 - a thread that ended unnoticed would leave old data that looks fresh
                self.mark_unreadable()
                self.log_trouble(str(error) if isinstance(error, NoPermission) else f"{type(error).__name__}: {error}")
                self.stopping.wait(RETRY_SECONDS)

    def log_trouble(self, trouble: str | None) -> None:
        """Log once that the topic can't be read, and why, or (None) that it can be read again."""
        if trouble == self._reported:
            return
        if trouble is None:
            _log.info("topic %s: %s are read", self.topic, self._record_kind)
        else:
            _log.warning("%s are not read%s: %s", self._record_kind, self._consequence, trouble)
        self._reported = trouble

    def log_malformed(self, problem: str) -> None:
        """Log only the first malformed record, because there may be many."""
        if not self._has_malformed:
            self._has_malformed = True
            _log.warning("topic %s: %s", self.topic, escape_unprintable(problem))


_BATCH_RECORDS: Final = 500


class TopicBatch(NamedTuple):
    """A batch of a topic's records, with the topic's id, which changes when the topic is created again."""

    topic_id: str
    messages: list[Message]


class BufferedTopicReader(BackgroundReader):
    """Reads a topic in a thread, from ``positions`` or the beginning, and queues a few batches for another thread."""

    def __init__(
        self, settings: KafkaSettings, topic: str, what: str, *, positions: Mapping[Place, int], topic_id: str | None
    ) -> None:
        super().__init__(topic, what)
        self._kafka = settings
        self._positions = {place: offset for place, offset in positions.items() if place[0] == topic}
        self._ids = {} if topic_id is None else {topic: topic_id}
        self._batches: queue.Queue[TopicBatch] = queue.Queue(4)  # reading pauses while it is full
        self._is_at_end = False

    def take(self) -> TopicBatch | None:
        """Return the next batch of records that was read; None without a waiting batch."""
        with suppress(queue.Empty):
            return self._batches.get_nowait()
        return None

    @property
    def is_complete(self) -> bool:
        """True if the reader has read the topic to its end, and :meth:`take` has returned all records."""
        return self._is_at_end and self._batches.empty()

    def mark_unreadable(self) -> None:
        """Record that the topic is not read to its end."""
        self._is_at_end = False

    def read(self) -> None:
        """Read batches of records until :attr:`stopping` is set; pause while too many batches wait."""
        fetch, places = {"fetch.wait.max.ms": 100, "queued.max.messages.kbytes": 4096}, self._positions
        with TopicReader(
            self._kafka, [self.topic], positions=places, ids=self._ids, wait=True, follow=True, properties=fetch
        ) as reader:
            while not self.stopping.is_set():
                messages = reader.poll(POLL_SECONDS, _BATCH_RECORDS)
                if reader.ids and (messages or reader.ids != self._ids):
                    self._put_batch(TopicBatch(reader.ids[self.topic], messages))
                    self._positions, self._ids = reader.positions, reader.ids
                self._is_at_end = reader.at_end and reader.silent_since is None and not reader.leaderless_partitions
                self.log_trouble(None)

    def _put_batch(self, batch: TopicBatch) -> None:
        while not self.stopping.is_set():
            with suppress(queue.Full):
                self._batches.put(batch, timeout=POLL_SECONDS)
                return
