"""Listens to the parts' signs of life, on a thread of its own: what they tell is there for whoever shows data."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from streaming.freshness.sign import MalformedSign, check_credible, decoded
from streaming.freshness.verdict import CONFIRMED, Freshness, LastSign, Limits, judge, unreachable
from streaming.kafka import listening
from streaming.kafka.listening import Listening
from streaming.kafka.topic_reader import TopicReader

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


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
                messages = reader.poll(listening.POLL_SECONDS, _BATCH)
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
