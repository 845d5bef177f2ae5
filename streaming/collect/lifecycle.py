"""Parts that both collectors share: which groups, when to reconnect, and how a collector ends."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from streaming.kafka.access import refusal
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.metadata import IdentityWatch, identify

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


def group_filter(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Return a filter for group ids: a full match of one of ``include`` and none of ``exclude``.

    ``.`` matches any character, as group ids may contain line breaks.
    """
    included = [re.compile(pattern, re.DOTALL) for pattern in include]
    excluded = [re.compile(pattern, re.DOTALL) for pattern in exclude]

    @cache
    def is_wanted(group_id: str) -> bool:
        return any(pattern.fullmatch(group_id) for pattern in included) and not any(
            pattern.fullmatch(group_id) for pattern in excluded
        )

    return is_wanted


def run_until_stopped(stop: threading.Event, settings: Settings, collect: Callable[[], None]) -> None:
    """Call ``collect`` until ``stop`` is set; it returns earlier when it has to reconnect.

    Raises:
        ClusterUnavailable: the cluster does not answer.
        NotAllowed: an ACL is missing, or was removed.
    """
    from confluent_kafka import KafkaException

    try:
        collect()
        while not stop.is_set():
            collect()
        _log.info("stopped")
    except KafkaException as error:
        raise refusal(error.args[0], settings, "collect") or ClusterUnavailable(
            f"bootstrap_servers {settings.kafka.bootstrap_servers}: {error.args[0].str()}; "
            "started again, the collector goes on where it stopped"
        ) from error


class MembershipTopicWatch:
    """Detects that the membership topic was deleted and created again: readers of the new one have no state.

    Args:
        settings: the cluster, the topic, and how often to check.

    Raises:
        ClusterUnavailable: the cluster does not describe the topic.
    """

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topics.membership
        self._first = identify(settings.kafka, [self._topic])[self._topic]
        every = settings.collect.metadata_interval_ms / 1000
        self._watch = IdentityWatch(settings.kafka, [self._topic], every=every)

    def is_recreated(self, now: float) -> bool:
        """True if another topic has the name now; a deleted topic is waited for.

        Args:
            now: seconds, on any clock.
        """
        identity = (self._watch.look(now) or {}).get(self._topic)
        if identity is None or self._first is None or identity.topic_id == self._first.topic_id:
            return False
        _log.warning("topic %s was created again: its groups get new partition counts", self._topic)
        return True
