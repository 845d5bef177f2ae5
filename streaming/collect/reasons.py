"""Why: the broker's own reasons, where its log is at hand, before what offset commits suggest."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from msgspec import UNSET, structs

from streaming.collect.broker_log.group_reasons import SOURCE, GroupReasons
from streaming.collect.broker_log.log import BrokerLog, LogCounts
from streaming.collect.broker_log.tail import LogTail
from streaming.collect.commits import unexplained
from streaming.collect.holdings import COOPERATIVE
from streaming.records.events import Event, GroupObserved, PartitionsStopped

_log = logging.getLogger(__name__)


def explained(event: Event, reasons: GroupReasons, after: int | None = None) -> Event:
    """Return the event with what was logged about its generation or epoch; every step of one epoch gets the same.

    Args:
        event: of the collector.
        reasons: what brokers logged.
        after: the generation, or epoch, of the group's view before; None where there was none. Those between were
            never whole: more members came or went before they were. What was logged about them led to this one too.
    """
    data = event.data
    if not isinstance(data, GroupObserved):
        return event
    number = data.group_epoch if data.counts_epochs else data.generation
    logged = reasons.evidence(data.group_id, number or 0, after)
    if not logged:
        return event
    evidence = [*logged, *unexplained(data.evidence, logged)]
    return structs.replace(event, data=structs.replace(data, evidence=evidence))


def witnessed(event: Event, reasons: GroupReasons) -> Event | None:
    """Return when the members of an eager group stopped for a generation, as an event; None: nothing was logged."""
    data = event.data
    if not isinstance(data, GroupObserved) or data.counts_epochs or data.protocol == COOPERATIVE:
        return None
    if data.generation is None or data.kind is not UNSET:
        return None
    stop = reasons.phases.stop(data.group_id, data.generation, data.timestamp)
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


class _Followed:
    """One broker's log that is followed; its problem is logged once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tail = LogTail(path)
        self.log = BrokerLog(within_line=self.tail.within_line)
        self._is_reported = False

    def report(self) -> None:
        """Log what is wrong with this file, the first time that it shows."""
        problem = self.log.counts.problem()
        if problem is not None and not self._is_reported:
            self._is_reported = True
            _log.warning("coordinator log %s: %s", self.path, problem)


class Reasons:
    """Follows brokers' logs.

    Raises:
        LogUnreadable: one is there but may not be read.
    """

    def __init__(self, logs: Iterable[Path]) -> None:
        self._logs = [_Followed(path) for path in logs]
        self._reasons = GroupReasons()

    def listen(self) -> LogCounts:
        """Read what was logged since; return how much was read of all logs so far."""
        total = LogCounts()
        for followed in self._logs:
            for chunk in followed.tail.chunks():
                for event in followed.log.read(chunk):
                    self._reasons.add(event)
            followed.report()
            counts = followed.log.counts
            total.read += counts.read
            total.understood += counts.understood
            total.undated += counts.undated
        return total

    def explained(self, event: Event, after: int | None = None) -> Event:
        """Return the event with what was logged about it so far; see :func:`explained`."""
        return explained(event, self._reasons, after)

    def witnessed(self, event: Event) -> Event | None:
        """Return when members stopped for the generation of an event, as far as that was logged; see
        :func:`witnessed`.
        """
        return witnessed(event, self._reasons)

    def close(self) -> None:
        """Close the files."""
        for followed in self._logs:
            followed.tail.close()
