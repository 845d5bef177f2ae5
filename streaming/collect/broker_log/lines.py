"""The lines of a log that may matter, out of chunks of bytes, in constant memory.

Most lines are searched for a few literals and not looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

#: Every message of a group coordinator contains it ("group", "Group"), most other lines of a broker don't.
COORDINATOR_NEEDLES: Final = (b"roup",)
#: Longer lines are skipped: no known message of a coordinator comes near.
MAX_LINE_BYTES: Final = 2**17
#: Bytes that are kept of the first and the last line.
_KEPT_BYTES: Final = 2000


class LineScanner:
    """Splits chunks of a log into lines, and yields those that may matter.

    Args:
        needles: a line that matters contains one of them.
        interesting: and matches this pattern; None: the needles are enough.
        longest: longer lines are skipped, in bytes.
        within_line: the first chunk may begin in the middle of a line, which is skipped.

    Attributes:
        follow: set by the caller while it handles a line: the next line is yielded, whatever it has.
    """

    def __init__(
        self,
        needles: Sequence[bytes] = COORDINATOR_NEEDLES,
        interesting: re.Pattern[bytes] | None = None,
        *,
        longest: int = MAX_LINE_BYTES,
        within_line: bool = False,
    ) -> None:
        self.read = 0
        self.first = self.last = ""
        self.follow = False
        self._needles = needles
        self._interesting = interesting
        self._longest = longest
        self._rest = b""
        self._skipping = within_line

    def scan(self, chunk: bytes) -> Iterator[tuple[int, str]]:
        """Yield number and text of the lines that end in this chunk and may matter."""
        text = self._rest + chunk if self._rest else chunk
        end = text.rfind(b"\n")
        self._rest = b""
        if end < 0:
            self._keep(text)
            return
        start = 0
        if self._skipping:
            start = text.find(b"\n") + 1
            self.read += 1
            self._skipping = False
        self._keep(text[end + 1 :])
        if not self.first:
            self.first = _decoded(text[start:end].lstrip()[:_KEPT_BYTES].partition(b"\n")[0]).strip()
        places = dict.fromkeys(self._needles, -2)
        counted, number = start, self.read
        while start <= end:
            begin = start if self.follow else self._next(text, start, end, places)
            self.follow = False
            if begin < 0:
                break
            stop = text.find(b"\n", begin)
            number += text.count(b"\n", counted, begin) + 1
            counted = start = stop + 1
            if stop - begin <= self._longest:
                yield number, _decoded(text[begin:stop])
        self.read = number + text.count(b"\n", counted, end + 1)
        self.last = _decoded(text[text.rfind(b"\n", 0, end) + 1 : end][:_KEPT_BYTES])

    def finish(self) -> Iterator[tuple[int, str]]:
        """Yield the last line, if no end of line follows it and it may matter."""
        if self._rest:
            yield from self.scan(b"\n")

    def _next(self, text: bytes, start: int, end: int, places: dict[bytes, int]) -> int:
        while True:
            for needle, place in places.items():
                if place != -1 and place < start:
                    places[needle] = text.find(needle, start, end)
            at = min((place for place in places.values() if place >= 0), default=-1)
            if at < 0:
                return -1
            begin = max(start, text.rfind(b"\n", start, at) + 1)
            stop = text.find(b"\n", at)
            if self._interesting is None or self._interesting.search(text, begin, stop):
                return begin
            start = stop + 1

    def _keep(self, rest: bytes) -> None:
        self._skipping = self._skipping or len(rest) > self._longest
        self._rest = b"" if self._skipping else rest


def _decoded(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
