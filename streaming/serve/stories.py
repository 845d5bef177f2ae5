"""Episodes and incidents in the history: the newest record of each, numbered in the order they were stored.

An episode changes while it is open, and so does an incident: clients that come back receive each that has changed
since, in its newest form. A number is given once: a story that changes gets the next one.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct, structs

from streaming.episodes.cluster_cause import EARLIER_MS, explain_episode
from streaming.episodes.story import called_in
from streaming.records.codec import encode
from streaming.records.diffs import MemberNames
from streaming.records.episodes import (
    Acknowledged,
    Cost,
    Downtime,
    Episode,
    EpisodeKind,
    EpisodeMembers,
    EpisodeStatus,
    Incident,
    IncidentKind,
    MalformedEpisode,
    Rebalancing,
    StoredAnnotation,
    Waiting,
    of_key,
)
from streaming.records.events import CLUSTER
from streaming.records.names import called
from streaming.serve.annotations import MOST_ANNOTATIONS, annotated
from streaming.serve.records import TopicRecord, UnusableRecord, decoded

#: What a story is.
Sort = Literal["episode", "incident"]

#: Stories of one sort that are kept of a group.
MOST_STORIES: Final = 100


class EpisodeSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """An episode without its rounds, members and evidence. ``names``: display names of awaited members."""

    group_id: str
    episode: int
    kind: EpisodeKind
    status: EpisodeStatus
    opened_at: int
    closed_at: int | None
    updated_at: int
    sure: bool
    moved: int
    downtime: Downtime | None
    waiting_for: list[Waiting]
    story: str
    rebalancing: Rebalancing | None = None
    cost: Cost | None = None
    cause: str | None = None
    names: dict[str, str] = {}


class IncidentSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """An incident without its members, partitions and evidence."""

    group_id: str
    incident: int
    kind: IncidentKind
    status: Literal["open", "closed"]
    opened_at: int
    updated_at: int
    closed_at: int | None
    times: int
    sure: bool
    story: str
    scope: Literal["group", "cluster"] = "group"
    groups: list[str] = []
    acknowledged: Acknowledged | None = None


Summary = EpisodeSummary | IncidentSummary

_episodes = msgspec.json.Decoder(Episode)
_incidents = msgspec.json.Decoder(Incident)
_decoders: Final[Mapping[Sort, msgspec.json.Decoder[Summary]]] = {
    "episode": msgspec.json.Decoder(EpisodeSummary),
    "incident": msgspec.json.Decoder(IncidentSummary),
}


class StoryKey(NamedTuple):
    """The key of a story: its sort, its group and its number there."""

    sort: Sort
    group_id: str
    number: int


def story_of(record: TopicRecord, sort: Sort) -> StoryKey:
    """Return the key of the story in a record.

    Raises:
        UnusableRecord: it is none, is not the one that the key names, or its header ``ce_id`` is missing.
    """
    try:
        key = StoryKey(sort, *of_key(record.key or b""))
    except MalformedEpisode as error:
        raise UnusableRecord(str(error)) from error
    if record.value is None:
        return key
    if not record.id:
        raise UnusableRecord("header ce_id: missing")
    if sort == "episode":
        episode = decoded(_episodes, record.value)
        named = episode.group_id, episode.episode
    else:
        incident = decoded(_incidents, record.value)
        named = incident.group_id, incident.incident
    if named != key[1:]:
        raise UnusableRecord(f"key: {record.key!r} is not that of the value")
    return key


class StoredStory(Struct, frozen=True):
    """A story as the feed sends it: its number in the feed, and its bytes as in the topic."""

    seq: int
    sort: Sort
    id: str
    group_id: str
    body: bytes


class DowntimeTotals(Struct, frozen=True, kw_only=True, rename="camel"):
    """Downtime of a group's partitions in its closed episodes, all together, ms.

    ``upperMs`` leaves out the partitions that nothing bounds from above: ``unbounded``, counted once an
    episode.
    """

    lower_ms: int = 0
    upper_ms: int = 0
    unbounded: int = 0


class CurrentStories(Struct):
    """The newest episodes, the open incidents and the downtime of all groups.

    Attributes:
        last: the number of the story that was stored last.
        newest: each group's newest episode.
        open: the incidents that are open, by group and number.
        downtime: by group.
        annotations: the newest first.
    """

    last: int = 0
    newest: dict[str, EpisodeSummary] = {}
    open: dict[tuple[str, int], IncidentSummary] = {}
    downtime: dict[str, DowntimeTotals] = {}
    annotations: tuple[StoredAnnotation, ...] = ()

    def take(self, summary: Summary) -> None:
        """Apply the current form of a story."""
        if isinstance(summary, EpisodeSummary):
            newest = self.newest.get(summary.group_id)
            if newest is None or summary.episode >= newest.episode:
                self.newest[summary.group_id] = summary
        elif summary.closed_at is None:
            self.open[summary.group_id, summary.incident] = summary
        else:
            self.open.pop((summary.group_id, summary.incident), None)


def summary_of(sort: Sort, body: bytes) -> Summary:
    """Decode the summary of a story."""
    summary = _decoders[sort].decode(body)
    if isinstance(summary, EpisodeSummary) and (summary.waiting_for or summary.rebalancing):
        return structs.replace(summary, names=names_in(sort, body))
    return summary


class _OfEpisode(Struct, frozen=True):
    members: EpisodeMembers


class _OfIncident(Struct, frozen=True):
    names: dict[str, MemberNames] = {}


_of_episode: Final = msgspec.json.Decoder(_OfEpisode)
_of_incident: Final = msgspec.json.Decoder(_OfIncident)


def names_in(sort: Sort, body: bytes) -> dict[str, str]:
    """Return display names of the members in a story, by member id."""
    if sort == "episode":
        return called_in(_of_episode.decode(body).members)
    return called(_of_incident.decode(body).names)


class Stories:
    """The table of stories, inside the transactions of the history."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._of_cluster: dict[str, list[Incident]] | None = None
        self.current_stories = self._load()

    def _load(self) -> CurrentStories:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'last_story'").fetchone()
        annotations = self._connection.execute("SELECT body FROM annotations ORDER BY timestamp DESC, id")
        decode = msgspec.json.Decoder(StoredAnnotation).decode
        current = CurrentStories(int(row[0]) if row else 0, {}, {}, {}, tuple(decode(body) for (body,) in annotations))
        episodes = self._connection.execute(
            # SQLite: the other columns are those of the row with the maximum.
            "SELECT body, MAX(number) FROM stories WHERE sort = 'episode' GROUP BY group_id"
        )
        for body, _ in episodes:
            current.take(summary_of("episode", zlib.decompress(body)))
        incidents = self._connection.execute("SELECT body FROM stories WHERE sort = 'incident' AND open")
        for (body,) in incidents:
            current.take(summary_of("incident", zlib.decompress(body)))
        totals = self._connection.execute(
            "SELECT name, lower_ms, upper_ms, unbounded FROM downtime JOIN groups ON groups.id = group_id"
        )
        for name, lower, upper, unbounded in totals:
            current.downtime[name] = DowntimeTotals(lower_ms=lower, upper_ms=upper, unbounded=unbounded)
        return current

    def begin(self) -> CurrentStories:
        """Return the current stories and go on with a copy, so that a failed transaction can restore them."""
        before, self._of_cluster = self.current_stories, None
        self.current_stories = CurrentStories(
            before.last, dict(before.newest), dict(before.open), dict(before.downtime), before.annotations
        )
        return before

    def store(self, group: int, key: StoryKey, record: TopicRecord, now_ms: int) -> StoredStory | None:
        """Store a record, in the place of the one before; None if that one is the same, or newer.

        A record of another partition is the older one where it was written before: its topic got more partitions
        since.
        """
        sort, name, number = key
        place = (sort, group, number)
        stored = self._connection.execute(
            "SELECT ce_id, partition, written, opened, id FROM stories WHERE sort = ? AND group_id = ? AND number = ?",
            place,
        ).fetchone()
        if stored is not None:
            ce_id, partition, written, *_ = stored
            if ce_id == record.id or (partition != record.partition and record.timestamp < written):
                return None
        if record.value is None:
            self._connection.execute("DELETE FROM stories WHERE sort = ? AND group_id = ? AND number = ?", place)
            self.current_stories = self._load()
            return None
        body = self._explained(name, record.value) if sort == "episode" else record.value
        summary = summary_of(sort, body)
        if self._is_restarted(key, summary, None if stored is None else stored[3]):
            self._forget_later(group, key)
        seq = self.current_stories.last + 1
        began = min(summary.opened_at, now_ms or summary.opened_at)  # no clock that is ahead puts it on top
        self._connection.execute(
            "INSERT OR REPLACE INTO stories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(None if stored is None else stored[4], *place, record.id, seq, summary.opened_at, began),
                *(summary.updated_at, record.partition, record.timestamp, now_ms, summary.closed_at is None),
                zlib.compress(body, 1),
            ),
        )
        self._connection.execute(
            "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?)",
            (*place, record.happened or summary.updated_at, summary.opened_at, zlib.compress(record.value, 1)),
        )
        if stored is None:
            self._drop_oldest(sort, group)
        self._set_last(seq)
        self.current_stories.take(summary)
        if isinstance(summary, EpisodeSummary):
            self._count(group, summary)
        return StoredStory(seq, sort, record.id or "", name, body)

    def _explained(self, group_id: str, body: bytes) -> bytes:
        if self._of_cluster is None:
            self._of_cluster = {}
            rows = self._connection.execute(
                "SELECT body FROM stories JOIN groups ON groups.id = group_id WHERE sort = 'incident' AND name = ?",
                (CLUSTER,),
            )
            for (stored,) in rows:
                incident = _incidents.decode(zlib.decompress(stored))
                for name in incident.groups:
                    self._of_cluster.setdefault(name, []).append(incident)
        if group_id not in self._of_cluster:
            return body
        episode = _episodes.decode(body)
        explained = explain_episode(episode, self._of_cluster[group_id])
        return body if explained is episode else encode(explained)

    def explain(self, key: StoryKey) -> list[StoredStory]:
        """Store the episodes again that an incident of the cluster explains, once it is stored; return them."""
        self._of_cluster, found = None, list[StoredStory]()
        row = self._connection.execute(
            "SELECT opened FROM stories JOIN groups ON groups.id = group_id WHERE sort = ? AND name = ? AND number = ?",
            key,
        ).fetchone()
        episodes = self._connection.execute(
            "SELECT stories.id, name, ce_id, body FROM stories JOIN groups ON groups.id = group_id "
            "WHERE sort = 'episode' AND opened >= ? ORDER BY seq",
            (row[0] - EARLIER_MS if row else 0,),
        ).fetchall()
        for place, name, ce_id, stored in episodes:
            body = zlib.decompress(stored)
            explained = self._explained(name, body)
            if explained is body:
                continue
            self.current_stories.last += 1
            seq = self.current_stories.last
            self._connection.execute(
                "UPDATE stories SET body = ?, seq = ? WHERE id = ?", (zlib.compress(explained, 1), seq, place)
            )
            self.current_stories.take(summary_of("episode", explained))
            found.append(StoredStory(seq, "episode", f"{ce_id}/cause", name, explained))
        if found:
            last = str(self.current_stories.last)
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('last_story', ?)", (last,))
        return found

    def _set_last(self, seq: int) -> None:
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('last_story', ?)", (str(seq),))
        self.current_stories.last = seq

    def annotate(self, annotation: StoredAnnotation) -> list[StoredStory]:
        """Store an annotation; return the episodes whose story it changes, under new numbers."""
        current = self.current_stories
        others = (one for one in current.annotations if one.id != annotation.id)
        kept = sorted((annotation, *others), key=lambda one: one.timestamp, reverse=True)
        current.annotations = tuple(kept[:MOST_ANNOTATIONS])
        values = annotation.id, annotation.timestamp, encode(annotation)
        self._connection.execute("INSERT OR REPLACE INTO annotations VALUES (?, ?, ?)", values)
        self._connection.executemany(
            "DELETE FROM annotations WHERE id = ?", [(one.id,) for one in kept[MOST_ANNOTATIONS:]]
        )
        changed = list[StoredStory]()
        for episode in current.newest.values():
            if annotated("", episode.group_id, episode.opened_at, [annotation]):
                seq = current.last + 1
                row = self._connection.execute(
                    "UPDATE stories SET seq = ? WHERE sort = 'episode' AND number = ? "
                    "AND group_id = (SELECT id FROM groups WHERE name = ?) RETURNING ce_id, body",
                    (seq, episode.episode, episode.group_id),
                ).fetchone()
                if row is not None:
                    self._set_last(seq)
                    changed.append(StoredStory(seq, "episode", row[0], episode.group_id, zlib.decompress(row[1])))
        return changed

    def _is_restarted(self, story: StoryKey, summary: Summary, opened: int | None) -> bool:
        """Return True if the group was forgotten by the stream, which numbers its stories from 1 again."""
        if opened is not None:
            return opened != summary.opened_at
        if isinstance(summary, IncidentSummary) or story.number != 1:
            return False
        newest = self.current_stories.newest.get(story.group_id)
        return newest is not None and newest.updated_at < summary.opened_at

    def _forget_later(self, group: int, story: StoryKey) -> None:
        """Drop the stories behind this one, which are older: their numbers are given again."""
        for table, first in (("stories", story.number + 1), ("versions", story.number)):
            self._connection.execute(
                f"DELETE FROM {table} WHERE sort = ? AND group_id = ? AND number >= ?",  # noqa: S608 - our tables
                (story.sort, group, first),
            )
        if story.sort == "episode":
            self.current_stories.newest.pop(story.group_id, None)
            self._connection.execute("UPDATE downtime SET counted = ? WHERE group_id = ?", (story.number - 1, group))
        else:
            for key in [key for key in self.current_stories.open if key[0] == story.group_id and key[1] > story.number]:
                del self.current_stories.open[key]

    def _count(self, group: int, episode: EpisodeSummary) -> None:
        """Add the downtime of a closed episode, once. Episodes close in order, also in a recreated topic."""
        if episode.closed_at is None or episode.downtime is None:
            return
        downtime = episode.downtime
        row = self._connection.execute(
            "INSERT INTO downtime VALUES (?, ?, ?, ?, ?) ON CONFLICT (group_id) DO UPDATE SET "
            "counted = excluded.counted, lower_ms = lower_ms + excluded.lower_ms, "
            "upper_ms = upper_ms + excluded.upper_ms, unbounded = unbounded + excluded.unbounded "
            "WHERE counted < excluded.counted RETURNING lower_ms, upper_ms, unbounded",
            (group, episode.episode, downtime.lower_ms, downtime.bounded_ms, downtime.unbounded),
        ).fetchone()
        if row is not None:
            self.current_stories.downtime[episode.group_id] = DowntimeTotals(
                lower_ms=row[0], upper_ms=row[1], unbounded=row[2]
            )

    def _drop_oldest(self, sort: Sort, group: int) -> None:
        self._connection.execute(
            "DELETE FROM stories WHERE NOT open AND id IN (SELECT id FROM stories "
            "WHERE sort = ? AND group_id = ? ORDER BY number DESC LIMIT -1 OFFSET ?)",
            (sort, group, MOST_STORIES),
        )
        self._connection.execute(
            "DELETE FROM versions WHERE sort = ?1 AND group_id = ?2 AND number < "
            "(SELECT MIN(number) FROM stories WHERE sort = ?1 AND group_id = ?2)",
            (sort, group),
        )

    def trim(self, before_ms: int) -> None:
        """Drop what is over and was stored before this time, but for the newest episode of each known group."""
        self._connection.execute(
            "DELETE FROM stories WHERE NOT open AND stored < ? AND id NOT IN (SELECT id FROM "
            "(SELECT id, MAX(number) FROM stories WHERE sort = 'episode' AND group_id IN "
            "(SELECT id FROM groups WHERE summary IS NOT NULL) GROUP BY group_id))",
            (before_ms,),
        )
        self._connection.execute(
            "DELETE FROM versions WHERE NOT EXISTS (SELECT 1 FROM stories WHERE stories.sort = versions.sort "
            "AND stories.group_id = versions.group_id AND stories.number = versions.number)"
        )

    def drop(self, groups: Collection[str]) -> None:
        """Forget the stories of groups that are no longer in the history."""
        gone = frozenset(groups)
        current = self.current_stories
        self.current_stories = CurrentStories(
            current.last,
            {name: episode for name, episode in current.newest.items() if name not in gone},
            {key: incident for key, incident in current.open.items() if key[0] not in gone},
            {name: totals for name, totals in current.downtime.items() if name not in gone},
            current.annotations,
        )

    def forget(self, sort: Sort) -> None:
        """Drop all of a sort: their topic was made again."""
        for table in ("stories", "versions"):
            self._connection.execute(f"DELETE FROM {table} WHERE sort = ?", (sort,))  # noqa: S608 - our tables
        self.current_stories = self._load()
