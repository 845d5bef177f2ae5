"""The history: rounds and topic offsets in one SQLite transaction, one writer, many readers.

A row has the diff's bytes as in the topic (deflated) and its summary, so that lists need no decoding. ``seq`` numbers
rounds in the order of storing; ``seq`` and the file's ``epoch`` together are a place in the feed.
"""

import logging
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from assignors.errors import BadInput
from streaming.episodes.status import group_status
from streaming.records.codec import encode
from streaming.records.diffs import LatestAssignment
from streaming.records.episodes import ANNOTATION_TYPE, StoredAnnotation
from streaming.records.events import CLUSTER
from streaming.records.names import with_display_names
from streaming.serve import historyfile, records
from streaming.serve.annotations import parse_annotation
from streaming.serve.historyfile import HistoryFile, history_errors
from streaming.serve.records import GroupSummary, RoundSummary, TopicRecord, UnusableRecord
from streaming.serve.stories import CurrentStories, EpisodeSummary, Sort, StoredStory, StoryKey, StoryTable, story_key

log = logging.getLogger(__name__)
_WITHOUT_ROUNDS_SQL: Final = "NOT EXISTS (SELECT 1 FROM rounds WHERE rounds.group_id = groups.id)"
_summary_decoder = msgspec.json.Decoder(GroupSummary)
#: Topics of episodes and incidents, without the prefix.
STORIES: Final[Mapping[str, Sort]] = {"rebalance.episodes": "episode", "rebalance.incidents": "incident"}


class StoredRound(Struct, frozen=True):
    """A round as the feed sends it: its number, the fields that filters compare, and its bytes."""

    seq: int
    summary: RoundSummary
    body: bytes


class HistoryUpdate(Struct):
    """The result of one transaction: new rounds and stories, changed groups, and counts of dropped records.

    ``current_stories``: the current stories, if the transaction had records of their topics.
    """

    rounds: list[StoredRound]
    groups: dict[str, GroupSummary]
    stories: list[StoredStory] = []
    current_stories: CurrentStories | None = None
    repeated: int = 0
    refused: int = 0
    annotations: list[StoredAnnotation] = []


class RoundRange(Struct, frozen=True):
    """The feed ids from which the history can be resumed: ``epoch`` and a number from ``trimmed`` to ``last``."""

    epoch: str
    trimmed: int
    last: int


class Retention(Struct, frozen=True):
    """Limits of the history: a round's age, and the file's size, above which the oldest rounds are deleted."""

    max_age_ms: int
    max_bytes: int


class History:
    """Writes the history, by one thread at a time. ``stories``: which topics have episodes or incidents."""

    def __init__(self, path: Path, *, cluster_id: str, diffs_topic: str, stories: Mapping[str, Sort] = STORIES) -> None:
        self._story_sorts = stories
        self._file = HistoryFile(path, cluster_id)
        self.path, self._connection = self._file.path, self._file.connection
        self._diffs_topic, self._now_ms = diffs_topic, 0
        self.groups: dict[str, GroupSummary] = {}
        try:
            self._load_groups()
            #: Warning for users if an older copy of the history file was put back; else empty.
            self.notice = self._compare_with_served()
        except BaseException:
            self._file.close()
            raise

    def _load_groups(self) -> None:
        with historyfile.history_read_errors(self.path):
            self._stories = StoryTable(self._connection)
            self.epoch: str = dict(self._connection.execute("SELECT key, value FROM meta"))["epoch"]
            for name, summary in self._connection.execute("SELECT name, summary FROM groups WHERE summary IS NOT NULL"):
                group = self.groups[name] = _summary_decoder.decode(summary)
                if group.group_id != name:
                    raise ValueError(f"the summary of group {name!r} names group {group.group_id!r}")
            # A history of another diff topic would mix the rounds of two monitors.
            topics = {topic for topic, _ in self.positions()} | self.topic_ids().keys()
            if self._diffs_topic in topics or not self.round_range.last:
                return
        reason = f"holds the rounds of other topics ({', '.join(sorted(topics))}), this is {self._diffs_topic}"
        advice = "name another file, or remove it to build it again from the topics"
        raise BadInput(f"--database {self.path}: {reason}; {advice}")

    def close(self) -> None:
        """Merge the write-ahead log into the history file, and close the file."""
        with suppress(historyfile.HistoryFailure):
            self.check()
        self._file.close()

    def _compare_with_served(self) -> str:
        epoch, _, last = self._file.mark.partition(".")
        missing = int(last) - self.round_range.last if epoch == self.epoch and last.isascii() and last.isdigit() else 0
        if missing <= 0:
            return ""
        notice = f"history {self.path}: an older copy was put back; {missing} rounds are read again from the topics"
        log.warning("%s", notice)
        return notice

    def check(self) -> None:
        """Raise HistoryFailure if the history file was replaced; else store the newest round's number beside it."""
        self._file.check()
        with history_errors(self.path):
            self._file.mark = f"{self.epoch}.{self.round_range.last}"

    @property
    def round_range(self) -> RoundRange:
        """The first and last feed position from which a client can resume now."""
        with historyfile.history_read_errors(self.path):
            trimmed = self._connection.execute("SELECT value FROM meta WHERE key = 'trimmed'").fetchone()[0]
            last = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'rounds'").fetchone()
            return RoundRange(self.epoch, int(trimmed), last[0] if last else 0)

    @property
    def current_stories(self) -> CurrentStories:
        """Newest episode, open incidents and downtime of each group."""
        return self._stories.current_stories

    def positions(self) -> dict[tuple[str, int], int]:
        """Offsets at which reading continues: ``{(topic, partition): next offset}``."""
        with history_errors(self.path):
            rows = self._connection.execute("SELECT topic, partition, next_offset FROM positions")
            return {(topic, partition): offset for topic, partition, offset in rows}

    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics to which the offsets of :meth:`positions` belong, by topic name."""
        with history_errors(self.path):
            return dict(self._connection.execute("SELECT substr(key, 7), value FROM meta WHERE key LIKE 'topic:%'"))

    def reset_changed_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Store the ids of the current topics. Drop positions and stories of a recreated topic, but not its rounds."""
        ids = self.topic_ids()
        with self._transaction() as connection:
            for topic, topic_id in topic_ids.items():
                if ids.get(topic, topic_id) != topic_id:
                    connection.execute("DELETE FROM positions WHERE topic = ?", (topic,))
                    if topic in self._story_sorts:
                        self._stories.forget(self._story_sorts[topic])
                    connection.execute("UPDATE places SET partition = -1 WHERE topic = ?", (topic,))
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"topic:{topic}", topic_id))

    def append(self, arrived: Sequence[TopicRecord], now_ms: int | None = None) -> HistoryUpdate:
        """Store records and the next offsets to read in one transaction. ``now_ms``: the time of storing."""
        batch = HistoryUpdate([], {})
        self._now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        stories_before = self._stories.begin()
        try:
            with self._transaction() as connection:
                for record in arrived:
                    self._store_record(record, batch)
                positions = {(record.topic, record.partition): record.offset + 1 for record in arrived}
                rows = [(*place, offset) for place, offset in positions.items()]
                connection.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", rows)
                self._update_status(batch)
                summaries = [(encode(summary), name) for name, summary in batch.groups.items()]
                connection.executemany("UPDATE groups SET summary = ? WHERE name = ?", summaries)
        except BaseException:
            self._stories.current_stories = stories_before
            raise
        self.groups |= batch.groups
        if any(record.topic in self._story_sorts for record in arrived):
            batch.current_stories = self.current_stories
        return batch

    def _newest_summary(self, name: str, batch: HistoryUpdate) -> GroupSummary | None:
        return batch.groups.get(name) or self.groups.get(name)

    def _update_status(self, batch: HistoryUpdate) -> None:
        for name in {*batch.groups, *(story.group_id for story in batch.stories if story.sort == "episode")}:
            before = self._newest_summary(name, batch)
            if before is not None:
                group = set_status(before, self.current_stories.newest.get(name))
                if group != before:
                    batch.groups[name] = group

    def _store_record(self, record: TopicRecord, batch: HistoryUpdate) -> None:
        try:
            if record.topic == self._diffs_topic:
                self._store_round(record, records.parse_round(record), batch)
            elif record.topic not in self._story_sorts:
                self._store_assignment(record, *records.parse_assignment(record), batch)
            elif record.type == ANNOTATION_TYPE:
                annotation = parse_annotation(record)
                batch.stories += self._stories.annotate(annotation)
                batch.annotations.append(annotation)
            else:
                self._store_story(record, story_key(record, self._story_sorts[record.topic]), batch)
        except UnusableRecord as error:
            batch.refused += 1
            where = f"{record.topic} partition {record.partition} offset {record.offset}"
            log.warning("%s: not usable, skipped: %s", where, error)

    def _store_position(self, record: TopicRecord, group: int) -> int | None:
        """Store the record as its group's newest in the topic, and return its time (ms); None if a newer one is stored.

        Within a partition, a group's records are in order, whatever the clocks were. If the topic got more partitions,
        a group may have records in two of them: then the record with the later timestamp is newer. The returned time
        is never less than that of the group's previous record in the same partition.
        """
        row = self._connection.execute(
            "INSERT INTO places VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET partition = excluded.partition, written ="
            " iif(partition IN (excluded.partition, -1), max(written, excluded.written), excluded.written)"
            " WHERE partition IN (excluded.partition, -1) OR excluded.written >= written RETURNING written",
            (record.topic, group, record.partition, record.timestamp),
        ).fetchone()
        return None if row is None else int(row[0])

    def _store_round(self, record: TopicRecord, summary: RoundSummary, batch: HistoryUpdate) -> None:
        name, body = summary.group_id, record.value or b""
        if self._connection.execute("SELECT 1 FROM rounds WHERE ce_id = ?", (summary.id,)).fetchone():
            batch.repeated += 1
            return
        group = self._group(name)
        written = self._store_position(record, group)
        values = (
            summary.id,
            group,
            summary.timestamp,
            record.timestamp if written is None else written,
            self._now_ms,
            summary.cause.kind,
            summary.moved,
            encode(summary),
            zlib.compress(body, 1),
        )
        insert = "INSERT INTO rounds VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        seq = self._connection.execute(insert, values).lastrowid or 0
        batch.rounds.append(StoredRound(seq, summary, body))
        before = self._newest_summary(name, batch)
        if before is None or written is not None:
            batch.groups[name] = records.advance(before, seq, summary)
        else:
            batch.groups[name] = records.count_round(before, summary, is_first=summary.round == 1)

    def _store_assignment(
        self, record: TopicRecord, name: str, latest: LatestAssignment | None, batch: HistoryUpdate
    ) -> None:
        group = self._group(name)
        if self._store_position(record, group) is None:
            return
        self._connection.execute("UPDATE groups SET assignment = ? WHERE id = ?", (record.value, group))
        before = self._newest_summary(name, batch)
        if latest is not None:
            after = records.apply_assignment(before, latest)
        elif before is not None:
            after = structs.replace(before, state="Dead", members=0)
        else:
            return
        if after != before:
            batch.groups[name] = after

    def _store_story(self, record: TopicRecord, key: StoryKey, batch: HistoryUpdate) -> None:
        stored = self._stories.store(self._group(key.group_id), key, record, self._now_ms)
        if stored is not None:
            batch.stories.append(stored)
            if key.sort == "incident" and key.group_id == CLUSTER:
                batch.stories += self._stories.explain(key)
        elif record.value is not None:
            batch.repeated += 1

    def _group(self, name: str) -> int:
        """Return the id of a group's row, which is inserted with the group's first record."""
        row = self._connection.execute("SELECT id FROM groups WHERE name = ?", (name,)).fetchone()
        if row is None:
            return self._connection.execute("INSERT INTO groups (name) VALUES (?)", (name,)).lastrowid or 0
        return int(row[0])

    def trim(self, limits: Retention, now_ms: int, *, caught_up: bool = True) -> tuple[int, list[str]]:
        """Drop the oldest rounds, and groups that are deleted in Kafka and have no round left.

        Return the number of dropped rounds, and the dropped groups.

        ``caught_up``: the topics are read to their ends. Before that, a group may only seem to be deleted: if a topic
        got more partitions, one partition is read before another.
        """
        deleted_count = 0
        with history_errors(self.path):
            while batch := self._trim_batch(limits, now_ms):
                deleted_count += batch
            with self._transaction():
                self._stories.trim(now_ms - limits.max_age_ms)
            gone = self._drop_dead_groups() if caught_up else []
            if deleted_count or gone:
                self._connection.execute("PRAGMA incremental_vacuum").fetchall()
        return deleted_count, gone

    def _trim_batch(self, limits: Retention, now_ms: int) -> int:
        """Drop the oldest rounds, at most 500, and return the number of dropped rounds."""
        execute = self._connection.execute
        oldest = execute("SELECT seq, stored FROM rounds ORDER BY seq LIMIT 500").fetchall()
        # Only the first rounds may be dropped, as a feed id covers all rounds up to it. Rounds that were stored before
        # an expired round are expired too, whatever the clock was then.
        is_full = count_used_bytes(self._connection) > limits.max_bytes
        expired_seq = execute("SELECT MAX(seq) FROM rounds WHERE stored < ?", (now_ms - limits.max_age_ms,))
        due: int | None = expired_seq.fetchone()[0]
        if not oldest or (due is None and not is_full):
            return 0
        last, stored = oldest[-1]
        if due is not None and not is_full:
            last = min(due, last)
        with self._transaction() as connection:
            if is_full:
                self._stories.trim(stored)
            deleted_count = connection.execute("DELETE FROM rounds WHERE seq <= ?", (last,)).rowcount
            connection.execute("UPDATE meta SET value = ? WHERE key = 'trimmed'", (str(last),))
        return deleted_count

    def _drop_dead_groups(self) -> list[str]:
        """Drop dead groups without a round, and stored group ids without a round, an assignment or an episode."""
        with self._transaction() as connection:
            without = dict(connection.execute(f"SELECT name, id FROM groups WHERE {_WITHOUT_ROUNDS_SQL}"))  # noqa: S608 - a literal
            empty = connection.execute(
                f"SELECT name FROM groups WHERE summary IS NULL AND assignment IS NULL AND {_WITHOUT_ROUNDS_SQL} "  # noqa: S608 - a literal
                "AND NOT EXISTS (SELECT 1 FROM stories WHERE stories.group_id = groups.id)"
            )
            dead_groups = [name for name, group in self.groups.items() if group.state == "Dead" and name in without]
            ids = [(without[name],) for name in {*dead_groups, *(name for (name,) in empty)}]
            for table in ("stories", "versions", "downtime", "places"):
                connection.executemany(f"DELETE FROM {table} WHERE group_id = ?", ids)  # noqa: S608 - our tables
            connection.executemany("DELETE FROM groups WHERE id = ?", ids)
        self.groups = {name: group for name, group in self.groups.items() if name not in dead_groups}
        if dead_groups:
            self._stories.reload()
        return dead_groups

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        with history_errors(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite itself rolls back on some errors
                    connection.execute("ROLLBACK")
                raise


def count_used_bytes(connection: sqlite3.Connection) -> int:
    """Return the number of bytes in use in the SQLite file: all pages except free pages."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def set_status(group: GroupSummary, newest: EpisodeSummary | None) -> GroupSummary:
    """Return the group with its status, which follows from its state and its newest episode."""
    status = group_status(None if group.state == "Dead" else group, newest)
    names = {} if newest is None else newest.names
    awaited = {member_id: names[member_id] for member_id in status.awaited if member_id in names}
    return structs.replace(
        group,
        status=status.status,
        since=status.since,
        reason=status.reason and with_display_names(status.reason, group.names | names),
        awaited=list(status.awaited),
        names=group.names | awaited,
    )
