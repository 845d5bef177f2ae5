"""The lines of a log that may be a group coordinator's, out of bytes, in constant memory."""

from __future__ import annotations

from typing import Final

#: Every message of a group coordinator has it ("group", "Group"), most other lines of a broker do not.
_MARK: Final = b"roup"
#: Longer lines are passed over: no message of a coordinator that is read here comes near.
MAX_LINE_BYTES: Final = 2**17
#: Bytes of a line that are kept to be shown.
_SHOWN_BYTES: Final = 1000


class LineScanner:
    """Splits chunks of a log into lines. Lines that cannot be a coordinator's are counted and not looked at.

    Attributes:
        read: lines so far.
        first: the first line that is not empty.
    """

    def __init__(self, *, within_line: bool = False) -> None:
        """``within_line``: the first chunk may begin in the middle of a line, which is passed over."""
        self.read = 0
        self.first = ""
        self._rest = b""
        self._skipping = within_line

    def scan(self, chunk: bytes) -> list[str]:
        """Return the lines that end in this chunk and may be a coordinator's."""
        text = self._rest + chunk
        end = text.rfind(b"\n")
        if end < 0:
            self._keep(text)
            return []
        start = 0
        if self._skipping:
            start = text.find(b"\n") + 1
            self._skipping = False
        self.read += text.count(b"\n", start)
        if not self.first:
            self.first = (
                text[start:end].lstrip().split(b"\n", 1)[0][:_SHOWN_BYTES].decode(errors="replace").strip()
            )
        found = []
        at = text.find(_MARK, start, end)
        while at >= 0:
            begin = max(start, text.rfind(b"\n", start, at) + 1)
            stop = text.find(b"\n", at)
            if stop - begin <= MAX_LINE_BYTES:
                found.append(text[begin:stop].decode(errors="replace"))
            start = stop + 1
            at = text.find(_MARK, start, end)
        self._rest = b""
        self._keep(text[end + 1 :])
        return found

    def finish(self) -> list[str]:
        """Return the last line, if no end of line follows it and it may be a coordinator's."""
        return self.scan(b"\n") if self._rest else []

    def _keep(self, rest: bytes) -> None:
        self._skipping = self._skipping or len(rest) > MAX_LINE_BYTES
        self._rest = b"" if self._skipping else rest
