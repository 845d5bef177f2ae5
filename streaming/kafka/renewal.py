"""Whether the files of ``[kafka]`` hold other secrets and certificates than the clients were made with.

Clients read theirs when they are made, librdkafka's and Java's alike; only tokens of OAUTHBEARER are renewed by the
clients themselves. So whoever holds clients looks now and then, and replaces them.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streaming.settings.connection import KafkaSettings

log = logging.getLogger(__name__)

#: Seconds between two looks at the files.
LOOK_SECONDS: Final = 2.0


class Renewal:
    """Compares what the files hold with what they held before.

    Args:
        settings: those that name the files.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._known = self._held()
        self._said = ""
        self._next = float("-inf")

    def renewed(self, now: float) -> bool:
        """Whether they hold something else since it was last said, and it can be used.

        What can't is told once and waited for: a certificate may be replaced a moment before its key.

        Args:
            now: seconds, on any clock.
        """
        if now < self._next or not self._settings.files:
            return False
        self._next = now + LOOK_SECONDS
        try:
            held = self._held()
            if held == self._known:
                return False
            self._settings.require_files()
        except (OSError, ValueError) as error:
            if str(error) != self._said:
                log.warning("what was put in place of a secret or certificate can't be used yet: %s", error)
            self._said = str(error)
            return False
        self._known, self._said = held, ""
        log.info("new secrets or certificates: connecting again with them")
        return True

    def _held(self) -> dict[str, str]:
        files = self._settings.files.items()
        return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files}
