"""Why: the broker's own reasons, where its log is at hand, before what offset commits suggest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from streaming.collect.commits import unexplained
from streaming.collect.coordinator_log import CoordinatorLog
from streaming.collect.log_tail import LogTail
from streaming.wire.events import Event, GroupObserved


def explained(event: Event, log: CoordinatorLog) -> Event:
    """The event with what was logged about its generation or epoch; every step of one epoch gets the same."""
    data = event.data
    if not isinstance(data, GroupObserved):
        return event
    number = data.group_epoch if data.counts_epochs else data.generation
    logged = log.evidence(data.group_id, number or 0)
    if not logged:
        return event
    evidence = [*logged, *unexplained(data.evidence, logged)]
    return structs.replace(event, data=structs.replace(data, evidence=evidence))


class Reasons:
    """Follows brokers' logs.

    Raises:
        LogUnreadable: one is there but may not be read.
    """

    def __init__(self, logs: Iterable[Path]) -> None:
        self._tails = [LogTail(path) for path in logs]
        self._log = CoordinatorLog()

    def listen(self) -> None:
        """Take in what was logged since."""
        for tail in self._tails:
            for line in tail.lines():
                self._log.feed(line)

    def explained(self, event: Event) -> Event:
        """The event with what was logged about it so far."""
        return explained(event, self._log)

    def close(self) -> None:
        """Let go of the files."""
        for tail in self._tails:
            tail.close()
