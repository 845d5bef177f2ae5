"""Why: the broker's own reasons, where its log is at hand, before what offset commits suggest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import UNSET, structs

from streaming.collect.commits import unexplained
from streaming.collect.coordinator_log import SOURCE, CoordinatorLog
from streaming.collect.holdings import COOPERATIVE
from streaming.collect.log_tail import LogTail
from streaming.wire.events import Event, GroupChanged, GroupObserved, PartitionsStopped


def explained(event: Event, log: CoordinatorLog, after: int | None = None) -> Event:
    """The event with what was logged about its generation or epoch; every step of one epoch gets the same.

    Args:
        event: of the collector.
        log: what brokers logged.
        after: the generation, or epoch, of the group's view before; None where there was none. Those between were
            never whole: more members came or went before they were. What was logged about them led to this one too.
    """
    data = event.data
    if not isinstance(data, GroupObserved | GroupChanged):
        return event
    number = data.group_epoch
    if isinstance(data, GroupObserved) and not data.counts_epochs:
        number = data.generation
    logged = log.evidence(data.group_id, number or 0, after)
    if not logged:
        return event
    evidence = [*logged, *unexplained(data.evidence, logged)]
    return structs.replace(event, data=structs.replace(data, evidence=evidence))


def witnessed(event: Event, log: CoordinatorLog) -> Event | None:
    """What was logged of when the members of an eager group stopped for a generation; None: nothing."""
    data = event.data
    if not isinstance(data, GroupObserved) or data.counts_epochs or data.protocol == COOPERATIVE:
        return None
    if data.generation is None or data.kind is not UNSET:
        return None
    stop = log.phases.stop(data.group_id, data.generation, data.timestamp)
    if stop is None:
        return None
    stopped = PartitionsStopped(
        group_id=data.group_id,
        timestamp=data.timestamp,
        source=SOURCE,
        stops=[stop],
        generation=data.generation,
    )
    return Event(event.source, f"{event.id}/joined", stopped)


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

    def explained(self, event: Event, after: int | None = None) -> Event:
        """The event with what was logged about it so far; see :func:`explained`."""
        return explained(event, self._log, after)

    def witnessed(self, event: Event) -> Event | None:
        """What was logged so far of when members stopped for the generation of an event, as an event of its own."""
        return witnessed(event, self._log)

    def close(self) -> None:
        """Let go of the files."""
        for tail in self._tails:
            tail.close()
