"""Readers of one topic on a thread of their own, for programs that can go on without it."""

from __future__ import annotations

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from streaming.kafka.access import NotAllowed
from streaming.kafka.topic_reader import TopicReader
from streaming.process.plain import printable

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.kafka.metadata import Place
    from streaming.settings.connection import KafkaSettings

_log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
#: Until it is tried again after the topic could not be read.
AGAIN_SECONDS: Final = 10.0
#: For the thread to end; it is no reason to stay.
_END_SECONDS: Final = 5.0


class Listening(ABC):
    """Listens while its ``with`` block lasts, and begins again where that fails.

    Args:
        topic: what is followed.
        what: what it holds, as the log calls it ("signs of life are read").
        without: what follows where it can't be read, for the log.
    """

    def __init__(self, topic: str, what: str, *, without: str = "") -> None:
        self.topic = topic
        self._what, self._without = what, without
        self._said: str | None = None
        self._odd = False
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=topic, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)

    @abstractmethod
    def listen(self) -> None:
        """Read the topic until :attr:`stopping` is set."""

    @abstractmethod
    def deaf(self) -> None:
        """Take note that the topic can't be read."""

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.listen()
            except Exception as error:  # noqa: BLE001 - a thread that ended unseen would leave what seems new
                self.deaf()
                self.say(str(error) if isinstance(error, NotAllowed) else f"{type(error).__name__}: {error}")
                self.stopping.wait(AGAIN_SECONDS)

    def say(self, trouble: str | None) -> None:
        """Log that the topic is read (None), or why it is not; once, until that changes."""
        if trouble == self._said:
            return
        if trouble is None:
            _log.info("topic %s: %s are read", self.topic, self._what)
        else:
            _log.warning("%s are not read%s: %s", self._what, self._without, trouble)
        self._said = trouble

    def say_odd(self, problem: str) -> None:
        """Log the first record that is of no use: there may be many."""
        if not self._odd:
            self._odd = True
            _log.warning("topic %s: %s", self.topic, printable(problem))


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
                messages = reader.poll(POLL_SECONDS, _BATCH)
                if reader.ids and (messages or reader.ids != self._ids):
                    self._hand_over(Portion(reader.ids[self.topic], messages))
                    self._positions, self._ids = reader.positions, reader.ids
                self._at_end = reader.at_end and reader.silent_since is None and not reader.leaderless
                self.say(None)

    def _hand_over(self, batch: Portion) -> None:
        handed = False
        while not (handed or self.stopping.is_set()):
            with suppress(queue.Full):
                self._batches.put(batch, timeout=POLL_SECONDS)
                handed = True
