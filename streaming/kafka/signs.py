"""Leaves a part's signs of life in their topic, so that whoever shows data can tell how old it is.

A sign never costs the part its work: what keeps it from being written is a warning, and the part goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from assignors.errors import MonitorError
from streaming.freshness.sign import PartName, Sign, encoded
from streaming.kafka.access import Permission, denied
from streaming.kafka.clients import confluent_config
from streaming.kafka.identity import IdentityWatch
from streaming.kafka.topics import create_signs

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from streaming.kafka.identity import Identity
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
