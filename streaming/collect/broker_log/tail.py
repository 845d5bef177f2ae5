"""Follows a log file, through rotation and truncation."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from assignors.errors import OutsideFailure

_log = logging.getLogger(__name__)
#: The most that is read of an existing log at the start, and in one call.
BACKLOG_BYTES: Final = 64 * 2**20
_CHUNK_BYTES: Final = 2**20


class LogUnreadable(OutsideFailure):
    """A coordinator log can't be read."""


class LogTail:
    """Reads what is appended to a log file, which may appear later.

    Attributes:
        within_line: reading began in the middle of the file, most likely within a line.

    Raises:
        LogUnreadable: permission denied, or not a regular file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self.within_line = False
        if not path.exists():
            _log.warning("coordinator log %s is not there yet; waiting for it", path)
        self._open()

    def chunks(self) -> Iterator[bytes]:
        """Yield what was appended since the last call, at most 64 MiB."""
        yield from self._read()
        if self._is_replaced():
            had_file = self._file is not None
            self.close()
            self._open()
            if had_file:
                yield b"\n"  # the new file does not continue the old file's last line
            yield from self._read()

    def close(self) -> None:
        """Close the file."""
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
            raise LogUnreadable(f"--coordinator-log {self._path}: {error.strerror}") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise LogUnreadable(
                f"--coordinator-log {self._path}: Is a directory"
                if stat.S_ISDIR(status.st_mode)
                else f"--coordinator-log {self._path}: not a regular file; name the file that the broker writes"
            )
        self._file = os.fdopen(descriptor, "rb")
        self._file.seek(max(0, status.st_size - BACKLOG_BYTES))
        self.within_line = status.st_size > BACKLOG_BYTES

    def _read(self) -> Iterator[bytes]:
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
