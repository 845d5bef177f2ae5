"""Wraps consumer classes so that each consumer queues events, which a thread of the outbox sends."""

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from assignors.errors import BadInput, OutsideFailure
from streaming.listener.membership import ClockReading, Membership, Place
from streaming.records.events import Event, MemberJoined

if TYPE_CHECKING:
    from streaming.kafka.producer import EventProducer
    from streaming.settings.config import Settings


_log = logging.getLogger(__name__)
#: The most events that wait while the cluster accepts no records; an event has some hundred bytes.
MAX_WAITING_EVENTS: Final = 1_000
#: The most events that the client library has in flight.
_MAX_IN_FLIGHT: Final = 100
#: Seconds between two checks for due events, between two checks while the outbox closes, and after a failure.
_CHECK_INTERVAL_SECONDS: Final = 0.25
_CLOSING_CHECK_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 1.0
#: Seconds without a delivered event after which the cluster counts as unavailable.
_UNAVAILABLE_AFTER_SECONDS: Final = 3.0


def read_clocks() -> ClockReading:
    """Return the current time of the system clock and of the monotonic clock."""
    return ClockReading(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)


class EventOutbox:
    """Queues events from any thread, and sends them from a thread of its own."""

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings
        self._waiting_events: deque[Event] = deque(maxlen=MAX_WAITING_EVENTS)
        #: The event that is passed to the client library next.
        self._next: Event | None = None
        self._consumers: WeakSet[MembershipReporter] = WeakSet()
        self._lock = threading.Lock()
        self._wake_event = threading.Event()
        self._close_deadline: float | None = None
        self._thread: threading.Thread | None = None
        self._producer: EventProducer | None = None
        #: When all events had last been delivered; and whether events may have been lost since then.
        self._all_delivered_at = time.monotonic()
        self._has_missed_events = False
        self._reported = ""

    def add(self, consumer: "MembershipReporter") -> None:
        """Start to report a consumer's membership; reports end when the consumer object is deleted."""
        with self._lock:
            self._consumers.add(consumer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rebalance-listener", daemon=True)
                self._thread.start()

    def put(self, events: Iterable[Event]) -> None:
        """Queue events to be sent."""
        # An empty put does not wake the thread: its own checks put mostly nothing, and it would never sleep.
        if new := list(events):
            self._waiting_events.extend(new)
            self._wake_event.set()

    def close(self, timeout: float) -> None:
        """Send the remaining events for at most ``timeout`` seconds; drop the others."""
        self._close_deadline = time.monotonic() + timeout
        self._wake_event.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while self._close_deadline is None or not (self._is_delivered() or self._is_past_deadline()):
            self._wake_event.wait(_CHECK_INTERVAL_SECONDS if self._close_deadline is None else _CLOSING_CHECK_SECONDS)
            self._wake_event.clear()
            try:
                self._send_due_events()
            except Exception as error:  # noqa: BLE001 - the thread survives every error
                self._has_missed_events = True
                if str(error) != self._reported and not self._is_past_deadline():  # log each error once
                    self._reported = str(error)
                    _log.warning("events are not sent to the monitor: %s", error)
                if self._close_deadline is None:
                    time.sleep(_RETRY_SECONDS)

    def _is_past_deadline(self) -> bool:
        return self._close_deadline is not None and time.monotonic() >= self._close_deadline

    def _send_due_events(self) -> None:
        if self._producer is None:
            from streaming.kafka.producer import EventProducer

            # Events in the library keep their order however long the cluster is unavailable.
            producer = EventProducer(self._settings, {"delivery.timeout.ms": 0})
            producer.prepare()  # before the first event, which then is sent at once
            self._producer = producer
        self._producer.client.poll(0)
        now = time.monotonic()
        if self._is_delivered():
            self._all_delivered_at = now
            if self._has_missed_events and self._close_deadline is None:
                self._has_missed_events = False
                self._collect(Membership.renewed)
        if now - self._all_delivered_at > _UNAVAILABLE_AFTER_SECONDS:
            self._has_missed_events = True  # heartbeats that are sent too late are useless
        elif self._close_deadline is None:
            self._collect(Membership.due)
        self._send(self._producer)

    def _collect(self, events: Callable[[Membership, ClockReading], list[Event]]) -> None:
        with self._lock:
            consumers = list(self._consumers)
        for consumer in consumers:
            consumer.report_unchanged()
            self._waiting_events.extend(events(consumer.membership, read_clocks()))

    def _send(self, producer: "EventProducer") -> None:
        """Pass events to the client library, up to its limit of events in flight."""
        while len(producer.client) < _MAX_IN_FLIGHT and (self._next or self._waiting_events):
            event = self._next = self._next or self._waiting_events.popleft()
            try:
                producer.send(event)
            except OutsideFailure:
                raise
            except Exception:
                self._next = None  # the event can't be encoded
                raise
            self._next = None

    def _is_delivered(self) -> bool:
        undelivered_count = 0 if self._producer is None else len(self._producer.client)
        return not undelivered_count and self._next is None and not self._waiting_events


@contextmanager
def _logging_errors() -> Iterator[None]:
    """Log errors instead of raising them into the application."""
    try:
        yield
    except Exception:  # noqa: BLE001 - every error
        _log.exception("this consumer is not reported to the monitor")


class MembershipReporter:
    """Reports one consumer's membership to the monitor.

    ``read_member`` returns the client's member id and generation, and is called only in callbacks.
    ``read_stable_member`` returns them in another thread, if the client allows that; None while in no generation.
    """

    def __init__(
        self,
        outbox: EventOutbox,
        template: MemberJoined,
        read_member: Callable[[], tuple[str, int]],
        read_stable_member: Callable[[], tuple[str, int] | None] | None = None,
    ) -> None:
        self.membership = Membership(template)
        self._outbox, self._read_member, self._read_stable_member = outbox, read_member, read_stable_member
        self._last_member: tuple[str, int] | None = None

    @_logging_errors()
    def subscribed(self, topics: Iterable[str]) -> None:
        """Report the consumer's subscription to these topics; ``topics`` is empty for a pattern."""
        self._outbox.put(self.membership.subscribed(topics, read_clocks()))
        self._outbox.add(self)

    @_logging_errors()
    def assigned(self, partitions: Iterable[Any]) -> None:
        """Report partitions that the consumer has been assigned."""
        self._outbox.put(self.membership.assigned(_topic_partitions(partitions), *self._read_member(), read_clocks()))

    @_logging_errors()
    def revoked(self, partitions: Iterable[Any]) -> None:
        """Report partitions that the consumer has revoked."""
        self._outbox.put(self.membership.revoked(_topic_partitions(partitions), self._read_member()[1], read_clocks()))

    @_logging_errors()
    def lost(self, _: Iterable[Any]) -> None:
        """Report that the consumer has lost its partitions."""
        self._outbox.put(self.membership.lost(read_clocks()))

    @_logging_errors()
    def _report_leave(self, reason: str) -> None:
        self._outbox.put(self.membership.left(reason, read_clocks()))

    @contextmanager
    def leaving(self, reason: str) -> Iterator[None]:
        """Report that the consumer leaves its group during this ``with`` block."""
        self.membership.leaves()
        try:
            yield
        finally:
            self._report_leave(reason)

    @_logging_errors()
    def report_unchanged(self) -> None:
        """Report a generation without a change of the consumer's assignment; called on the thread that sends events."""
        member = None if self._read_stable_member is None else self._read_stable_member()
        # When a generation is first seen, its callbacks may not have been called yet.
        if member is not None and member == self._last_member:
            self._outbox.put(self.membership.seen(*member, read_clocks()))
        self._last_member = member


def reporter(
    outbox: EventOutbox,
    template: Callable[[], MemberJoined | None],
    read_member: Callable[[], tuple[str, int]],
    read_stable_member: Callable[[], tuple[str, int] | None] | None = None,
) -> MembershipReporter | None:
    """Return a consumer's reporter; None if the consumer has no group or its configuration can't be read."""
    with _logging_errors():
        if (consumer := template()) is not None:
            return MembershipReporter(outbox, consumer, read_member, read_stable_member)
    return None


def _topic_partitions(partitions: Iterable[Any]) -> list[Place]:
    return [(partition.topic, partition.partition) for partition in partitions]


class ReportingMixin:
    """Mixin for consumer classes: reports when the consumer leaves its group."""

    _outbox: EventOutbox
    _reporter: MembershipReporter | None

    def unsubscribe(self) -> None:
        """Leave the group."""
        with self._report_leaving("the consumer unsubscribed"):
            super().unsubscribe()  # type: ignore[misc] # of the class that comes after this one

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """Leave the group and end the client."""
        with self._report_leaving("the consumer was closed"):
            return super().close(*args, **kwargs)  # type: ignore[misc] # as above

    def _report_leaving(self, reason: str) -> AbstractContextManager[None]:
        return nullcontext() if self._reporter is None else self._reporter.leaving(reason)


_Consumer = TypeVar("_Consumer")


class Listener:
    """Reports all consumers of an application to the monitor, until the process ends.

    ``monitor``: bootstrap servers of the monitor's cluster, or all settings (:func:`streaming.load`) of a secured
    cluster. The constructor raises InvalidSettings if a setting is wrong; no method raises an error later.
    """

    def __init__(self, monitor: "str | Settings", *, topic_prefix: str | None = None) -> None:
        if isinstance(monitor, str):
            from streaming.settings.config import load

            monitor = load(bootstrap_servers=monitor, topic_prefix=topic_prefix)
        self._outbox = EventOutbox(monitor)
        atexit.register(self.close)

    def wrap(self, consumer: type[_Consumer]) -> type[_Consumer]:
        """Return a subclass of the consumer class that also reports; its arguments and behaviour are the same.

        Raises BadInput if ``consumer`` is not a class of confluent-kafka or kafka-python.
        """
        packages = {base.__module__.partition(".")[0] for base in consumer.__mro__}
        mixin_class: type[ReportingMixin]
        if packages & {"confluent_kafka", "cimpl"}:
            from streaming.listener.confluent import ConfluentReporting

            mixin_class = ConfluentReporting
        elif "kafka" in packages:
            from streaming.listener.kafka_python import KafkaPythonReporting

            mixin_class = KafkaPythonReporting
        else:
            raise BadInput(f"{consumer.__name__} is not a consumer of confluent-kafka or kafka-python")
        return type(consumer.__name__, (mixin_class, consumer), {"_outbox": self._outbox, "__doc__": consumer.__doc__})

    def close(self, timeout: float = 2.0) -> None:
        """Send the remaining events, such as leaves, for at most ``timeout`` seconds."""
        atexit.unregister(self.close)
        self._outbox.close(timeout)
