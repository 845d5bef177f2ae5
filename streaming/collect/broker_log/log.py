"""Reads one broker's log from chunks of bytes, returns its events, and counts the lines that were understood."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.collect.broker_log.layouts import KNOWN_LAYOUTS, read_line

#: Every message of a group coordinator contains this ("group", "Group"); most other log lines of a broker don't.
COORDINATOR_SUBSTRINGS: Final = (b"roup",)
#: Longer lines are skipped: all known messages of coordinators are much shorter.
MAX_LINE_BYTES: Final = 2**17
#: The most bytes that are kept of the first and of the last line.
_MAX_INCOMPLETE_BYTES: Final = 2000


class LineScanner:
    """Splits chunks of a log into lines; yields those with a substring of interest that match ``line_pattern``.

    Lines of more than ``max_line_bytes`` are skipped. ``begins_within_line``: the first chunk may begin in the middle
    of a line, which is skipped. If the caller sets ``follow`` while it handles a line, the next line is always yielded.
    """

    def __init__(
        self,
        substrings: Sequence[bytes] = COORDINATOR_SUBSTRINGS,
        line_pattern: re.Pattern[bytes] | None = None,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        begins_within_line: bool = False,
    ) -> None:
        self.read = 0
        self.first = self.last = ""
        self.follow = False
        self._substrings, self._line_pattern, self._max_line_bytes = substrings, line_pattern, max_line_bytes
        self._incomplete_line, self._is_skipping_line = b"", begins_within_line

    def scan(self, chunk: bytes) -> Iterator[tuple[int, str]]:
        """Yield the number and text of each possibly relevant line that ends in this chunk."""
        text = self._incomplete_line + chunk if self._incomplete_line else chunk
        end = text.rfind(b"\n")
        self._incomplete_line = b""
        if end < 0:
            self._keep_incomplete(text)
            return
        start = 0
        if self._is_skipping_line:
            start = text.find(b"\n") + 1
            self.read += 1
            self._is_skipping_line = False
        self._keep_incomplete(text[end + 1 :])
        if not self.first:
            self.first = _decode_line(text[start:end].lstrip()[:_MAX_INCOMPLETE_BYTES].partition(b"\n")[0]).strip()
        places = dict.fromkeys(self._substrings, -2)
        counted, number = start, self.read
        while start <= end:
            begin = start if self.follow else self._next(text, start, end, places)
            self.follow = False
            if begin < 0:
                break
            stop = text.find(b"\n", begin)
            number += text.count(b"\n", counted, begin) + 1
            counted = start = stop + 1
            if stop - begin <= self._max_line_bytes:
                yield number, _decode_line(text[begin:stop])
        self.read = number + text.count(b"\n", counted, end + 1)
        self.last = _decode_line(text[text.rfind(b"\n", 0, end) + 1 : end][:_MAX_INCOMPLETE_BYTES])

    def finish(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of the last line of a log, if it has no line end and may be relevant."""
        if self._incomplete_line:
            yield from self.scan(b"\n")

    def _next(self, text: bytes, start: int, end: int, places: dict[bytes, int]) -> int:
        while True:
            for substring, place in places.items():
                if place != -1 and place < start:
                    places[substring] = text.find(substring, start, end)
            at = min((place for place in places.values() if place >= 0), default=-1)
            if at < 0:
                return -1
            begin = max(start, text.rfind(b"\n", start, at) + 1)
            stop = text.find(b"\n", at)
            if self._line_pattern is None or self._line_pattern.search(text, begin, stop):
                return begin
            start = stop + 1

    def _keep_incomplete(self, rest: bytes) -> None:
        self._is_skipping_line = self._is_skipping_line or len(rest) > self._max_line_bytes
        self._incomplete_line = b"" if self._is_skipping_line else rest


def _decode_line(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


#: Lines without a known message after which the log, or its layout, counts as unknown. A starting broker writes
#: some hundred lines before its first group.
_MIN_LINES_FOR_PROBLEM: Final = 1000
#: The same for lines about rebalances, and for timestamps that can't be read.
_MIN_MESSAGES_FOR_PROBLEM: Final = 20
#: Characters of a line that is shown as an example.
_EXAMPLE_LENGTH: Final = 200


@dataclass(slots=True)
class LogCounts:
    """Counts of a log's lines; ``not_understood``: lines about rebalances or members without a known message."""

    read: int = 0
    understood_messages: int = 0
    undated_lines: int = 0
    not_understood: int = 0
    example: str = ""

    def problem(self, *, is_whole: bool = False) -> str | None:
        """Return a description of the log's problem, or None; a complete log (``is_whole``) needs only few lines."""
        min_lines, min_messages = (1, 1) if is_whole else (_MIN_LINES_FOR_PROBLEM, _MIN_MESSAGES_FOR_PROBLEM)
        if not self.understood_messages and (self.read >= min_lines or self.not_understood >= min_messages):
            shown = f"; such as: {self.example}" if self.example else ""
            return (
                f"none of {self.read} lines is a group coordinator's message that is understood{shown} "
                f"(known: messages of Kafka 2.0 to 4.3, in {KNOWN_LAYOUTS})"
            )
        if self.undated_lines == self.understood_messages >= min_messages:
            return (
                f"none of {self.understood_messages} messages has a timestamp that can be read: the log shows reasons, "
                "no times (known: ISO 8601, log4j's DATE, seconds and milliseconds since the epoch)"
            )
        return None


class BrokerLog:
    """Reads one broker's log in chunks of bytes and returns its coordinator events."""

    def __init__(self, *, begins_within_line: bool = False) -> None:
        self.counts = LogCounts()
        self._scanner = LineScanner(begins_within_line=begins_within_line)

    def read(self, chunk: bytes) -> list[CoordinatorEvent]:
        """Return the events of the log lines that end in this chunk of bytes."""
        return self._events(self._scanner.scan(chunk))

    def finish(self) -> list[CoordinatorEvent]:
        """Return the event of the last line, if that line has no line end."""
        return self._events(self._scanner.finish())

    def _events(self, lines: Iterable[tuple[int, str]]) -> list[CoordinatorEvent]:
        events = [event for _, line in lines if (event := self._event(line)) is not None]
        self.counts.read = self._scanner.read
        if not self.counts.example and not self.counts.understood_messages:
            self.counts.example = self._scanner.first[:_EXAMPLE_LENGTH]
        return events

    def _event(self, line: str) -> CoordinatorEvent | None:
        event = read_line(line)
        if event is not None:
            self.counts.understood_messages += 1
            self.counts.undated_lines += event.timestamp is None
        elif "ebalanc" in line or "LeaveGroup" in line or "[GroupId" in line:
            self.counts.not_understood += 1
            if self.counts.not_understood == 1:
                self.counts.example = line.strip()[:_EXAMPLE_LENGTH]
        return event
