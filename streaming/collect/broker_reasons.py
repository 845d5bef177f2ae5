"""Adds rebalance reasons from brokers' logs to membership events, in front of the evidence from offset commits."""

import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import UNSET, structs

from assignors.assignment import normalize, subtract, union
from assignors.errors import OutsideFailure
from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.collect.broker_log.group_reasons import LOG_SOURCE, GroupReasons
from streaming.collect.broker_log.log import BrokerLog, LogCounts
from streaming.collect.evidence import unexplained_evidence
from streaming.collect.partition_owners import COOPERATIVE
from streaming.records.events import Event, GroupObserved, PartitionsStopped, Stop

_log = logging.getLogger(__name__)
#: The most bytes that are read from the end of an existing log at the start, and from a log in one call.
BACKLOG_BYTES: Final = 64 * 2**20
_CHUNK_BYTES: Final = 2**20


class LogTail:
    """Reads the bytes appended to a log file; ``begins_within_line``: reading began in the middle of a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self.begins_within_line = False
        if not path.exists():
            _log.warning("coordinator log %s does not exist yet; waiting for it", path)
        self._open()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes that were appended to the file since the last call, at most 64 MiB."""
        yield from self._read_chunks()
        if self._is_replaced():
            was_open = self._file is not None
            self.close()
            self._open()
            if was_open:
                yield b"\n"  # the new file does not continue the old file's last line
            yield from self._read_chunks()

    def close(self) -> None:
        """Close the log file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        try:
            # O_NONBLOCK: opening a FIFO would wait for a writer.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise OutsideFailure(f"--coordinator-log {self._path}: {error.strerror}") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            is_folder = stat.S_ISDIR(status.st_mode)
            problem = "Is a directory" if is_folder else "not a regular file; name the file that the broker writes"
            raise OutsideFailure(f"--coordinator-log {self._path}: {problem}")
        self._file = os.fdopen(descriptor, "rb")
        self._file.seek(max(0, status.st_size - BACKLOG_BYTES))
        self.begins_within_line = status.st_size > BACKLOG_BYTES

    def _read_chunks(self) -> Iterator[bytes]:
        for _ in range(BACKLOG_BYTES // _CHUNK_BYTES):
            chunk = self._file.read(_CHUNK_BYTES) if self._file is not None else b""
            if not chunk:
                return
            yield chunk

    def _is_replaced(self) -> bool:
        if self._file is None:
            return self._path.exists()
        try:
            current = self._path.stat()
        except FileNotFoundError:
            return False
        opened = os.fstat(self._file.fileno())
        return (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino) or current.st_size < self._file.tell()


def add_reasons(event: Event, reasons: GroupReasons, previous: GroupObserved | None = None) -> Event:
    """Return the event with the logged reasons of its generation or epoch; events of one epoch get the same reasons.

    Reasons of incomplete generations since the ``previous`` snapshot led to this generation too.
    """
    data = event.data
    if not isinstance(data, GroupObserved):
        return event
    logged = reasons.evidence(data.group_id, data.number or 0, None if previous is None else previous.number)
    if not logged:
        return event
    evidence = [*logged, *unexplained_evidence(data.evidence, logged)]
    return structs.replace(event, data=structs.replace(data, evidence=evidence))


def stop_event(event: Event, reasons: GroupReasons, previous: GroupObserved | None = None) -> Event | None:
    """Return an event with the times at which classic members stopped consuming; None if the log has no such times."""
    data = event.data
    if not isinstance(data, GroupObserved) or data.generation is None or data.kind is not UNSET:
        return None
    if (logged := reasons.phases.stops(data.group_id, data.generation, data.timestamp)) is None:
        return None
    stops = [] if data.protocol == COOPERATIVE or logged.eager == Stop() else [logged.eager]
    owned_now = {member.member_id: member.owned for member in data.members}
    for member in previous.members if previous is not None else ():
        if member.member_id not in logged.stopped_before:
            continue
        revoked = union(member.assigned, member.owned)
        if data.protocol == COOPERATIVE and member.member_id in owned_now:
            revoked = subtract(member.owned, union(member.assigned, owned_now[member.member_id]))
        if revoked:
            stops.append(Stop(partitions=normalize(revoked), stopped_before=logged.stopped_before[member.member_id]))
    if not stops:
        return None
    stopped = PartitionsStopped(
        group_id=data.group_id, timestamp=data.timestamp, source=LOG_SOURCE, stops=stops, generation=data.generation
    )
    return Event(event.source, f"{event.id}/joined", stopped)


class BrokerReasons:
    """Follows brokers' logs and collects the reasons of rebalances from them."""

    def __init__(self, logs: Iterable[Path]) -> None:
        log_tails = [(path, LogTail(path)) for path in dict.fromkeys(logs)]
        self._logs = [(path, tail, BrokerLog(begins_within_line=tail.begins_within_line)) for path, tail in log_tails]
        self._reported: set[Path] = set()
        self.reasons = GroupReasons()

    def read(self, on_event: Callable[[CoordinatorEvent], None] = lambda _: None) -> LogCounts:
        """Read the new lines of all logs, call ``on_event`` with every event, and return the total line counts."""
        total = LogCounts()
        for path, tail, log in self._logs:
            for chunk in tail.chunks():
                for event in log.read(chunk):
                    self.reasons.add(event)
                    on_event(event)
            problem = log.counts.problem()
            if problem is not None and path not in self._reported:
                self._reported.add(path)
                _log.warning("coordinator log %s: %s", path, problem)
            total.read += log.counts.read
            total.understood_messages += log.counts.understood_messages
            total.undated_lines += log.counts.undated_lines
        return total

    def close(self) -> None:
        """Close the log files."""
        for _, tail, _ in self._logs:
            tail.close()
