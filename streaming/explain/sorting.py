"""Sorts events of any number in constant memory: runs in temporary files, merged."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import msgspec

from streaming.explain.events import LogEvent

#: Events that are kept in memory.
_RUN: Final = 50_000

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogEvent)


def order(event: LogEvent) -> tuple[str, int, tuple[str, int]]:
    """Return the place of an event among all: by group, time, file and line."""
    return event.group_id, event.at, event.place


class EventSorter:
    """Takes events in any order and gives them back by group and time, once.

    Args:
        temporary: opens a file that is gone when it is closed.
    """

    def __init__(self, temporary: Callable[[], BinaryIO]) -> None:
        self._temporary = temporary
        self._events: list[LogEvent] = []
        self._runs: list[BinaryIO] = []

    def add(self, event: LogEvent) -> None:
        """Take an event."""
        self._events.append(event)
        if len(self._events) >= _RUN:
            self._events.sort(key=order)
            run = self._temporary()
            for one in self._events:
                data = _encoder.encode(one)
                run.write(len(data).to_bytes(4, "big") + data)
            run.seek(0)
            self._runs.append(run)
            self._events = []

    def sorted(self) -> Iterator[LogEvent]:
        """Yield the events in order."""
        self._events.sort(key=order)
        yield from heapq.merge(*map(_read, self._runs), self._events, key=order)
        for run in self._runs:
            run.close()


def _read(run: BinaryIO) -> Iterator[LogEvent]:
    while length := run.read(4):
        yield _decoder.decode(run.read(int.from_bytes(length, "big")))
