"""The durable history: rounds and topic offsets in one SQLite transaction, one writer, many readers.

Rows carry the diff's bytes as they stood in the topic (deflated), its summary and its changes of ownership:
lists and timelines are put together from stored bytes without decoding. ``seq`` numbers rounds in the order they
were stored; with the file's ``epoch`` it is a place in the feed.
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from streaming.serve import rounds, schema
from streaming.serve.rounds import GroupSummary, RoundSummary
from streaming.wire.codec import encode
from streaming.wire.events import Diff, LatestAssignment

log = logging.getLogger(__name__)

_DELETE_BATCH: Final = 500

_diff_decoder = msgspec.json.Decoder(Diff)
_assignment_decoder = msgspec.json.Decoder(LatestAssignment)
_summary_decoder = msgspec.json.Decoder(GroupSummary)


class Record(Struct, frozen=True):
    """One record of the diff or assignment topic; ``id`` is its ``ce_id``."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    id: str | None


class StoredRound(Struct, frozen=True):
    """A round as the feed sends it: its number, what filters need, and its bytes."""

    seq: int
    summary: RoundSummary
    body: bytes


class Applied(Struct):
    """What one transaction stored: new rounds, groups that changed, and what was dropped."""

    rounds: list[StoredRound]
    groups: dict[str, GroupSummary]
    repeated: int = 0
    refused: int = 0


class Limits(Struct, frozen=True):
    """Retention: rounds older than ``max_age_ms``, or beyond ``max_bytes`` of file, go, oldest first."""

    max_age_ms: int
    max_bytes: int


class Place(Struct, frozen=True):
    """Where the history stands: a feed id names ``epoch`` and a number in ``trimmed`` … ``last``."""

    epoch: str
    trimmed: int
    last: int


class History:
    """The writer. One thread at a time uses it."""

    def __init__(self, path: Path, *, cluster_id: str, diffs_topic: str) -> None:
        self.path = path
        self._diffs_topic = diffs_topic
        self._connection = schema.prepare(path, cluster_id)
        meta = dict(self._connection.execute("SELECT key, value FROM meta"))
        self.epoch = meta["epoch"]
        self._group_ids: dict[str, int] = {}
        self.groups: dict[str, GroupSummary] = {}
        for group_id, name, summary in self._connection.execute("SELECT id, name, summary FROM groups"):
            self._group_ids[name] = group_id
            if summary is not None:
                self.groups[name] = _summary_decoder.decode(summary)

    def close(self) -> None:
        """Fold the write-ahead log into the file and let it go."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    @property
    def place(self) -> Place:
        """What is stored now."""
        trimmed = self._connection.execute("SELECT value FROM meta WHERE key = 'trimmed'").fetchone()[0]
        last = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'rounds'").fetchone()
        return Place(self.epoch, int(trimmed), last[0] if last else 0)

    def positions(self) -> dict[tuple[str, int], int]:
        """``{(topic, partition): next offset to read}``."""
        rows = self._connection.execute("SELECT topic, partition, next_offset FROM positions")
        return {(topic, partition): offset for topic, partition, offset in rows}

    def topic_ids(self, found: dict[str, str]) -> None:
        """Compare the topics' ids with those read before: a topic made anew is read from its start."""
        with self._transaction() as connection:
            for topic, topic_id in found.items():
                known = connection.execute(
                    "SELECT value FROM meta WHERE key = ?", (f"topic:{topic}",)
                ).fetchone()
                if known is not None and known[0] != topic_id:
                    log.warning("topic %s was deleted and made anew: reading it from its start", topic)
                    connection.execute("DELETE FROM positions WHERE topic = ?", (topic,))
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"topic:{topic}", topic_id))

    def append(self, records: Iterable[Record]) -> Applied:
        """Store records and the offsets after them, or nothing at all."""
        applied = Applied([], {})
        positions: dict[tuple[str, int], int] = {}
        groups_before = self.groups
        self.groups = dict(self.groups)
        try:
            with self._transaction() as connection:
                for record in records:
                    self._store(connection, record, applied)
                    positions[record.topic, record.partition] = record.offset + 1
                connection.executemany(
                    "INSERT OR REPLACE INTO positions VALUES (?, ?, ?)",
                    [(topic, partition, offset) for (topic, partition), offset in positions.items()],
                )
                connection.executemany(
                    "UPDATE groups SET summary = ? WHERE id = ?",
                    [(encode(summary), self._group_ids[name]) for name, summary in applied.groups.items()],
                )
        except sqlite3.Error as error:
            self.groups = groups_before
            raise schema.HistoryFailure(f"history {self.path}: {error}") from error
        return applied

    def _store(self, connection: sqlite3.Connection, record: Record, applied: Applied) -> None:
        try:
            if record.topic == self._diffs_topic:
                self._store_diff(connection, record, applied)
            else:
                self._store_assignment(connection, record, applied)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            applied.refused += 1
            where = f"{record.topic} partition {record.partition} offset {record.offset}"
            log.warning("%s: not usable, skipped: %s", where, error)

    def _store_diff(self, connection: sqlite3.Connection, record: Record, applied: Applied) -> None:
        if record.id is None or record.value is None:
            raise msgspec.ValidationError("a diff has a header ce_id and a value")
        diff = _diff_decoder.decode(record.value)
        summary = rounds.summarise(record.id, diff)
        stored = connection.execute(
            "INSERT INTO rounds (ce_id, group_id, timestamp, cause, moved, summary, changes, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ce_id) DO NOTHING",
            (
                record.id,
                self._group(connection, diff.group_id),
                diff.timestamp,
                diff.cause.kind,
                diff.moved,
                encode(summary),
                zlib.compress(encode(rounds.changes(diff)), 1),
                zlib.compress(record.value, 1),
            ),
        )
        if stored.rowcount == 0:
            applied.repeated += 1
            return
        seq = stored.lastrowid or 0
        applied.rounds.append(StoredRound(seq, summary, record.value))
        group = rounds.advance(self.groups.get(diff.group_id), seq, summary)
        self.groups[diff.group_id] = applied.groups[diff.group_id] = group

    def _store_assignment(self, connection: sqlite3.Connection, record: Record, applied: Applied) -> None:
        if record.key is None:
            raise msgspec.ValidationError("an assignment has a key")
        name = record.key.decode()
        group_id = self._group(connection, name)
        connection.execute("UPDATE groups SET assignment = ? WHERE id = ?", (record.value, group_id))
        known = self.groups.get(name)
        if record.value is not None:
            group = rounds.with_assignment(known, _assignment_decoder.decode(record.value))
        elif known is not None:
            group = msgspec.structs.replace(known, state="Dead", members=0)
        else:
            return
        if group != known:
            self.groups[name] = applied.groups[name] = group

    def _group(self, connection: sqlite3.Connection, name: str) -> int:
        known = self._group_ids.get(name)
        if known is None:
            connection.execute("INSERT OR IGNORE INTO groups (name) VALUES (?)", (name,))
            row = connection.execute("SELECT id FROM groups WHERE name = ?", (name,)).fetchone()
            known = self._group_ids[name] = row[0]
        return known

    def trim(self, limits: Limits, now_ms: int) -> int:
        """Drop what retention no longer covers, from the oldest on; how many rounds went."""
        dropped = 0
        while batch := self._trim_batch(limits, now_ms):
            dropped += batch
        if dropped:
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()
        return dropped

    def _trim_batch(self, limits: Limits, now_ms: int) -> int:
        execute = self._connection.execute
        oldest = execute(
            "SELECT seq, timestamp FROM rounds ORDER BY seq LIMIT ?", (_DELETE_BATCH,)
        ).fetchall()
        if not oldest:
            return 0
        if self.used_bytes() > limits.max_bytes:
            through = oldest[-1][0]
        else:
            expired = [seq for seq, timestamp in oldest if timestamp < now_ms - limits.max_age_ms]
            # Only a run from the start may go: a feed id stands for everything up to it.
            kept = next(
                (index for index, row in enumerate(oldest) if row[0] not in set(expired)), len(oldest)
            )
            if kept == 0:
                return 0
            through = oldest[kept - 1][0]
        with self._transaction() as connection:
            gone = connection.execute("DELETE FROM rounds WHERE seq <= ?", (through,)).rowcount
            connection.execute("UPDATE meta SET value = ? WHERE key = 'trimmed'", (str(through),))
        return gone

    def used_bytes(self) -> int:
        """Bytes of the file that hold data."""
        pragma = {
            name: self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        }
        return int((pragma["page_count"] - pragma["freelist_count"]) * pragma["page_size"])

    def _transaction(self) -> _Transaction:
        return _Transaction(self._connection)


class _Transaction:
    """``BEGIN IMMEDIATE`` … ``COMMIT``, or ``ROLLBACK`` when something is raised."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> sqlite3.Connection:
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
