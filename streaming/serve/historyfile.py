"""The history file: its tables, its one writer, the checks of a path, and SQLite's errors in plain words.

Only files that are provably ours are removed. The path of ``--database`` is examined first, without a lock or a
file beside it; a new history is built in a folder beside and moved into place whole, so that a full disk
or a crash leaves what was there before.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from assignors.errors import BadInput, OutsideFailure

_MAGIC: Final = b"SQLite format 3\0"
#: Size of an SQLite file's header; bytes 68 to 71 are its application id (https://www.sqlite.org/fileformat.html).
_HEADER_BYTES: Final = 100
#: Files that SQLite keeps beside a database.
_COMPANIONS: Final = ("-wal", "-shm", "-journal")


class _ExistingHistory(NamedTuple):
    """A history of ours: the version of its tables, and the cluster whose rounds it holds."""

    version: int
    cluster_id: str


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _look(path: Path) -> _ExistingHistory | None:
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
        raise WrongHistory(f"--database {path}: is not a history (it is not an SQLite file); name another file")
    if len(header) < _HEADER_BYTES:
        raise HistoryFailure(f"--database {path}: {DAMAGED} (it ends within its header)")
    if int.from_bytes(header[68:72]) != APPLICATION_ID:
        raise _foreign_database(path)
    return _read(path)


def _foreign_database(path: Path) -> WrongHistory:
    return WrongHistory(f"--database {path}: is a database of another program; name another file")


def _read(path: Path) -> _ExistingHistory:
    # Without a log beside it, nobody writes the file: it can be read without leaving anything beside it.
    mode = "ro" if _beside(path, "-wal").exists() else "ro&immutable=1"
    with closing(connect(path, mode)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        row = connection.execute("SELECT value FROM meta WHERE key = 'cluster_id'").fetchone()
    if row is None:
        raise _foreign_database(path)
    return _ExistingHistory(version, row[0])


def _examine(path: Path, cluster_id: str) -> _ExistingHistory | None:
    """The history at ``path``, if it is this cluster's and of this version; None if there is none."""
    existing = _look(path)
    if existing is not None and existing.cluster_id != cluster_id:
        raise WrongHistory(
            f"--database {path}: holds the rounds of cluster {existing.cluster_id}, this is {cluster_id}; "
            "name another file, or remove it to build it anew from the topics"
        )
    if existing is not None and existing.version != SCHEMA_VERSION:
        raise WrongHistory(
            f"--database {path}: was written by another release (version {existing.version} of the file, "
            f"this release writes {SCHEMA_VERSION}); run that release, or name another file, which is built from "
            "the topics"
        )
    return existing


def _build(path: Path, cluster_id: str) -> None:
    """Create an empty history in a folder beside ``path`` and move it into place."""
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        new = Path(folder) / path.name
        with closing(connect(new, "rwc")) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            marks = f"PRAGMA user_version = {SCHEMA_VERSION}; PRAGMA application_id = {APPLICATION_ID};"
            connection.executescript(f"BEGIN; {_SCHEMA} {marks}")
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [("cluster_id", cluster_id), ("epoch", secrets.token_hex(4)), ("trimmed", "0")],
            )
            connection.execute("COMMIT")
        new.replace(path)


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
        WrongHistory: the path holds something else, another cluster's rounds, or another release's.
        HistoryInUse: another process serves from it.
        HistoryFailure: the file is damaged or can't be written; it is as it was.
    """

    def __init__(self, path: Path, cluster_id: str) -> None:
        self.path = Path(os.path.realpath(path))  # two names of a file have one lock
        with plainly(path, "--database"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _examine(self.path, cluster_id)  # before a lock file is left beside something that is not ours
            with _held(self.path) as self._lock:
                if not _examine(self.path, cluster_id):
                    _build(self.path, cluster_id)
                self.connection = _opened(self.path)
                self._identity = _identity(self.path)
                self._logs = {log: _identity(log) for log in (_beside(self.path, suffix) for suffix in _COMPANIONS)}

    def check(self) -> None:
        """Make sure that the paths still name the file that is written, and its log.

        Raises:
            HistoryGone: it was removed, moved or replaced.
            HistoryFailure: its folder can't be read.
        """
        with plainly(self.path):
            files = {self.path: self._identity, **self._logs}
            gone = [path for path, identity in files.items() if _identity(path) != identity]
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
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def _opened(path: Path) -> sqlite3.Connection:
    connection = connect(path)
    try:
        connection.execute("BEGIN IMMEDIATE")  # a lock, or a file that can't be written, is reported now
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


#: Raise it with every change below: a file of another version is refused.
SCHEMA_VERSION: Final = 2
#: "KRMH" in the header of the file (``PRAGMA application_id``): it is ours.
APPLICATION_ID: Final = 0x4B524D48

#: Seconds to wait for another program's lock: less than what counts as a stalled follower.
_BUSY_SECONDS: Final = 5.0

_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE groups (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, summary BLOB, assignment BLOB);
-- AUTOINCREMENT: a number is never given twice, also when the newest rows are gone; feed ids depend on it.
CREATE TABLE rounds (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    ce_id TEXT NOT NULL UNIQUE,
    group_id INTEGER NOT NULL REFERENCES groups (id),
    timestamp INTEGER NOT NULL,
    written INTEGER NOT NULL,  -- when the record was written to its topic; never less than the group's round before
    stored INTEGER NOT NULL,  -- when it was stored here, by this machine's clock
    cause TEXT NOT NULL,
    moved INTEGER NOT NULL,
    summary BLOB NOT NULL,
    body BLOB NOT NULL);
CREATE INDEX rounds_by_group ON rounds (group_id, written, seq);
CREATE INDEX rounds_by_time ON rounds (timestamp);
CREATE INDEX rounds_by_storing ON rounds (stored);
-- The partition of a group's newest record: where a topic gets more partitions, its older records stay in another.
CREATE TABLE places (
    topic TEXT NOT NULL, group_id INTEGER NOT NULL, partition INTEGER NOT NULL, written INTEGER NOT NULL,
    PRIMARY KEY (topic, group_id)) WITHOUT ROWID;
CREATE TABLE stories (
    id INTEGER PRIMARY KEY,
    sort TEXT NOT NULL,
    group_id INTEGER NOT NULL REFERENCES groups (id),
    number INTEGER NOT NULL,
    ce_id TEXT NOT NULL,
    seq INTEGER NOT NULL UNIQUE,
    opened INTEGER NOT NULL,
    began INTEGER NOT NULL,  -- when it was opened, but not after it was stored: clocks may be ahead
    updated INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    written INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    open INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (sort, group_id, number));
CREATE INDEX stories_by_time ON stories (sort, began);
-- Every record of a story that was read, for the group as of a moment.
CREATE TABLE versions (
    sort TEXT NOT NULL, group_id INTEGER NOT NULL, number INTEGER NOT NULL, happened INTEGER NOT NULL,
    opened INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (sort, group_id, number, happened)) WITHOUT ROWID;
CREATE TABLE annotations (id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
-- Sums over a group's closed episodes; ``counted``: the last of them.
CREATE TABLE downtime (
    group_id INTEGER PRIMARY KEY REFERENCES groups (id),
    counted INTEGER NOT NULL,
    lower_ms INTEGER NOT NULL,
    upper_ms INTEGER NOT NULL,
    unbounded INTEGER NOT NULL);
"""


class WrongHistory(BadInput):
    """The file named by --database is not a history of this cluster."""


class HistoryFailure(OutsideFailure):
    """The history file can't be used."""


class HistoryBlocked(HistoryFailure):
    """The history file can't be written for now: the disk is full, or another program holds a lock."""


class HistoryInUse(HistoryFailure):
    """Another process serves from the history file."""


class HistoryGone(HistoryFailure):
    """The history file was removed or replaced while it was in use."""


#: Message for a file that can't be read.
DAMAGED: Final = "is damaged; restore a copy, or remove it to build it anew from the topics"
_BLOCKED: Final = {
    sqlite3.SQLITE_BUSY: "another program holds a lock on it",
    sqlite3.SQLITE_LOCKED: "another program holds a lock on it",
    sqlite3.SQLITE_FULL: "the disk is full",
}
_REASONS: Final = {
    **_BLOCKED,
    sqlite3.SQLITE_READONLY: "it can't be written: the file, its folder or the disk is read-only",
    sqlite3.SQLITE_PERM: "no permission to use it",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened; its folder must exist, and be writable",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}
#: Error of a write → the error that SQLite should report.
_DISK: Final = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
}


def _of_the_disk(path: Path) -> int:
    """Return the reason for an I/O error of SQLite's, which is unspecific in some places, by writing a file."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(bytes(4096))
    except OSError as error:
        return _DISK.get(error.errno or 0, sqlite3.SQLITE_IOERR)
    return sqlite3.SQLITE_IOERR


def _failure(subject: str, path: Path, error: Exception) -> HistoryFailure:
    if isinstance(error, OSError):
        file = f"{error.filename}: " if error.filename and str(error.filename) not in subject else ""
        return HistoryFailure(f"{subject}: {file}{error.strerror or error}")
    if not isinstance(error, sqlite3.Error):
        return HistoryFailure(f"{subject}: {DAMAGED} ({error})")
    code = getattr(error, "sqlite_errorcode", None)  # errors of the module itself have none
    primary = None if code is None else code & 0xFF
    if primary == sqlite3.SQLITE_IOERR:
        primary = _of_the_disk(path)
    kind = HistoryBlocked if primary in _BLOCKED else HistoryFailure
    reason = _REASONS.get(primary or 0)
    return kind(f"{subject}: {f'{reason} ({error})' if reason else error}")


@contextmanager
def plainly(path: Path, what: str = "history") -> Iterator[None]:
    """Errors of SQLite, of the disk, and of stored bytes that don't decode, as one line about the file.

    Raises:
        HistoryBlocked: waiting may help.
        HistoryFailure: waiting does not help.
    """
    try:
        yield
    except (sqlite3.Error, OSError, zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _failure(f"{what} {path}", path, error) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report errors as :func:`plainly`, and wrong values or missing rows as damage: around reading only."""
    with plainly(path):
        try:
            yield
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise _failure(f"history {path}", path, error) from error


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """A connection with the settings that every user of the file needs.

    ``mode`` is what SQLite's URIs take: ``ro``, ``rw`` (the file must exist), ``rwc``, or ``ro&immutable=1``, which
    takes no lock and writes nothing beside the file.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_SECONDS,
    )
    try:
        # A killed process loses nothing that was committed; a lost machine loses the newest transactions whole,
        # with their offsets, and reads them again from the topics.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -8000")
    except BaseException:
        connection.close()
        raise
    return connection
