"""Follows a log file that grows, is rotated or cut."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import BinaryIO

from assignors.errors import OutsideFailure

_log = logging.getLogger(__name__)
#: How far back a log is read at the start, in bytes.
_BACKLOG_BYTES = 64 * 2**20


class LogUnreadable(OutsideFailure):
    """A coordinator log can't be read."""


class LogTail:
    """Whole lines of a file, as they are written; it may appear later.

    Raises:
        LogUnreadable: the file is there but may not be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        if not path.exists():
            _log.warning("coordinator log %s is not there yet; waiting for it", path)
        self._open()

    def lines(self) -> list[str]:
        """The lines since the last call."""
        text = self._rest + self._read()
        if self._replaced():
            self.close()
            self._open()
            text += (b"\n" if text and not text.endswith(b"\n") else b"") + self._read()
        whole, _, self._rest = text.rpartition(b"\n")
        return whole.decode(errors="replace").split("\n") if whole else []

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        try:
            self._file = self._path.open("rb")
            size = self._path.stat().st_size
            self._file.seek(max(0, size - _BACKLOG_BYTES))
        except FileNotFoundError:
            return
        except OSError as error:
            raise LogUnreadable(f"--coordinator-log {self._path}: {error.strerror}") from error

    def _read(self) -> bytes:
        return self._file.read() if self._file is not None else b""

    def _replaced(self) -> bool:
        """Whether another file stands there now (rotation), or the same one was cut."""
        if self._file is None:
            return self._path.exists()
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        here = self._file.fileno()
        return there.st_ino != os.fstat(here).st_ino or there.st_size < self._file.tell()
