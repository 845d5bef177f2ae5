"""The tables of the history file, the mark that says whose it is, and SQLite's errors in plain words."""

from __future__ import annotations

import errno
import secrets
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from assignors.errors import BadInput, OutsideFailure

#: Raise it with every change below: an older file is kept beside, and a new one is built from the topics.
SCHEMA_VERSION: Final = 1
#: "KRMH" in the header of the file (``PRAGMA application_id``): it is ours.
APPLICATION_ID: Final = 0x4B524D48
#: The tables of every version so far; version 1 was written without the mark at first and is known by them.
TABLES: Final = frozenset({"meta", "positions", "groups", "rounds"})

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
    changes BLOB NOT NULL,
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


#: What to do about a file that SQLite, or we, can't read.
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
#: What a file that can't be written says of its disk.
_DISK: Final = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
}


def _of_the_disk(path: Path) -> int:
    """What is wrong with a disk of which SQLite says no more than I/O error, as it does in some places."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(bytes(4096))
    except OSError as error:
        return _DISK.get(error.errno or 0, sqlite3.SQLITE_IOERR)
    return sqlite3.SQLITE_IOERR


def _failure(subject: str, path: Path, error: Exception) -> HistoryFailure:
    if isinstance(error, OSError):
        other = f"{error.filename}: " if error.filename and str(error.filename) not in subject else ""
        return HistoryFailure(f"{subject}: {other}{error.strerror or error}")
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
    """As :func:`plainly`, around nothing but the reading of what is stored: there, values that nobody here has
    written, such as text in place of a number, or a row that is missing, are damage too.
    """
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
        connection.execute("PRAGMA mmap_size = 0")
        connection.execute("PRAGMA cache_size = -8000")
    except BaseException:
        connection.close()
        raise
    return connection


def create(connection: sqlite3.Connection, cluster_id: str) -> None:
    """Create the tables in an empty file."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(
        f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; PRAGMA application_id = {APPLICATION_ID};"
    )
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        [("cluster_id", cluster_id), ("epoch", secrets.token_hex(4)), ("trimmed", "0")],
    )
    connection.execute("COMMIT")
