"""The durable history: rounds and topic offsets in one SQLite transaction, one writer, many readers.

Rows carry the diff's bytes as they stood in the topic (deflated; now and then one that leaves members out is stored
with everybody), its summary and its changes of ownership: lists and timelines are put together from stored bytes
without decoding. ``seq`` numbers rounds in the order they were stored; with the file's ``epoch`` it is a place in
the feed.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from streaming.serve import records, rounds, schema
from streaming.serve.historyfile import HistoryFile
from streaming.serve.owners import owners_before
from streaming.serve.records import DecodedAssignment, DecodedRound, TopicRecord, UnusableRecord
from streaming.serve.rounds import GroupSummary, RoundSummary
from streaming.serve.stories import DecodedStory, Sort, StoredStory, Stories, StoriesNow
from streaming.wire.codec import encode
from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.owners import Owners

log = logging.getLogger(__name__)

_DELETE_BATCH: Final = 500

_summary_decoder = msgspec.json.Decoder(GroupSummary)


#: After so many rounds of a group that leave members out one is stored with everybody, so that who owned what is
#: found again by no more than these.
MOST_BRIEF: Final = 500
#: Groups whose owners are remembered between two such rounds.
MOST_KEPT: Final = 64

#: Topics of stories, without a prefix.
STORIES: Final[Mapping[str, Sort]] = {
    "rebalance.episodes": "episode",
    "rebalance.incidents": "incident",
}


class Kept:
    """The owners in a group after its newest round, and how many rounds do not name everybody since one did."""

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self.rounds = 0

    def take(self, diff: Diff, *, whole: bool) -> None:
        """Take the next round; ``whole``: it is stored with everybody."""
        self.owners.take(diff)
        self.rounds = 0 if whole else self.rounds + 1


class StoredRound(Struct, frozen=True):
    """A round as the feed sends it: its number, what filters need, and its bytes."""

    seq: int
    summary: RoundSummary
    body: bytes


class HistoryUpdate(Struct):
    """What one transaction stored: new rounds and stories, groups that changed, and what was dropped.

    ``told``: what is told now, if that changed.
    """

    rounds: list[StoredRound]
    groups: dict[str, GroupSummary]
    stories: list[StoredStory] = []
    told: StoriesNow | None = None
    repeated: int = 0
    refused: int = 0


class Retention(Struct, frozen=True):
    """The oldest rounds are dropped when older than ``max_age_ms``, or while the file exceeds ``max_bytes``."""

    max_age_ms: int
    max_bytes: int


class Extent(Struct, frozen=True):
    """The extent of the history: a feed id is ``epoch`` and a number from ``trimmed`` to ``last``."""

    epoch: str
    trimmed: int
    last: int


class History:
    """Writes the history; only one thread may use it at a time. ``stories``: which sort of them a topic holds."""

    def __init__(
        self, path: Path, *, cluster_id: str, diffs_topic: str, stories: Mapping[str, Sort] = STORIES
    ) -> None:
        self._sorts = stories
        self._file = HistoryFile(path, cluster_id)
        self.path = self._file.path
        self._diffs_topic = diffs_topic
        self._connection = self._file.connection
        self._group_ids: dict[str, int] = {}
        #: Of groups whose diffs leave members out, those of the newest.
        self._owners: OrderedDict[str, Kept] = OrderedDict()
        self.groups: dict[str, GroupSummary] = {}
        try:
            self._load()
            self._refuse_others()
        except BaseException:
            self._file.close()
            raise

    def _refuse_others(self) -> None:
        """A history is of one diff topic: rounds of two would stand there as one monitor's."""
        with schema.reading(self.path):
            known = {topic for topic, _ in self.positions()} | self.topic_ids().keys()
            if self._diffs_topic in known or not self.extent.last:
                return
            names = ", ".join(sorted(known))
        raise schema.WrongHistory(
            f"--database {self.path}: holds the rounds of other topics ({names}), this is {self._diffs_topic}; "
            "name another file, or remove it to build it anew from the topics"
        )

    def _load(self) -> None:
        with schema.reading(self.path):
            schema.extend(self._connection)
            self._stories = Stories(self._connection)
            meta = dict(self._connection.execute("SELECT key, value FROM meta"))
            self.epoch: str = meta["epoch"]
            for group_id, name, summary in self._connection.execute("SELECT id, name, summary FROM groups"):
                self._group_ids[name] = group_id
                if summary is None:
                    continue
                group = self.groups[name] = _summary_decoder.decode(summary)
                if group.group_id != name:
                    raise ValueError(f"group {group.group_id!r} stands under another name")

    def _plainly(self) -> AbstractContextManager[None]:
        return schema.plainly(self.path)

    def close(self) -> None:
        """Merge the write-ahead log into the file and close it."""
        self._file.close()

    def check(self) -> None:
        """Raise HistoryGone when the file that is written is no longer the one at its path."""
        self._file.check()

    @property
    def extent(self) -> Extent:
        """What is stored now."""
        with schema.reading(self.path):
            trimmed = self._connection.execute("SELECT value FROM meta WHERE key = 'trimmed'").fetchone()[0]
            last = self._connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'rounds'"
            ).fetchone()
            return Extent(self.epoch, int(trimmed), last[0] if last else 0)

    @property
    def told(self) -> StoriesNow:
        """What is told now of all groups."""
        return self._stories.told

    def positions(self) -> dict[tuple[str, int], int]:
        """``{(topic, partition): next offset to read}``."""
        with self._plainly():
            rows = self._connection.execute("SELECT topic, partition, next_offset FROM positions")
            return {(topic, partition): offset for topic, partition, offset in rows}

    def topic_ids(self) -> dict[str, str]:
        """``{topic: id}`` of the topics that :meth:`positions` are of."""
        with self._plainly():
            return dict(
                self._connection.execute("SELECT substr(key, 7), value FROM meta WHERE key LIKE 'topic:%'")
            )

    def renew(self, topic_ids: Mapping[str, str]) -> None:
        """Take note of the topics that are read from now on. The rounds of those they replace stay."""
        known = self.topic_ids()
        with self._transaction() as connection:
            for topic, topic_id in topic_ids.items():
                if known.get(topic, topic_id) != topic_id:
                    connection.execute("DELETE FROM positions WHERE topic = ?", (topic,))
                    if topic in self._sorts:
                        self._stories.forget(self._sorts[topic])
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"topic:{topic}", topic_id))

    def append(self, found: Iterable[TopicRecord]) -> HistoryUpdate:
        """Store records and the offsets after them, or nothing at all."""
        batch = HistoryUpdate([], {})
        positions: dict[tuple[str, int], int] = {}
        before = self.groups, self._group_ids
        told = self._stories.begin()
        self.groups, self._group_ids = dict(self.groups), dict(self._group_ids)
        try:
            with self._transaction() as connection:
                for record in found:
                    self._store(connection, record, batch)
                    positions[record.topic, record.partition] = record.offset + 1
                connection.executemany(
                    "INSERT OR REPLACE INTO positions VALUES (?, ?, ?)",
                    [(topic, partition, offset) for (topic, partition), offset in positions.items()],
                )
                connection.executemany(
                    "UPDATE groups SET summary = ? WHERE id = ?",
                    [(encode(summary), self._group_ids[name]) for name, summary in batch.groups.items()],
                )
        except BaseException:
            self._owners.clear()
            self.groups, self._group_ids = before
            self._stories.told = told
            raise
        if batch.stories or batch.told:
            batch.told = self._stories.told
        else:
            self._stories.told = told
        return batch

    def _store(self, connection: sqlite3.Connection, record: TopicRecord, batch: HistoryUpdate) -> None:
        """Store one record, or log why it can't be used."""
        try:
            if record.topic == self._diffs_topic:
                found = records.round_of(record, lambda diff: self._whole(connection, diff))
                self._store_round(connection, found, batch)
            elif record.topic in self._sorts:
                self._store_story(connection, records.story_of(record, self._sorts[record.topic]), batch)
            else:
                self._store_assignment(connection, records.assignment_of(record), batch)
        except UnusableRecord as error:
            batch.refused += 1
            where = f"{record.topic} partition {record.partition} offset {record.offset}"
            log.warning("%s: not usable, skipped: %s", where, error)

    def _store_round(self, connection: sqlite3.Connection, found: DecodedRound, batch: HistoryUpdate) -> None:
        summary = found.summary
        name = summary.group_id
        body = found.body
        if found.whole is not found.diff and self._owners[name].rounds >= MOST_BRIEF:
            body = encode(found.whole)
        stored = connection.execute(
            # Not ON CONFLICT DO NOTHING: that uses up a number, and numbers are what is counted as stored.
            "INSERT INTO rounds (ce_id, group_id, timestamp, cause, moved, summary, changes, body) "
            "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE NOT EXISTS (SELECT 1 FROM rounds WHERE ce_id = ?1)",
            (
                summary.id,
                self._group(connection, name),
                summary.timestamp,
                summary.cause.kind,
                summary.moved,
                encode(summary),
                zlib.compress(encode(found.changes), 1),
                zlib.compress(body, 1),
            ),
        )
        if stored.rowcount == 0:
            batch.repeated += 1
            return
        if found.whole is not found.diff:
            self._owners[name].take(found.diff, whole=body is not found.body)
        else:
            self._owners.pop(name, None)
        seq = stored.lastrowid or 0
        batch.rounds.append(StoredRound(seq, summary, body))
        self.groups[name] = batch.groups[name] = rounds.advance(self.groups.get(name), seq, summary)

    def _whole(self, connection: sqlite3.Connection, diff: Diff) -> Diff:
        """The next diff with everybody, as far as rounds before it tell who else there is."""
        if diff.unchanged is UNSET:
            return diff
        known = self._owners.pop(diff.group_id, None)
        if known is None:
            owners = owners_before(connection, self._group(connection, diff.group_id))
            known = None if owners is None else Kept(owners)
        if known is None or not known.owners.fits(diff):
            return diff
        self._owners[diff.group_id] = known
        while len(self._owners) > MOST_KEPT:
            self._owners.popitem(last=False)
        return known.owners.whole(diff)

    def _store_assignment(
        self, connection: sqlite3.Connection, found: DecodedAssignment, batch: HistoryUpdate
    ) -> None:
        name = found.group_id
        group_id = self._group(connection, name)
        connection.execute("UPDATE groups SET assignment = ? WHERE id = ?", (found.body, group_id))
        known = self.groups.get(name)
        if found.latest is not None and self._behind(connection, group_id, found.latest):
            return
        if found.latest is not None:
            group = rounds.with_assignment(known, found.latest)
        elif known is not None:
            group = msgspec.structs.replace(known, state="Dead", members=0)
        else:
            return
        if group != known:
            self.groups[name] = batch.groups[name] = group

    @staticmethod
    def _behind(connection: sqlite3.Connection, group_id: int, latest: LatestAssignment) -> bool:
        """Whether rounds are stored that came after the assignment."""
        if latest.after is UNSET:
            return False
        newest = connection.execute(
            "SELECT ce_id, timestamp FROM rounds WHERE group_id = ? ORDER BY seq DESC LIMIT 1", (group_id,)
        ).fetchone()
        return newest is not None and newest[0] != latest.after and newest[1] >= latest.timestamp

    def _store_story(self, connection: sqlite3.Connection, found: DecodedStory, batch: HistoryUpdate) -> None:
        stored = self._stories.store(self._group(connection, found.group_id), found)
        if stored is not None:
            batch.stories.append(stored)
        elif found.body is None:
            batch.told = self._stories.told
        else:
            batch.repeated += 1

    def _group(self, connection: sqlite3.Connection, name: str) -> int:
        known = self._group_ids.get(name)
        if known is None:
            connection.execute("INSERT OR IGNORE INTO groups (name) VALUES (?)", (name,))
            row = connection.execute("SELECT id FROM groups WHERE name = ?", (name,)).fetchone()
            known = self._group_ids[name] = row[0]
        return known

    def trim(self, limits: Retention, now_ms: int) -> int:
        """Drop the oldest rounds that need not be kept; returns how many were dropped."""
        dropped = 0
        with self._plainly():
            while batch := self._trim_batch(limits, now_ms):
                dropped += batch
            with self._transaction():
                self._stories.trim(now_ms - limits.max_age_ms)
            if dropped:
                self._connection.execute("PRAGMA incremental_vacuum").fetchall()
        return dropped

    def _trim_batch(self, limits: Retention, now_ms: int) -> int:
        oldest = self._connection.execute(
            "SELECT seq, timestamp FROM rounds ORDER BY seq LIMIT ?", (_DELETE_BATCH,)
        ).fetchall()
        if not oldest:
            return 0
        if self.used_bytes() > limits.max_bytes:
            through = oldest[-1][0]
            with self._transaction():
                self._stories.trim(oldest[-1][1])
        else:
            # Only a run from the start may go: a feed id stands for everything up to it.
            due = itertools.takewhile(lambda row: row[1] < now_ms - limits.max_age_ms, oldest)
            through = max((seq for seq, _ in due), default=None)
            if through is None:
                return 0
        with self._transaction() as connection:
            gone = connection.execute("DELETE FROM rounds WHERE seq <= ?", (through,)).rowcount
            connection.execute("UPDATE meta SET value = ? WHERE key = 'trimmed'", (str(through),))
        return gone

    def used_bytes(self) -> int:
        """Bytes of the file that hold data."""
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything that is written inside is committed together, or not at all."""
        connection = self._connection
        with self._plainly():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite itself gives up on some errors
                    connection.execute("ROLLBACK")
                raise
