"""One broker's log: chunks of bytes to events, with counts of the lines that were understood."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.collect.broker_log.layouts import KNOWN_LAYOUTS, read_line
from streaming.collect.broker_log.lines import LineScanner

#: Lines without a known message after which the log, or its layout, counts as unknown. A starting broker writes
#: some hundred lines before its first group.
_MANY_LINES: Final = 1000
#: The same for lines about rebalances, and for timestamps that can't be read.
_MANY_MESSAGES: Final = 20
#: Characters of a line that is shown as an example.
_EXAMPLE_LENGTH: Final = 200


@dataclass(slots=True)
class LogCounts:
    """Counts of the lines of a log.

    Attributes:
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
    """Reads one broker's log in chunks of bytes."""

    def __init__(self, *, within_line: bool = False) -> None:
        self.counts = LogCounts()
        self._scanner = LineScanner(within_line=within_line)

    def read(self, chunk: bytes) -> list[CoordinatorEvent]:
        """Return the events of the lines that end in this chunk."""
        return self._events(self._scanner.scan(chunk))

    def finish(self) -> list[CoordinatorEvent]:
        """Return the event of a last line without a line end."""
        return self._events(self._scanner.finish())

    def _events(self, lines: Iterable[tuple[int, str]]) -> list[CoordinatorEvent]:
        events = [event for _, line in lines if (event := self._event(line)) is not None]
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
