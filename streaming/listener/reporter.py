"""Between a client's callbacks and the outbox: takes what they give, and never fails in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from streaming.listener.membership import About, Membership, Place
from streaming.listener.outbox import Outbox, Speaker, moment

_log = logging.getLogger(__name__)


@contextmanager
def _safely() -> Iterator[None]:
    """What goes wrong in here is logged in place of being raised into the application."""
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever it is
        _log.exception("the monitor is not told of this consumer")


class Reporter(Speaker):
    """Tells of one consumer.

    Args:
        outbox: sends what is told.
        about: the consumer's configuration.
        where: the member id and the generation that its client is in now; called in callbacks only.
        look: the same, or None while it is in no generation; called from another thread, so only clients that take
            such calls have it.
    """

    def __init__(
        self,
        outbox: Outbox,
        about: About,
        where: Callable[[], tuple[str, int]],
        look: Callable[[], tuple[str, int] | None] | None = None,
    ) -> None:
        super().__init__(Membership(about))
        self._outbox = outbox
        self._where = where
        self._look = look
        self._looked: tuple[str, int] | None = None

    def subscribed(self, topics: Iterable[str]) -> None:
        """It subscribes to these topics; to none where it names them by a pattern."""
        with _safely():
            self._outbox.put(self.membership.subscribed(topics, moment()))
            self._outbox.add(self)

    def assigned(self, partitions: Iterable[Any]) -> None:
        """It was given partitions."""
        with _safely():
            self._outbox.put(self.membership.assigned(_places(partitions), *self._where(), moment()))

    def revoked(self, partitions: Iterable[Any]) -> None:
        """It has given partitions up."""
        with _safely():
            self._outbox.put(self.membership.revoked(_places(partitions), self._where()[1], moment()))

    def lost(self, _: Iterable[Any]) -> None:
        """Its partitions are lost."""
        with _safely():
            self._outbox.put(self.membership.lost(moment()))

    def leaves(self) -> None:
        """It is about to leave."""
        with _safely():
            self.membership.leaves()

    def left(self, reason: str) -> None:
        """It has left."""
        with _safely():
            self._outbox.put(self.membership.left(reason, moment()))

    def look(self) -> None:
        """Take note of a generation that changed nothing for the consumer."""
        with _safely():
            where = None if self._look is None else self._look()
            # Seen for the first time, its callbacks may be still to come.
            if where is not None and where == self._looked:
                self._outbox.put(self.membership.seen(*where, moment()))
            self._looked = where


def reporter(
    outbox: Outbox,
    about: Callable[[], About | None],
    where: Callable[[], tuple[str, int]],
    look: Callable[[], tuple[str, int] | None] | None = None,
) -> Reporter | None:
    """The reporter of a consumer; None where it is in no group, or its configuration is not understood."""
    with _safely():
        if (known := about()) is not None:
            return Reporter(outbox, known, where, look)
    return None


def _places(partitions: Iterable[Any]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]


@contextmanager
def leaving(reporter: Reporter | None, reason: str) -> Iterator[None]:
    """Around what takes a consumer out of its group; None: nobody listens to it."""
    if reporter is not None:
        reporter.leaves()
    try:
        yield
    finally:
        if reporter is not None:
            reporter.left(reason)
