"""What consumers have told and the monitor's cluster has not: a bounded queue, and the thread that empties it.

The cluster may be away for as long as it likes: the newest :data:`KEPT` events are kept, in order, and once it is
back each member says its newest state. Nothing here waits in a thread of the application.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from assignors.errors import OutsideFailure
from streaming.listener.membership import Membership, Moment
from streaming.wire.events import Event

if TYPE_CHECKING:
    from streaming.kafka.producer import EventProducer
    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


def moment() -> Moment:
    """Now."""
    return Moment(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)


#: Events that are kept while the cluster does not take them: some hundred bytes each.
KEPT: Final = 1_000
_IN_FLIGHT: Final = 100  # of these, those that are with the client library
_LOOK_SECONDS: Final = 0.25  # between two looks at what is due
_AWAY_SECONDS: Final = 3.0  # a cluster that takes nothing for so long is away
_LAST_LOOK_SECONDS: Final = 0.02  # as _LOOK_SECONDS, while it closes
_AGAIN_SECONDS: Final = 1.0  # until a cluster that is away is asked again


class Speaker:
    """A consumer that is listened to.

    Attributes:
        membership: of the consumer in its group.
    """

    def __init__(self, membership: Membership) -> None:
        self.membership = membership

    def look(self) -> None:
        """Take note of what the client knows without having called back; called from the listener's thread."""


class Outbox:
    """Takes events from any thread, and sends them from its own.

    Args:
        settings: the monitor's cluster.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: deque[Event] = deque(maxlen=KEPT)
        #: Taken from the queue, and not taken by the client library.
        self._next: Event | None = None
        self._speakers: WeakSet[Speaker] = WeakSet()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._close_by: float | None = None
        self._thread: threading.Thread | None = None
        self._producer: EventProducer | None = None
        #: When everything had last been delivered; whether something was not since then.
        self._clear = time.monotonic()
        self._missed = False
        self._said = ""

    def add(self, speaker: Speaker) -> None:
        """Listen to a consumer from now on, for as long as it exists."""
        with self._lock:
            self._speakers.add(speaker)
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
        """What the client library has not been given yet, oldest first."""
        return list(self._waiting)

    def speakers(self) -> list[Speaker]:
        """The consumers that are listened to."""
        with self._lock:
            return list(self._speakers)

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
                if str(error) != self._said and not self._given_up():  # once, until something else happens
                    self._said = str(error)
                    _log.warning("the monitor is not told: %s", error)
                if self._close_by is None:
                    time.sleep(_AGAIN_SECONDS)

    def _given_up(self) -> bool:
        """Whether it is closed, and nobody waits for it any more."""
        return self._close_by is not None and time.monotonic() >= self._close_by

    def _round(self) -> None:
        if self._producer is None:
            self._producer = _producer(
                self._settings
            )  # before there is something to say: then it is told at once
        self._producer.client.poll(0)
        now = time.monotonic()
        if self._delivered():
            self._clear = now
            if self._missed and self._close_by is None:
                self._missed = False
                self._say(lambda membership: membership.renewed(moment()))
        if now - self._clear > _AWAY_SECONDS:
            self._missed = True  # that a member lived meanwhile, nobody asks later
        elif self._close_by is None:
            self._say(lambda membership: membership.due(moment()))
        self._send()

    def _say(self, what: Callable[[Membership], list[Event]]) -> None:
        for speaker in self.speakers():
            speaker.look()
            self._waiting.extend(what(speaker.membership))

    def _send(self) -> None:
        """Give the client library what it may have.

        Raises:
            OutsideFailure: the cluster is away, or does not take a record.
        """
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
        """Whether there is nothing left to send."""
        in_flight = 0 if self._producer is None else len(self._producer.client)
        return not in_flight and self._next is None and not self._waiting


def _producer(settings: Settings) -> EventProducer:
    from streaming.kafka.producer import EventProducer

    # What the library has taken keeps its place however long the cluster is away.
    producer = EventProducer(settings, {"delivery.timeout.ms": 0})
    producer.prepare()
    return producer
