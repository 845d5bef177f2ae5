"""One broker's log: chunks of bytes to events, with counts of the lines that were understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.collect.broker_log.layouts import KNOWN_LAYOUTS, read_line

#: Every message of a group coordinator contains it ("group", "Group"), most other lines of a broker don't.
_MARK: Final = b"roup"
#: Longer lines are skipped: no known message comes near.
MAX_LINE_BYTES: Final = 2**17
#: Lines without a known message after which the log, or its layout, counts as unknown. A starting broker writes
#: some hundred lines before its first group.
_MANY_LINES: Final = 1000
#: The same for lines about rebalances, and for timestamps that can't be read.
_MANY_MESSAGES: Final = 20
#: Characters of a line that is shown as an example.
_EXAMPLE_LENGTH: Final = 200


class LineScanner:
    """Splits chunks into lines and returns those that may be a coordinator's.

    Args:
        within_line: the first chunk may begin in the middle of a line, which is skipped.

    Attributes:
        read: the number of lines so far.
        first: the first line that is not blank.
    """

    def __init__(self, *, within_line: bool = False) -> None:
        self.read = 0
        self.first = ""
        self._rest = b""
        self._skipping = within_line

    def scan(self, chunk: bytes) -> list[str]:
        """Return the lines that end in this chunk and may be a coordinator's."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        if lines and self._skipping:
            del lines[0]
            self._skipping = False
        self._skipping = self._skipping or len(rest) > MAX_LINE_BYTES
        self._rest = b"" if self._skipping else rest
        self.read += len(lines)
        if not self.first:
            first = next((line for line in lines if line.strip()), b"")
            self.first = first[: 4 * _EXAMPLE_LENGTH].decode(errors="replace").strip()
        return [
            line.decode(errors="replace") for line in lines if _MARK in line and len(line) <= MAX_LINE_BYTES
        ]

    def finish(self) -> list[str]:
        """Return the last line if it has no line end and may be a coordinator's."""
        return self.scan(b"\n") if self._rest else []


@dataclass(slots=True)
class LogCounts:
    """Counts of the lines of a log.

    Attributes:
        read: all lines.
        understood: lines with a known message.
        undated: lines with a known message and no readable timestamp.
        strange: lines about rebalances or members without a known message.
        example: a line without a known message, if possible one of the coordinator.
    """

    read: int = 0
    understood: int = 0
    undated: int = 0
    strange: int = 0
    example: str = ""

    def problem(self, *, is_whole: bool = False) -> str | None:
        """Return what is wrong with the log, in one sentence; None: nothing.

        Args:
            is_whole: the log is complete, so a few lines are enough to judge by.
        """
        many_lines, many_messages = (1, 1) if is_whole else (_MANY_LINES, _MANY_MESSAGES)
        if not self.understood and (self.read >= many_lines or self.strange >= many_messages):
            shown = f"; such as: {self.example}" if self.example else ""
            return (
                f"none of {self.read} lines is a group coordinator's message that is understood{shown} "
                f"(known: messages of Kafka 2.0 to 4.3, in {KNOWN_LAYOUTS})"
            )
        if self.undated == self.understood >= many_messages:
            return (
                f"none of {self.understood} messages has a timestamp that can be read: the log shows reasons, no "
                "times (known: ISO 8601, log4j's DATE, seconds and milliseconds since the epoch)"
            )
        return None


class BrokerLog:
    """Reads one broker's log in chunks of bytes.

    Args:
        within_line: the first chunk may begin in the middle of a line.
    """

    def __init__(self, *, within_line: bool = False) -> None:
        self.counts = LogCounts()
        self._scanner = LineScanner(within_line=within_line)

    def read(self, chunk: bytes) -> list[CoordinatorEvent]:
        """Return the events of the lines that end in this chunk."""
        return self._events(self._scanner.scan(chunk))

    def finish(self) -> list[CoordinatorEvent]:
        """Return the event of a last line without a line end."""
        return self._events(self._scanner.finish())

    def _events(self, lines: list[str]) -> list[CoordinatorEvent]:
        events = [event for line in lines if (event := self._event(line)) is not None]
        self.counts.read = self._scanner.read
        if not self.counts.example and not self.counts.understood:
            self.counts.example = self._scanner.first[:_EXAMPLE_LENGTH]
        return events

    def _event(self, line: str) -> CoordinatorEvent | None:
        event = read_line(line)
        if event is not None:
            self.counts.understood += 1
            self.counts.undated += event.timestamp is None
        elif "ebalanc" in line or "LeaveGroup" in line or "[GroupId" in line:
            self.counts.strange += 1
            if self.counts.strange == 1:
                self.counts.example = line.strip()[:_EXAMPLE_LENGTH]
        return event
