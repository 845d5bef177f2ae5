"""Whether the membership topic was made again: the stream that reads the new one knows nothing of the old one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from streaming.kafka.metadata import IdentityWatch, identify

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


class Remade:
    """Compares the membership topic with the one that was there when this was made.

    Args:
        settings: the cluster, the topic, and how often to look.

    Raises:
        ClusterUnavailable: the cluster does not say which topic there is.
    """

    def __init__(self, settings: Settings) -> None:
        names = [settings.topics.membership]
        self._before = identify(settings.kafka, names)
        every = settings.collect.metadata_interval_ms / 1000
        self._watch = IdentityWatch(settings.kafka, names, every=every)

    def seen(self, now: float) -> bool:
        """Whether another topic stands there now; a topic that is gone is waited for.

        Args:
            now: seconds, on any clock.
        """
        found = self._watch.look(now) or {}
        remade = [
            name
            for name, one in found.items()
            if one and (self._before[name] or one).topic_id != one.topic_id
        ]
        for name in remade:
            _log.warning("topic %s was made again: groups are told their partition counts anew", name)
        return bool(remade)
