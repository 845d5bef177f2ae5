"""Heartbeats of the monitor's components: written by each of them, tracked by whoever shows data.

A heartbeat never stops its component: what keeps it from being written is a warning.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from assignors.errors import MonitorError, OutsideFailure
from streaming.freshness.sign import MalformedSign, PartName, Sign, check_credible, decoded, encoded
from streaming.freshness.verdict import CONFIRMED, Freshness, LastSign, Limits, judge, unreachable
from streaming.kafka import background_reader
from streaming.kafka.access import Permission, denied
from streaming.kafka.background_reader import Listening
from streaming.kafka.clients import confluent_config
from streaming.kafka.metadata import IdentityWatch, identify
from streaming.kafka.topic_reader import TopicReader
from streaming.kafka.topics import create_signs

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from streaming.kafka.metadata import Identity
    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)
_LATE_SECONDS: Final = (
    10.0  # a sign not delivered by then goes with its client, which may have lost its brokers
)
_LOOK_SECONDS: Final = 2.0  # between two looks whether the topic is there
_MAKE_EVERY_SECONDS: Final = 30.0  # between two tries to make it
_MAKE_SECONDS: Final = 5.0  # that one of them may take
_LAST_SECONDS: Final = 2.0  # for the last sign, of a part that ends
_WITHOUT: Final = "without it nobody can tell when this part stops"


class SignWriter:
    """One part's signs; makes the topic when it is missing.

    Args:
        settings: the cluster, the topic, and how often.
        part: its kind.
        part_id: which one of this kind.
        by: how a collector sees groups.
    """

    def __init__(
        self,
        settings: Settings,
        part: PartName,
        part_id: str,
        *,
        by: Literal["offsets", "polling"] | None = None,
    ) -> None:
        self._settings = settings
        self._topic = settings.topics.signs
        self._every = settings.signs.every_ms / 1000
        self._said: str | None = None
        self._there = False
        self._tried = float("-inf")
        self._next = float("-inf")
        self._watch = IdentityWatch(settings.kafka, [self._topic], every=_LOOK_SECONDS)
        self._producer = self._connect()
        self._delivered = time.monotonic()
        now = _now_ms()
        self._sign = Sign(
            part=part,
            id=part_id,
            state="running",
            timestamp=now,
            up_to=now,
            every_ms=settings.signs.every_ms,
            by=by,
        )

    def tell(self, *, up_to: float | None, positions: Mapping[int, int] | None = None) -> None:
        """Leave a sign if it is time for one; never waits for it to be delivered. Call it again and again.

        Args:
            up_to: everything that happened until then (seconds since the epoch) has gone through the part; None:
                no more than at the sign before.
            positions: the next offset of each partition that it reads.
        """
        now = time.monotonic()
        if now < self._next or not self._is_there(now):
            return
        self._next = now + self._every
        self._write("running", up_to, positions, now)

    def stopped(self) -> None:
        """Leave the last sign: the part ends in order. Waits a moment for it to be delivered."""
        if not self._there:
            return
        self._write("stopped", None, None, time.monotonic())
        self._producer.flush(_LAST_SECONDS)

    def _write(
        self,
        state: Literal["running", "stopped"],
        up_to: float | None,
        positions: Mapping[int, int] | None,
        now: float,
    ) -> None:
        from msgspec import structs

        self._producer.poll(0)
        if not len(self._producer):
            self._delivered = now
        elif now - self._delivered > _LATE_SECONDS:
            self._producer, self._delivered = self._connect(), now
        reached = self._sign.up_to if up_to is None else max(self._sign.up_to, int(up_to * 1000))
        kept = self._sign.positions if positions is None else dict(positions)
        self._sign = structs.replace(
            self._sign, state=state, timestamp=_now_ms(), up_to=reached, positions=kept
        )
        key, value, headers = encoded(self._sign)
        try:
            self._producer.produce(self._topic, key=key, value=value, headers=headers, on_delivery=self._told)
        except BufferError:  # the cluster is away: the next sign says it all
            return
        self._producer.poll(0)

    def _connect(self) -> Producer:
        from confluent_kafka import Producer

        late = {"linger.ms": 0, "delivery.timeout.ms": int(_LATE_SECONDS * 1000)}
        return Producer(confluent_config(self._settings.kafka) | late)

    def _is_there(self, now: float) -> bool:
        """Whether the topic was there when it was last looked for, which waits for nothing."""
        found = self._watch.look(now)
        if found is not None:
            self._there = self._seen(found, now)
        return self._there

    def _seen(self, found: Mapping[str, Identity | None], now: float) -> bool:
        """Make the topic if it is missing, now and then; whether it is there."""
        from confluent_kafka import KafkaException

        if self._topic not in found:
            self._say(denied(self._settings.kafka, Permission("Write", self._topic), _WITHOUT))
        elif found[self._topic] is not None:
            return True
        elif now - self._tried >= _MAKE_EVERY_SECONDS:
            self._tried = now
            try:
                create_signs(self._settings, timeout=_MAKE_SECONDS)
            except (MonitorError, KafkaException) as error:
                self._say(f"{error}; {_WITHOUT}")
        return False

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._say(None)
        elif error.name() == "TOPIC_AUTHORIZATION_FAILED":
            self._say(denied(self._settings.kafka, Permission("Write", self._topic), _WITHOUT))
        # A cluster that is away is told by the part itself.

    def _say(self, trouble: str | None) -> None:
        """Warn of what keeps signs from being written, once, and tell when it is over."""
        if trouble == self._said:
            return
        if trouble is None:
            _log.info("topic %s: signs of life are written", self._topic)
        else:
            _log.warning("no sign of life is left: %s", trouble)
        self._said = trouble


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _View(NamedTuple):
    """What the thread knows, handed over as one.

    Attributes:
        heard: the newest sign of each part.
        contact: since when everything is heard, on the clock that only goes forward; None while that is not so.
        silent_since: when the cluster was last heard (s since the epoch), while it does not answer.
        deaf: whether the topic can't be read: nothing is claimed.
    """

    heard: Mapping[str, LastSign] = {}
    contact: float | None = None
    silent_since: float | None = None
    deaf: bool = False


_BATCH: Final = 1000
#: The longest that nothing can be said, at a start and while reading fails.
_OPEN_SECONDS: Final = 15.0
#: What arrives so soon after the cluster answers may be older than that.
_SETTLE_SECONDS: Final = 3.0
#: Parts that are told apart: others' records can't fill the memory.
MOST_PARTS: Final = 1000


class Hearing(Listening):
    """Hears the signs while its ``with`` block lasts.

    Args:
        settings: the cluster, the topic, and how long a part may be silent.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            settings.topics.signs, "signs of life", without=", nobody can tell whether all parts live"
        )
        self._settings = settings
        given = settings.signs
        self._limits = Limits(
            given.silent_after_ms / 1000, given.behind_after_ms / 1000, given.forget_after_ms / 1000
        )
        self._view = _View()
        self._began = time.monotonic()

    def freshness(self, now: float) -> Freshness:
        """What the signs tell at ``now``, in seconds of the monotonic clock; may be called from any thread."""
        view = self._view
        if view.deaf:
            return Freshness()
        if view.contact is None and view.silent_since is None:
            return Freshness(known=now - self._began > _OPEN_SECONDS)
        found = judge(view.heard.values(), now, now if view.contact is None else view.contact, self._limits)
        return found if view.silent_since is None else unreachable(found, int(view.silent_since * 1000))

    def deaf(self) -> None:
        """Claim nothing."""
        self._view = _View(deaf=True)

    def listen(self) -> None:
        """Hear what comes."""
        with TopicReader(
            self._settings.kafka,
            [self.topic],
            wait=True,
            follow=True,
            properties={"fetch.wait.max.ms": 500},
        ) as reader:
            ids = reader.ids
            while not self.stopping.is_set():
                behind = not reader.at_end
                messages = reader.poll(background_reader.POLL_SECONDS, _BATCH)
                if reader.ids != ids:  # made again: the parts leave new signs
                    ids = reader.ids
                    self._view = self._view._replace(heard={})
                self._take(messages, behind=behind)
                self._stand(reader)

    def _stand(self, reader: TopicReader) -> None:
        """Note whether all there is to hear is heard."""
        if reader.missing or reader.leaderless:
            self._view = self._view._replace(contact=None, silent_since=None, deaf=True)
            return
        if reader.silent_since is not None:
            self._view = self._view._replace(contact=None, silent_since=reader.silent_since, deaf=False)
            return
        contact = self._view.contact
        if contact is None and reader.at_end:
            contact = time.monotonic()
            if not self._view.heard:
                _log.info("topic %s: no sign of life yet, of no part", self.topic)
        self._view = self._view._replace(contact=contact, silent_since=None, deaf=False)
        self.say(None)

    def _take(self, messages: list[Message], *, behind: bool) -> None:
        now, ms = time.monotonic(), time.time_ns() // 1_000_000
        contact = self._view.contact
        old = behind or contact is None or now - contact < _SETTLE_SECONDS
        heard = dict(self._view.heard)
        for message in messages:
            key, value = message.key(), message.value()
            if value is None:
                heard.pop((key or b"").decode(errors="replace"), None)
                continue
            try:
                sign = decoded(key, value)
                check_credible(sign, message.timestamp()[1], ms)
            except MalformedSign as problem:
                self.say_odd(f"partition {message.partition()} offset {message.offset()}: {problem}")
                continue
            written, partition = message.timestamp()[1], message.partition() or 0
            known = heard.get(sign.key)
            if known is None and len(heard) >= MOST_PARTS:
                self.say_odd(f"more than {MOST_PARTS} parts; the others are not heard")
                continue
            if known is not None and known.partition != partition and written < known.written:
                continue  # from before the topic got more partitions
            age = max(0, ms - written) if old else 0
            count = min(CONFIRMED, 1 + (0 if known is None else known.signs))
            heard[sign.key] = LastSign(sign, now - age / 1000, ms - age, count, written, partition)
        if messages:
            self._view = self._view._replace(heard=heard)


#: Heartbeats that may be missed before a collector counts as gone.
_MISSED: Final = 2
#: A collector whose last heartbeat is this many intervals old is not waited for.
_LONG_GONE: Final = 20
_CHECK_POLL_SECONDS: Final = 0.2
_CHECK_BATCH: Final = 500


class CollectorRunning(OutsideFailure):
    """A collector with the same id is running."""


def require_no_collector(settings: Settings, stop: threading.Event) -> None:
    """Return once it is certain that no collector with this id leaves heartbeats.

    A collector that crashed has left a heartbeat that says "running": whether another one follows is waited for, so
    that no two clocks are compared.

    Args:
        settings: the cluster, the topic of heartbeats and the collector's id.
        stop: set to wait no longer.

    Raises:
        CollectorRunning: another heartbeat has arrived.
    """
    topic = settings.topics.signs
    if identify(settings.kafka, [topic]).get(topic) is None:
        return
    key = f"collector/{settings.collector_id}".encode()
    with TopicReader(settings.kafka, [topic]) as reader:
        last, age = None, 0.0
        while not reader.at_end and not stop.is_set():
            last, age = _newest_heartbeat(reader, key) or (last, age)
        if last is None or last.state == "stopped" or age > _LONG_GONE * last.every_ms / 1000:
            return
        by = time.monotonic() + _MISSED * last.every_ms / 1000
        while time.monotonic() < by and not stop.is_set():
            found = _newest_heartbeat(reader, key)
            if found is not None and found[0].state == "stopped":
                return
            if found is not None:
                raise CollectorRunning(
                    f"collector {settings.collector_id} is running on this cluster and would be ended: stop it, or "
                    "start with --take-over, or use another --topic-prefix or collect.group_id"
                )


def _newest_heartbeat(reader: TopicReader, key: bytes) -> tuple[Sign, float] | None:
    """The newest heartbeat under a key among the next records, and its age in seconds by the broker's clock."""
    newest = None
    for message in reader.poll(_CHECK_POLL_SECONDS, _CHECK_BATCH):
        value = message.value()
        if message.key() != key or value is None:
            continue
        try:
            newest = decoded(key, value), time.time() - message.timestamp()[1] / 1000
        except MalformedSign:  # somebody else's record; `serve` names it
            continue
    return newest
