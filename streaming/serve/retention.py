"""Retention of the history: which rounds are dropped next, and which groups."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

_DELETE_BATCH: Final = 500
_WITHOUT_ROUNDS: Final = "NOT EXISTS (SELECT 1 FROM rounds WHERE rounds.group_id = groups.id)"


class Batch(NamedTuple):
    """Rounds to drop in one transaction: up to a number, with the stories that were stored before a time (ms)."""

    last_seq: int
    stories_before: int | None = None


class Retention(Struct, frozen=True):
    """The oldest rounds are dropped when older than ``max_age_ms``, or while the file exceeds ``max_bytes``."""

    max_age_ms: int
    max_bytes: int

    def batch(self, connection: sqlite3.Connection, now_ms: int) -> Batch | None:
        """Return the rounds to drop next; None if all may stay."""
        oldest = connection.execute(
            "SELECT seq, stored FROM rounds ORDER BY seq LIMIT ?", (_DELETE_BATCH,)
        ).fetchall()
        if not oldest:
            return None
        if used_bytes(connection) > self.max_bytes:
            return Batch(*oldest[-1])
        # Only a run from the start may go: a feed id covers everything up to it. What was stored before a round
        # that is due is due too, whatever the clock said when it was stored.
        due = connection.execute(
            "SELECT MAX(seq) FROM rounds WHERE stored < ?", (now_ms - self.max_age_ms,)
        ).fetchone()[0]
        return None if due is None else Batch(min(due, oldest[-1][0]))


class Trimmed(NamedTuple):
    """The result of retention: the number of rounds and the groups that it dropped."""

    rounds: int
    groups: list[str]


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file that hold data."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def drop_groups(connection: sqlite3.Connection, dead: Iterable[str]) -> set[str]:
    """Drop dead groups without a round, and names that have neither round, assignment nor story.

    Returns:
        The names that were dropped.
    """
    without = dict(connection.execute(f"SELECT name, id FROM groups WHERE {_WITHOUT_ROUNDS}"))  # noqa: S608 - ours
    empty = connection.execute(
        f"SELECT name FROM groups WHERE summary IS NULL AND assignment IS NULL AND {_WITHOUT_ROUNDS} "  # noqa: S608
        "AND NOT EXISTS (SELECT 1 FROM stories WHERE stories.group_id = groups.id)"
    )
    dropped = {*(name for name in dead if name in without), *(name for (name,) in empty)}
    ids = [(without[name],) for name in dropped]
    for table in ("stories", "downtime", "places"):
        connection.executemany(f"DELETE FROM {table} WHERE group_id = ?", ids)  # noqa: S608 - our tables
    connection.executemany("DELETE FROM groups WHERE id = ?", ids)
    return dropped
