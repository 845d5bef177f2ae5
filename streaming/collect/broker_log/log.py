"""One broker's log, from bytes to events, with counts of what was understood. No file, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.collect.broker_log.layouts import KNOWN_LAYOUTS, read_line
from streaming.collect.broker_log.lines import LineScanner

#: So many lines without one that is understood are another log, or another layout. A broker that starts writes some
#: hundred lines before its first group comes.
_MANY_LINES: Final = 1000
#: The same of lines that speak of rebalances, and of timestamps that can't be read.
_MANY_MESSAGES: Final = 20
#: Characters of a line that is shown as an example.
_EXAMPLE_LENGTH: Final = 200


@dataclass(slots=True)
class LogCounts:
    """What was read of a log.

    Attributes:
        read: lines.
        understood: lines that reported something of a group.
        undated: lines of those whose timestamp can't be read.
        strange: lines that speak of rebalances or members and are not understood.
        example: a line that was not understood, of the coordinator if there was one.
    """

    read: int = 0
    understood: int = 0
    undated: int = 0
    strange: int = 0
    example: str = ""

    def problem(self, *, is_whole: bool = False) -> str | None:
        """Return what is wrong with the log, in one sentence; None: nothing that can be seen.

        Args:
            is_whole: no more of the log is to come, so a few lines are enough to judge by.
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
        """Return what the lines that end in this chunk report."""
        return self._events(self._scanner.scan(chunk))

    def finish(self) -> list[CoordinatorEvent]:
        """Return what a last line without an end of line reports."""
        return self._events(self._scanner.finish())

    def _events(self, lines: list[str]) -> list[CoordinatorEvent]:
        events = [event for line in lines if (event := self._event(line)) is not None]
        self.counts.read = self._scanner.read
        if not self.counts.example and not self.counts.understood:
            self.counts.example = self._scanner.first[:_EXAMPLE_LENGTH]
        return events

    def _event(self, line: str) -> CoordinatorEvent | None:
        found = read_line(line)
        if found is None or found.event is None:
            if "ebalanc" in line or "LeaveGroup" in line or "[GroupId" in line:
                self.counts.strange += 1
                if self.counts.strange == 1:
                    self.counts.example = line.strip()[:_EXAMPLE_LENGTH]
            return None
        self.counts.understood += 1
        self.counts.undated += found.event.moment is None
        return found.event
