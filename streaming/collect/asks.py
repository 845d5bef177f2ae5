"""Readers of changes that lack the view these follow from: they ask for it in the membership topic."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.topic_reader import TopicReader
from streaming.wire.events import TYPE_NAMES, GroupAsked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)
_TYPE: Final = ("ce_type", TYPE_NAMES[GroupAsked].encode())
#: Records read at once: only their headers are looked at.
_AT_ONCE: Final = 2000


class Asks:
    """Hears who asks. It reads nothing before there is a change to ask about.

    Args:
        settings: the cluster and the topic.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader: TopicReader | None = None

    def begin(self) -> None:
        """Listen from now on: called before the first change is published, and each time after it.

        Raises:
            NotAllowed: this user may not read the topic.
        """
        if self._reader is not None:
            return
        kafka, topic = self._settings.kafka, self._settings.topics.membership
        try:
            self._reader = TopicReader(kafka, [topic], from_beginning=False, wait=True, follow=True)
        except ClusterUnavailable as error:  # publishing waits for it, too
            _log.warning("who asks for full views is not heard: %s", error)

    def heard(self) -> dict[str, str]:
        """Who was asked about since the last call, each with what names the question.

        Raises:
            NotAllowed: this user may not read the topic any more.
        """
        return {} if self._reader is None else asked(self._reader.poll(0, _AT_ONCE))

    def close(self) -> None:
        """Give the connections back."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def asked(messages: Iterable[Message]) -> dict[str, str]:
    """The groups that these records ask about, each with the place of the last that does."""
    found = {}
    for message in messages:
        if _TYPE not in (message.headers() or ()):
            continue
        try:
            group_id = (message.key() or b"").decode()
        except UnicodeDecodeError:  # the stream sends it to the dead letters
            continue
        found[group_id] = f"{message.partition()}:{message.offset()}"
    return found
