"""Wraps consumer classes: reporters queue events, and the thread of an outbox sends them."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from assignors.errors import BadInput, OutsideFailure
from streaming.listener.membership import About, ClockReading, Membership, Place
from streaming.records.events import Event

if TYPE_CHECKING:
    from streaming.kafka.producer import EventProducer
    from streaming.settings.config import Settings


_log = logging.getLogger(__name__)


def read_clocks() -> ClockReading:
    """Return the current time of both clocks."""
    return ClockReading(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)


#: Events that are kept while the cluster does not take them: some hundred bytes each.
KEPT: Final = 1_000
_IN_FLIGHT: Final = 100  # of these, those that are with the client library
_LOOK_SECONDS: Final = 0.25  # between two looks at what is due
_AWAY_SECONDS: Final = 3.0  # a cluster that takes nothing for so long is away
_LAST_LOOK_SECONDS: Final = 0.02  # as _LOOK_SECONDS, while it closes
_AGAIN_SECONDS: Final = 1.0  # until a cluster that is away is asked again


class ReportedConsumer:
    """A reported consumer."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership

    def look(self) -> None:
        """Take note of what the client knows without having called back; called from the listener's thread."""


class Outbox:
    """Takes events from any thread, and sends them from its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: deque[Event] = deque(maxlen=KEPT)
        #: Taken from the queue, and not taken by the client library.
        self._next: Event | None = None
        self._consumers: WeakSet[ReportedConsumer] = WeakSet()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._close_by: float | None = None
        self._thread: threading.Thread | None = None
        self._producer: EventProducer | None = None
        #: When everything had last been delivered; whether something was not since then.
        self._clear = time.monotonic()
        self._missed = False
        self._reported = ""

    def add(self, consumer: ReportedConsumer) -> None:
        """Listen to a consumer from now on, for as long as it exists."""
        with self._lock:
            self._consumers.add(consumer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rebalance-listener", daemon=True)
                self._thread.start()

    def put(self, events: Iterable[Event]) -> None:
        """Have these sent; returns at once."""
        # Only news wakes the thread: its own looks put nothing nearly always, and it would never sleep.
        if new := list(events):
            self._waiting.extend(new)
            self._wake.set()

    def waiting(self) -> list[Event]:
        """Return the events that the client library has not taken yet, oldest first."""
        return list(self._waiting)

    def consumers(self) -> list[ReportedConsumer]:
        """The consumers that are listened to."""
        with self._lock:
            return list(self._consumers)

    def close(self, timeout: float) -> None:
        """Send what is left, within ``timeout`` seconds; the rest is given up."""
        self._close_by = time.monotonic() + timeout
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while self._close_by is None or not (self._delivered() or self._given_up()):
            self._wake.wait(_LOOK_SECONDS if self._close_by is None else _LAST_LOOK_SECONDS)
            self._wake.clear()
            try:
                self._round()
            except Exception as error:  # noqa: BLE001 - the thread outlives whatever happens in it, and says so
                self._missed = True
                if str(error) != self._reported and not self._given_up():  # once, until something else happens
                    self._reported = str(error)
                    _log.warning("the monitor is not told: %s", error)
                if self._close_by is None:
                    time.sleep(_AGAIN_SECONDS)

    def _given_up(self) -> bool:
        return self._close_by is not None and time.monotonic() >= self._close_by

    def _round(self) -> None:
        if self._producer is None:
            self._producer = _producer(self._settings)  # before there is something to say: then it is told at once
        self._producer.client.poll(0)
        now = time.monotonic()
        if self._delivered():
            self._clear = now
            if self._missed and self._close_by is None:
                self._missed = False
                self._say(lambda membership: membership.renewed(read_clocks()))
        if now - self._clear > _AWAY_SECONDS:
            self._missed = True  # that a member lived meanwhile, nobody asks later
        elif self._close_by is None:
            self._say(lambda membership: membership.due(read_clocks()))
        self._send()

    def _say(self, what: Callable[[Membership], list[Event]]) -> None:
        for consumer in self.consumers():
            consumer.look()
            self._waiting.extend(what(consumer.membership))

    def _send(self) -> None:
        """Give the client library what it may have."""
        if self._producer is None:
            return
        while len(self._producer.client) < _IN_FLIGHT:
            if self._next is None:
                if not self._waiting:
                    return
                self._next = self._waiting.popleft()
            try:
                self._producer.send(self._next)
            except OutsideFailure:
                raise
            except Exception:
                self._next = None  # nobody could write this one
                raise
            self._next = None

    def _delivered(self) -> bool:
        in_flight = 0 if self._producer is None else len(self._producer.client)
        return not in_flight and self._next is None and not self._waiting


def _producer(settings: Settings) -> EventProducer:
    from streaming.kafka.producer import EventProducer

    # What the library has taken keeps its place however long the cluster is away.
    producer = EventProducer(settings, {"delivery.timeout.ms": 0})
    producer.prepare()
    return producer


@contextmanager
def _safely() -> Iterator[None]:
    """Log errors instead of raising them into the application."""
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever it is
        _log.exception("the monitor is not told of this consumer")


class Reporter(ReportedConsumer):
    """Reports one consumer.

    Args:
        where: the member id and the generation that its client is in now; called in callbacks only.
        look: the same, or None while it is in no generation; called from another thread, so only clients that take
            such calls have it.
    """

    def __init__(
        self,
        outbox: Outbox,
        about: About,
        where: Callable[[], tuple[str, int]],
        look: Callable[[], tuple[str, int] | None] | None = None,
    ) -> None:
        super().__init__(Membership(about))
        self._outbox = outbox
        self._where = where
        self._look = look
        self._looked: tuple[str, int] | None = None

    @_safely()
    def subscribed(self, topics: Iterable[str]) -> None:
        """It subscribes to these topics; to none where it names them by a pattern."""
        self._outbox.put(self.membership.subscribed(topics, read_clocks()))
        self._outbox.add(self)

    @_safely()
    def assigned(self, partitions: Iterable[Any]) -> None:
        """It was given partitions."""
        self._outbox.put(self.membership.assigned(_places(partitions), *self._where(), read_clocks()))

    @_safely()
    def revoked(self, partitions: Iterable[Any]) -> None:
        """It has given partitions up."""
        self._outbox.put(self.membership.revoked(_places(partitions), self._where()[1], read_clocks()))

    @_safely()
    def lost(self, _: Iterable[Any]) -> None:
        """Its partitions are lost."""
        self._outbox.put(self.membership.lost(read_clocks()))

    @_safely()
    def leaves(self) -> None:
        """It is about to leave."""
        self.membership.leaves()

    @_safely()
    def left(self, reason: str) -> None:
        """It has left."""
        self._outbox.put(self.membership.left(reason, read_clocks()))

    @_safely()
    def look(self) -> None:
        """Take note of a generation that changed nothing for the consumer."""
        where = None if self._look is None else self._look()
        # Seen for the first time, its callbacks may be still to come.
        if where is not None and where == self._looked:
            self._outbox.put(self.membership.seen(*where, read_clocks()))
        self._looked = where


def reporter(
    outbox: Outbox,
    about: Callable[[], About | None],
    where: Callable[[], tuple[str, int]],
    look: Callable[[], tuple[str, int] | None] | None = None,
) -> Reporter | None:
    """The reporter of a consumer; None where it is in no group, or its configuration is not understood."""
    with _safely():
        if (known := about()) is not None:
            return Reporter(outbox, known, where, look)
    return None


def _places(partitions: Iterable[Any]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]


class Reporting:
    """Mixin before a wrapped class: reports what begins and ends a membership."""

    _outbox: Outbox
    _reporter: Reporter | None

    def unsubscribe(self) -> None:
        """Leave the group."""
        with leaving(self._reporter, "the consumer unsubscribed"):
            super().unsubscribe()  # type: ignore[misc] # of the class that comes after this one

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """Leave the group and end the client."""
        with leaving(self._reporter, "the consumer was closed"):
            return super().close(*args, **kwargs)  # type: ignore[misc] # as above


@contextmanager
def leaving(reporter: Reporter | None, reason: str) -> Iterator[None]:
    """Around what takes a consumer out of its group; None: nobody listens to it."""
    if reporter is not None:
        reporter.leaves()
    try:
        yield
    finally:
        if reporter is not None:
            reporter.left(reason)


_Consumer = TypeVar("_Consumer")
#: Where the classes of each client are at home.
_CONFLUENT = ("confluent_kafka", "cimpl")
_KAFKA_PYTHON = ("kafka",)


class Listener:
    """Reports an application's consumers to the monitor. One serves them all; it is closed when the process ends.

    Args:
        monitor: bootstrap servers of the monitor's cluster; or all settings (:func:`streaming.load`), where it is
            secured.
        topic_prefix: of the monitor's topics.

    Raises:
        InvalidSettings: a setting is wrong. Nothing is raised afterwards.
    """

    def __init__(self, monitor: str | Settings, *, topic_prefix: str | None = None) -> None:
        if isinstance(monitor, str):
            from streaming.settings.config import load

            monitor = load(bootstrap_servers=monitor, topic_prefix=topic_prefix)
        self._outbox = Outbox(monitor)
        atexit.register(self.close)

    def wrap(self, consumer: type[_Consumer]) -> type[_Consumer]:
        """A class to use in place of this one. What it takes and does is the same; its ``poll`` is the very same.

        Raises:
            BadInput: it is neither.
        """
        homes = {base.__module__.partition(".")[0] for base in consumer.__mro__}
        mixin: type[Reporting]
        if homes.intersection(_CONFLUENT):
            from streaming.listener.confluent import ConfluentReporting

            mixin = ConfluentReporting
        elif homes.intersection(_KAFKA_PYTHON):
            from streaming.listener.kafka_python import KafkaPythonReporting

            mixin = KafkaPythonReporting
        else:
            raise BadInput(f"{consumer.__name__} is no consumer of confluent-kafka or kafka-python")
        return type(consumer.__name__, (mixin, consumer), {"_outbox": self._outbox, "__doc__": consumer.__doc__})

    def close(self, timeout: float = 2.0) -> None:
        """Send the remaining events, leaves above all, for at most ``timeout`` seconds."""
        atexit.unregister(self.close)
        self._outbox.close(timeout)
