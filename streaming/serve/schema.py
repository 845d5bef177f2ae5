"""The tables of the history file, and what makes a file usable: this version, this cluster."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from assignors.errors import BadInput, OutsideFailure

#: Raise it with every change below: a file of another version is rebuilt from the topics.
SCHEMA_VERSION: Final = 1

_TABLES: Final = """
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
    cause TEXT NOT NULL,
    moved INTEGER NOT NULL,
    summary BLOB NOT NULL,
    changes BLOB NOT NULL,
    body BLOB NOT NULL);
CREATE INDEX rounds_by_group ON rounds (group_id, seq);
CREATE INDEX rounds_by_time ON rounds (timestamp);
"""


class WrongHistory(BadInput):
    """The history file belongs to another cluster."""


class HistoryFailure(OutsideFailure):
    """The history file can't be used."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection with the settings that every user of the file needs."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}{'?mode=ro' if read_only else ''}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=10,
    )
    # A killed process loses nothing that was committed; a lost machine loses the newest transactions whole,
    # with their offsets, and reads them again from the topics.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA mmap_size = 0")
    connection.execute("PRAGMA cache_size = -8000")
    return connection


def _current(path: Path) -> dict[str, str] | None:
    """``meta`` of a file of this version; None for any other file."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            if connection.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):
                return None
            return dict(connection.execute("SELECT key, value FROM meta"))
    except sqlite3.DatabaseError:
        return None


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def prepare(path: Path, cluster_id: str) -> sqlite3.Connection:
    """The writer's connection; a missing file, or one of another version, starts empty.

    Raises:
        WrongHistory: the file holds another cluster's rounds.
        HistoryFailure: the folder can't be written, or the file is locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = _current(path) if path.exists() else None
        if found is not None and found["cluster_id"] != cluster_id:
            raise WrongHistory(
                f"--database {path}: holds the rounds of cluster {found['cluster_id']}, this is {cluster_id}; "
                "name another file, or remove it to build it anew from the topics"
            )
        if found is None:
            _remove(path)
        connection = connect(path)
        if found is None:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION};")
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [("cluster_id", cluster_id), ("epoch", secrets.token_hex(4)), ("trimmed", "0")],
            )
            connection.execute("COMMIT")
    except (OSError, sqlite3.Error) as error:
        raise HistoryFailure(f"--database {path}: {error}") from error
    return connection
