"""The history file: what is at a path, one writer at a time, and whether the file is still there.

Nothing is removed that is not provably ours. What ``--database`` names is looked at first, without a lock and
without a file beside it; a new history is built in a folder beside and moved into place whole, so that a full disk
or a crash leaves what was there before.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from streaming.serve import schema
from streaming.serve.schema import HistoryFailure, HistoryGone, HistoryInUse, WrongHistory

log = logging.getLogger(__name__)

_MAGIC: Final = b"SQLite format 3\0"
#: Offsets in the header of an SQLite file (https://www.sqlite.org/fileformat.html, section 1.3).
_HEADER_BYTES: Final = 100
_USER_VERSION: Final = slice(60, 64)
_APPLICATION_ID: Final = slice(68, 72)
#: What SQLite keeps beside a file.
_COMPANIONS: Final = ("-wal", "-shm", "-journal")


class _Found(NamedTuple):
    """A history of ours: the version of its tables, and the cluster whose rounds it holds."""

    version: int
    cluster_id: str


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _look(path: Path) -> _Found | None:
    """The history at ``path``; None if there is no file, or an empty one.

    Raises:
        WrongHistory: something else is there.
        sqlite3.Error, OSError: it can't be read.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        status = None
    if status is not None and not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "device or pipe"
        raise WrongHistory(f"--database {path}: is a {kind}; name a file")
    if status is None or status.st_size == 0:
        for left in (_beside(path, suffix) for suffix in _COMPANIONS):
            if left.exists():
                raise WrongHistory(
                    f"--database {path}: {left.name} is there without the file it belongs to; "
                    "remove it, or name another file"
                )
        return None
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(_MAGIC):
        raise WrongHistory(
            f"--database {path}: is not a history (it is not an SQLite file); name another file"
        )
    if len(header) < _HEADER_BYTES:
        raise HistoryFailure(f"--database {path}: {schema.DAMAGED} (it ends within its header)")
    application_id = int.from_bytes(header[_APPLICATION_ID])
    # Version 1 was written without the mark at first, and its number may still stand in the write-ahead log.
    unmarked = application_id == 0 and int.from_bytes(header[_USER_VERSION]) in (0, 1)
    if application_id != schema.APPLICATION_ID and not unmarked:
        raise _strangers(path)
    return _read(path)


def _strangers(path: Path) -> WrongHistory:
    return WrongHistory(f"--database {path}: is a database of another program; name another file")


def _read(path: Path) -> _Found | None:
    # Without a log beside it, nobody writes the file: it can be read without leaving anything beside it.
    mode = "ro" if _beside(path, "-wal").exists() else "ro&immutable=1"
    with closing(schema.connect(path, mode)) as connection:
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if not tables:
            return None  # a start that was killed before it had written anything
        if not tables >= schema.TABLES:
            raise _strangers(path)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        row = connection.execute("SELECT value FROM meta WHERE key = 'cluster_id'").fetchone()
    if row is None:
        raise _strangers(path)
    return _Found(version, row[0])


def _examine(path: Path, cluster_id: str) -> _Found | None:
    """The history at ``path``, if it is this cluster's and not of a newer version; None if there is none."""
    found = _look(path)
    if found is not None and found.cluster_id != cluster_id:
        raise WrongHistory(
            f"--database {path}: holds the rounds of cluster {found.cluster_id}, this is {cluster_id}; "
            "name another file, or remove it to build it anew from the topics"
        )
    if found is not None and found.version > schema.SCHEMA_VERSION:
        raise WrongHistory(
            f"--database {path}: was written by a newer release (version {found.version} of the file, this release "
            f"writes {schema.SCHEMA_VERSION}); upgrade, or name another file"
        )
    return found


def _build(path: Path, cluster_id: str, older: _Found | None) -> None:
    """An empty history at ``path``; an older one keeps its rounds, which the topics may have lost, beside it."""
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        fresh = Path(folder) / path.name
        with closing(schema.connect(fresh, "rwc")) as connection:
            schema.create(connection, cluster_id)
        if older is not None:
            with closing(schema.connect(path)) as connection:  # what stands in the log beside it goes with it
                connection.execute("PRAGMA journal_mode = DELETE")
            kept = _free(_beside(path, f".version-{older.version}"))
            path.rename(kept)
            log.warning(
                "history %s is of an older release: kept as %s, built anew from the topics", path, kept.name
            )
        fresh.replace(path)


def _free(path: Path) -> Path:
    """The path itself, or followed by the first number that makes it free."""
    numbered = (_beside(path, f".{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if not one.exists())


@contextmanager
def _held(path: Path) -> Iterator[int]:
    """A lock against other servers, kept unless the body fails; the kernel releases it with the process."""
    lock = os.open(_beside(path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HistoryInUse(
                f"--database {path}: another `serve` uses it; stop that one, or name another file"
            ) from error
        yield lock
    except BaseException:
        os.close(lock)
        raise


class HistoryFile:
    """The one writer of a history; a missing file is created empty.

    Raises:
        WrongHistory: the path holds something else, another cluster's rounds, or a newer release's.
        HistoryInUse: another process serves from it.
        HistoryFailure: the file is damaged or can't be written; it is as it was.
    """

    def __init__(self, path: Path, cluster_id: str) -> None:
        self.path = Path(os.path.realpath(path))  # two names of a file have one lock
        with schema.plainly(path, "--database"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _examine(self.path, cluster_id)  # before a lock file is left beside something that is not ours
            with _held(self.path) as self._lock:
                found = _examine(self.path, cluster_id)
                if found is None or found.version < schema.SCHEMA_VERSION:
                    _build(self.path, cluster_id, found)
                self.connection = _opened(self.path)
                self._identity = _identity(self.path)
                self._logs = {log: _identity(log) for log in (_beside(self.path, one) for one in _COMPANIONS)}

    def check(self) -> None:
        """Make sure that the paths still name the file that is written, and its log.

        Raises:
            HistoryGone: it was removed, moved or replaced.
            HistoryFailure: its folder can't be read.
        """
        with schema.plainly(self.path):
            found = {self.path: self._identity, **self._logs}
            gone = [path for path, identity in found.items() if _identity(path) != identity]
            if gone:
                raise HistoryGone(
                    f"history {gone[0]}: was removed or replaced while in use; "
                    "the next start builds it anew from the topics, or goes on with what stands there"
                )

    def close(self) -> None:
        """Merge the write-ahead log into the file and close it."""
        try:
            # What can't be folded now stays in the log, and the next start finds it there.
            with suppress(sqlite3.Error):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.close()
            with suppress(OSError):
                self._clean()
        finally:
            os.close(self._lock)

    def _clean(self) -> None:
        """Remove our log if the file is gone: SQLite leaves it, and would read it into the next file here."""
        if _identity(self.path) == self._identity:
            return
        for path, identity in self._logs.items():
            if identity is not None and _identity(path) == identity:
                path.unlink()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _opened(path: Path) -> sqlite3.Connection:
    connection = schema.connect(path)
    try:
        connection.execute("BEGIN IMMEDIATE")  # a lock, or a file that can't be written, is told now
        connection.execute("COMMIT")
        if connection.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    except BaseException:
        connection.close()
        raise
    return connection
