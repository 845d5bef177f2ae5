"""Following one topic on a thread of its own, for those who go on without it where it can't be read."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Final, Self

from streaming.kafka.access import NotAllowed
from streaming.process.plain import printable

_log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
#: Until it is tried again after the topic could not be read.
AGAIN_SECONDS: Final = 10.0
#: For the thread to end; it is no reason to stay.
_END_SECONDS: Final = 5.0


class Listening(ABC):
    """Listens while its ``with`` block lasts, and begins again where that fails.

    Args:
        topic: what is followed.
        what: what it holds, as the log calls it ("signs of life are read").
        without: what follows where it can't be read, for the log.
    """

    def __init__(self, topic: str, what: str, *, without: str = "") -> None:
        self.topic = topic
        self._what, self._without = what, without
        self._said: str | None = None
        self._odd = False
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=topic, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)

    @abstractmethod
    def listen(self) -> None:
        """Read the topic until :attr:`stopping` is set."""

    @abstractmethod
    def deaf(self) -> None:
        """Take note that the topic can't be read."""

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.listen()
            except Exception as error:  # noqa: BLE001 - a thread that ended unseen would leave what seems new
                self.deaf()
                self.say(str(error) if isinstance(error, NotAllowed) else f"{type(error).__name__}: {error}")
                self.stopping.wait(AGAIN_SECONDS)

    def say(self, trouble: str | None) -> None:
        """Log that the topic is read (None), or why it is not; once, until that changes."""
        if trouble == self._said:
            return
        if trouble is None:
            _log.info("topic %s: %s are read", self.topic, self._what)
        else:
            _log.warning("%s are not read%s: %s", self._what, self._without, trouble)
        self._said = trouble

    def say_odd(self, problem: str) -> None:
        """Log the first record that is of no use: there may be many."""
        if not self._odd:
            self._odd = True
            _log.warning("topic %s: %s", self.topic, printable(problem))
