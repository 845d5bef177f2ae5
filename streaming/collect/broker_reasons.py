"""Adds the reasons in brokers' logs to events, before evidence from offset commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import UNSET, structs

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.collect.broker_log.group_reasons import SOURCE, GroupReasons
from streaming.collect.broker_log.log import BrokerLog, LogCounts
from streaming.collect.broker_log.tail import LogTail
from streaming.collect.evidence import unexplained
from streaming.collect.partition_owners import COOPERATIVE
from streaming.records.events import Event, GroupObserved, PartitionsStopped

_log = logging.getLogger(__name__)


def add_reasons(event: Event, reasons: GroupReasons, after: int | None = None) -> Event:
    """Return the event with the logged reasons of its generation or epoch; all steps of an epoch have the same.

    Args:
        event: the collector's event.
        reasons: brokers' logged reasons.
        after: the generation, or epoch, of the previous snapshot; None: there was none. Generations in between were
            never complete, and their reasons led to this one too.
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


def stop_event(event: Event, reasons: GroupReasons) -> Event | None:
    """Return the event of when an eager group's members stopped for a generation; None: not logged."""
    data = event.data
    if not isinstance(data, GroupObserved) or data.counts_epochs or data.protocol == COOPERATIVE:
        return None
    if data.generation is None or data.kind is not UNSET:
        return None
    stop = reasons.phases.stop(data.group_id, data.generation, data.timestamp)
    if stop is None:
        return None
    stopped = PartitionsStopped(
        group_id=data.group_id, timestamp=data.timestamp, source=SOURCE, stops=[stop], generation=data.generation
    )
    return Event(event.source, f"{event.id}/joined", stopped)


class _Followed:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.tail = LogTail(path)
        self.log = BrokerLog(within_line=self.tail.within_line)
        self._is_reported = False

    def report(self) -> None:
        """Log the file's problem once."""
        problem = self.log.counts.problem()
        if problem is not None and not self._is_reported:
            self._is_reported = True
            _log.warning("coordinator log %s: %s", self.path, problem)


class BrokerReasons:
    """Follows brokers' logs."""

    def __init__(self, logs: Iterable[Path]) -> None:
        self._logs = [_Followed(path) for path in logs]
        self._reasons = GroupReasons()

    def read(self, each: Callable[[CoordinatorEvent], None] = lambda _: None) -> LogCounts:
        """Read the new lines of all logs, calling ``each`` with their events; return the counts since the start."""
        total = LogCounts()
        for followed in self._logs:
            for chunk in followed.tail.chunks():
                for event in followed.log.read(chunk):
                    self._reasons.add(event)
                    each(event)
            followed.report()
            counts = followed.log.counts
            total.read += counts.read
            total.understood += counts.understood
            total.undated += counts.undated
        return total

    def add_reasons(self, event: Event, after: int | None = None) -> Event:
        """See :func:`add_reasons`."""
        return add_reasons(event, self._reasons, after)

    def stop_event(self, event: Event) -> Event | None:
        """See :func:`stop_event`."""
        return stop_event(event, self._reasons)

    def close(self) -> None:
        """Close the files."""
        for followed in self._logs:
            followed.tail.close()
