"""The history file: its tables, its single writer, the checks of its path, and plain messages for SQLite's errors.

The path of ``--database`` is examined before anything is written, so that no file of another program changes. A new
history is built in a folder beside the path and moved into place, so that a full disk or a crash leaves the old file.
"""

import fcntl
import os
import secrets
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from assignors.errors import BadInput, OutsideFailure

#: Size of an SQLite file's header; bytes 68 to 71 are its application id (https://www.sqlite.org/fileformat.html).
_HEADER_BYTES: Final = 100
#: Version of the tables. Increase it with every change of the tables; a file of another version is refused.
SCHEMA_VERSION: Final = 2
#: "KRMH" (``PRAGMA application_id``) in the header identifies a history.
APPLICATION_ID: Final = 0x4B524D48
#: Seconds to wait for another program's lock; shorter than the time after which the follower counts as stalled.
_LOCK_WAIT_SECONDS: Final = 5.0
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE groups (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, summary BLOB, assignment BLOB);
-- AUTOINCREMENT: no number is used twice, even if the newest rows are gone; feed ids depend on it.
-- written: when the record was written to its topic, but never before the group's previous round.
-- stored: when it was stored here, by this machine's clock.
CREATE TABLE rounds (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, ce_id TEXT NOT NULL UNIQUE,
    group_id INTEGER NOT NULL REFERENCES groups (id),
    timestamp INTEGER NOT NULL, written INTEGER NOT NULL, stored INTEGER NOT NULL,
    cause TEXT NOT NULL, moved INTEGER NOT NULL, summary BLOB NOT NULL, body BLOB NOT NULL);
CREATE INDEX rounds_by_group ON rounds (group_id, written, seq);
CREATE INDEX rounds_by_time ON rounds (timestamp);
CREATE INDEX rounds_by_storing ON rounds (stored);
-- The partition of a group's newest record; once a topic got more partitions, older records are in another partition.
CREATE TABLE places (
    topic TEXT NOT NULL, group_id INTEGER NOT NULL, partition INTEGER NOT NULL, written INTEGER NOT NULL,
    PRIMARY KEY (topic, group_id)) WITHOUT ROWID;
-- began: when it was opened, but never after it was stored, as clocks may be ahead.
CREATE TABLE stories (
    id INTEGER PRIMARY KEY,
    sort TEXT NOT NULL, group_id INTEGER NOT NULL REFERENCES groups (id), number INTEGER NOT NULL,
    ce_id TEXT NOT NULL, seq INTEGER NOT NULL UNIQUE,
    opened INTEGER NOT NULL, began INTEGER NOT NULL, updated INTEGER NOT NULL,
    partition INTEGER NOT NULL, written INTEGER NOT NULL, stored INTEGER NOT NULL,
    open INTEGER NOT NULL, body BLOB NOT NULL,
    UNIQUE (sort, group_id, number));
CREATE INDEX stories_by_time ON stories (sort, began);
-- Every record of a story that was read, for groups as of a moment.
CREATE TABLE versions (
    sort TEXT NOT NULL, group_id INTEGER NOT NULL, number INTEGER NOT NULL, happened INTEGER NOT NULL,
    opened INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (sort, group_id, number, happened)) WITHOUT ROWID;
CREATE TABLE annotations (id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
-- Sums over a group's closed episodes; ``counted``: the last of them.
CREATE TABLE downtime (
    group_id INTEGER PRIMARY KEY REFERENCES groups (id), counted INTEGER NOT NULL,
    lower_ms INTEGER NOT NULL, upper_ms INTEGER NOT NULL, unbounded INTEGER NOT NULL);
"""


class HistoryFailure(OutsideFailure):
    """The history file can't be used."""


class HistoryBlocked(HistoryFailure):
    """The history file can't be written for now: the disk is full, or another program holds a lock."""


def _companion_files(path: Path) -> list[Path]:
    """Return the files that SQLite keeps beside a database; the first is its write-ahead log."""
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal")]


def _check_file(path: Path, cluster_id: str) -> bool:
    """Return True for a history of this cluster and version, False for a missing or empty file; else raise BadInput."""

    def refusal(reason: str) -> BadInput:
        return BadInput(f"--database {path}: {reason}")

    if path.exists() and not path.is_file():
        raise refusal(f"is a {'folder' if path.is_dir() else 'device or pipe'}; name a file")
    if not path.exists() or path.stat().st_size == 0:
        for companion_file in filter(Path.exists, _companion_files(path)):
            raise refusal(f"{companion_file.name} exists without {path.name}; remove it, or name another file")
        return False
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(b"SQLite format 3\0"):
        raise refusal("is not a history (it is not an SQLite file); name another file")
    if len(header) == _HEADER_BYTES and int.from_bytes(header[68:72]) != APPLICATION_ID:
        raise refusal("is a database of another program; name another file")
    # If no log is beside the file, no program writes the file, and it can be read without creating other files.
    with closing(connect(path, "ro" if _companion_files(path)[0].exists() else "ro&immutable=1")) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        stored = connection.execute("SELECT value FROM meta WHERE key = 'cluster_id'").fetchone()
    if stored != (cluster_id,):
        raise refusal(
            f"holds the rounds of cluster {stored[0] if stored else 'unknown'}, but this cluster is {cluster_id}; "
            "name another file, or remove this one to build it again from the topics"
        )
    if version != SCHEMA_VERSION:
        raise refusal(
            f"was written by another release (version {version} of the file, this release writes {SCHEMA_VERSION}); "
            "run that release, or name another file, which is built from the topics"
        )
    return True


def _create_file(path: Path, cluster_id: str) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        new = Path(folder) / path.name
        with closing(connect(new, "rwc")) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            pragmas = f"PRAGMA user_version = {SCHEMA_VERSION}; PRAGMA application_id = {APPLICATION_ID};"
            connection.executescript(f"BEGIN; {_SCHEMA} {pragmas}")
            meta = {"cluster_id": cluster_id, "epoch": secrets.token_hex(4), "trimmed": "0"}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            connection.execute("COMMIT")
        new.replace(path)


class HistoryFile:
    """The single writer of a history; a missing file is created empty.

    Raise BadInput if the path has another file, or a history of another cluster or release. Raise HistoryFailure if the
    file is damaged, can't be written, or another process uses it; it stays as it was.
    """

    def __init__(self, path: Path, cluster_id: str) -> None:
        self.path = Path(os.path.realpath(path))  # two names of the same file have the same lock
        with history_errors(path, "--database"), ExitStack() as opened:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _check_file(self.path, cluster_id)  # before a lock is created, as the path may be another program's file
            lock_path = self.path.with_name(f"{self.path.name}.lock")
            self._lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            opened.callback(os.close, self._lock)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel releases it with the process
            except BlockingIOError as error:
                reason = "another `serve` uses it; stop that one, or name another file"
                raise HistoryFailure(f"--database {path}: {reason}") from error
            if not _check_file(self.path, cluster_id):
                _create_file(self.path, cluster_id)
            self.connection = connect(self.path)
            opened.callback(self.connection.close)
            self.connection.execute("BEGIN IMMEDIATE")  # reports a lock, or a read-only file, at the start
            self.connection.execute("COMMIT")
            self._opened = opened.pop_all()
        self._files = {file: _inode(file) for file in (self.path, *_companion_files(self.path))}

    @property
    def mark(self) -> str:
        """The text in the lock file beside the history file; it stays the same when the history is replaced."""
        return os.pread(self._lock, 100, 0).decode(errors="replace")

    @mark.setter
    def mark(self, text: str) -> None:
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text.encode(), 0)

    def check(self) -> None:
        """Raise HistoryFailure if the history or its log was removed or replaced."""
        with history_errors(self.path):
            for path, identity in self._files.items():
                if _inode(path) != identity:
                    advice = "the next start builds it again from the topics, or goes on with what is there"
                    raise HistoryFailure(f"history {path}: was removed or replaced while in use; {advice}")

    def close(self) -> None:
        """Merge the write-ahead log into the history file, and close the file."""
        with self._opened:
            # Otherwise the changes stay in the log, which the next start merges.
            with suppress(sqlite3.Error):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.close()
            with suppress(OSError):
                if _inode(self.path) != self._files[self.path]:
                    # SQLite would apply the logs of this history to the next file at this path.
                    for path in _companion_files(self.path):
                        if self._files[path] is not None and _inode(path) == self._files[path]:
                            path.unlink()


def _inode(path: Path) -> tuple[int, int] | None:
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


DAMAGED_HISTORY_ADVICE: Final = "is damaged; restore a copy, or remove it to build it again from the topics"
#: Messages by SQLite's primary error code.
_REASONS: Final = {
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), "another program holds a lock on it"),
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it can't be written: the file, its folder or the disk is read-only",
    sqlite3.SQLITE_PERM: "no permission to use it",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened; its folder must exist, and be writable",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), DAMAGED_HISTORY_ADVICE),
}
_BLOCKING_ERRORS: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)
#: A disk with less free space than this counts as full.
_MIN_FREE_BYTES: Final = 64 * 1024


def _failure(subject: str, path: Path, error: Exception) -> HistoryFailure:
    if isinstance(error, OSError):
        file = f"{error.filename}: " if error.filename and str(error.filename) not in subject else ""
        return HistoryFailure(f"{subject}: {file}{error.strerror or error}")
    if not isinstance(error, sqlite3.Error):
        return HistoryFailure(f"{subject}: {DAMAGED_HISTORY_ADVICE} ({error})")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # errors of the sqlite3 module itself have no code
    # SQLite reports a full disk as an unspecific I/O error in some places.
    if code == sqlite3.SQLITE_IOERR and shutil.disk_usage(path.parent).free < _MIN_FREE_BYTES:
        code = sqlite3.SQLITE_FULL
    reason = _REASONS.get(code)
    kind = HistoryBlocked if code in _BLOCKING_ERRORS else HistoryFailure
    return kind(f"{subject}: {f'{reason} ({error})' if reason else error}")


@contextmanager
def history_errors(path: Path, what: str = "history") -> Iterator[None]:
    """Convert errors of SQLite, the disk and decoding to HistoryFailure, or to HistoryBlocked if waiting may help."""
    try:
        yield
    except (sqlite3.Error, OSError, zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _failure(f"{what} {path}", path, error) from error


@contextmanager
def history_read_errors(path: Path) -> Iterator[None]:
    """Convert errors during reads like :func:`history_errors`; wrong values and missing rows mean a damaged file."""
    with history_errors(path):
        try:
            yield
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise _failure(f"history {path}", path, error) from error


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Return a connection with the settings that all users of the file need.

    ``mode`` is that of SQLite's URIs; ``ro&immutable=1`` takes no lock and creates no file.
    """
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, _LOCK_WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    try:
        # A killed process loses nothing that was committed; a lost machine loses the newest transactions whole,
        # with their offsets, and reads them again from the topics.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -8000")
    except BaseException:
        connection.close()
        raise
    return connection
