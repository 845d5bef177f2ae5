"""The lines of a log that may report something of a group, out of bytes, in constant memory.

Most lines of a log are searched for a few literals and not looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: One of these is in each line that is read here. Almost all have ``roup``: "group", "Group", "groupId".
_NEEDLES: Final = (
    b"roup",
    b"CONSUMER-ID",
    b"poll timeout has expired",
    b"member_id was not recognized",
)
#: Of the lines with "group", those that are worth decoding.
_INTERESTING: Final = re.compile(
    rb"ebalanc|[Jj]oin|[Gg]eneration|[Ll]eav|[Ll]eft|epoch|[Aa]ssign|[Rr]evok|fenced|member|Member|oordinator|"
    rb"is dead|is now empty|[Ll]oad|lost|Lost|poll|onverted|session|synced|CONSUMER-ID|changed from|heartbeat"
)
#: Longer lines are passed over.
MAX_LINE_BYTES: Final = 2**20


class GroupLineScanner:
    """Splits chunks of a log into lines, and yields those that may matter.

    Attributes:
        read: lines so far.
        follow: set by the caller while it handles a line: the next line is yielded, whatever it has.
        last: the last line.
    """

    def __init__(self) -> None:
        self.read = 0
        self.follow = False
        self.last = b""
        self._rest = b""
        self._skipping = False

    def scan(self, chunk: bytes) -> Iterator[tuple[int, str]]:
        """Yield number and text of the lines that end in this chunk and may matter."""
        text = self._rest + chunk if self._rest else chunk
        end = text.rfind(b"\n")
        if end < 0:
            self._keep(text)
            return
        start = 0
        if self._skipping:
            start = text.find(b"\n") + 1
            self.read += 1
            self._skipping = False
        self._rest = b""
        self._keep(text[end + 1 :])
        places = dict.fromkeys(_NEEDLES, -2)
        counted, number = start, self.read
        while start <= end:
            if self.follow:
                begin = start
                self.follow = False
            else:
                begin = self._next(text, start, end, places)
                if begin < 0:
                    break
            stop = text.find(b"\n", begin)
            number += text.count(b"\n", counted, begin) + 1
            counted = start = stop + 1
            if stop - begin <= MAX_LINE_BYTES:
                yield number, text[begin:stop].decode(errors="replace").rstrip("\r")
        self.read = number + text.count(b"\n", counted, end + 1)
        self.last = text[text.rfind(b"\n", 0, end) + 1 : end][:2000]

    def finish(self) -> Iterator[tuple[int, str]]:
        """Yield the last line, if no end of line follows it and it may matter."""
        if self._rest:
            yield from self.scan(b"\n")

    def _next(self, text: bytes, start: int, end: int, places: dict[bytes, int]) -> int:
        """Return where the next line begins that may matter; -1: there is none."""
        while True:
            for needle, place in places.items():
                if place != -1 and place < start:
                    places[needle] = text.find(needle, start, end)
            at = min((place for place in places.values() if place >= 0), default=-1)
            if at < 0:
                return -1
            begin = max(start, text.rfind(b"\n", start, at) + 1)
            stop = text.find(b"\n", at)
            if _INTERESTING.search(text, begin, stop):
                return begin
            start = stop + 1

    def _keep(self, rest: bytes) -> None:
        self._skipping = self._skipping or len(rest) > MAX_LINE_BYTES
        self._rest = b"" if self._skipping else rest
