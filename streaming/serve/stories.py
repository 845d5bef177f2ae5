"""Episodes and incidents (stories) in the history: the newest record of each, numbered in the order of storing.

A story changes while it is open, and each change gives it the next number. A client that reconnects receives the
stories with later numbers than the last one it received.
"""

import sqlite3
import zlib
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from streaming.episodes.cluster_cause import MAX_ROUND_BEFORE_INCIDENT_MS, explain_episode
from streaming.episodes.story import display_names_of
from streaming.records import episodes
from streaming.records.codec import encode
from streaming.records.diffs import MemberNames
from streaming.records.events import CLUSTER, GroupPauses
from streaming.records.names import display_names
from streaming.serve.annotations import MAX_ANNOTATIONS, annotation_decoder, story_suffix
from streaming.serve.records import TopicRecord, UnusableRecord, decode_value

Sort = Literal["episode", "incident"]
#: The most episodes, and the most incidents, that the history keeps per group.
MAX_STORIES: Final = 100


class EpisodeSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """An episode without its rounds, members and evidence. ``names``: display names of awaited members."""

    group_id: str
    episode: int
    kind: episodes.EpisodeKind
    status: episodes.EpisodeStatus
    opened_at: int
    closed_at: int | None
    updated_at: int
    sure: bool
    moved: int
    downtime: episodes.Downtime | None
    waiting_for: list[episodes.Waiting]
    story: str
    rebalancing: episodes.Rebalancing | None = None
    cost: episodes.Cost | None = None
    cause: str | None = None
    names: dict[str, str] = {}


class IncidentSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """An incident without its members, partitions and evidence."""

    group_id: str
    incident: int
    kind: episodes.IncidentKind
    status: Literal["open", "closed"]
    opened_at: int
    updated_at: int
    closed_at: int | None
    times: int
    sure: bool
    story: str
    scope: Literal["group", "cluster"] = "group"
    groups: list[str] = []
    acknowledged: episodes.Acknowledged | None = None
    pauses: GroupPauses | UnsetType = UNSET


Summary = EpisodeSummary | IncidentSummary
_decoders: Final[Mapping[Sort, msgspec.json.Decoder[Any]]] = {
    "episode": msgspec.json.Decoder(episodes.Episode),
    "incident": msgspec.json.Decoder(episodes.Incident),
}
_episode_summaries = msgspec.json.Decoder(EpisodeSummary)
_incident_summaries = msgspec.json.Decoder(IncidentSummary)


class StoryKey(NamedTuple):
    """The key of an episode or incident: its kind, its group, and its number in the group."""

    sort: Sort
    group_id: str
    number: int


def story_key(record: TopicRecord, sort: Sort) -> StoryKey:
    """Return the key of the episode or incident in a record; raise UnusableRecord if the record is malformed."""
    try:
        key = StoryKey(sort, *episodes.decode_key(record.key or b""))
    except episodes.MalformedEpisode as error:
        raise UnusableRecord(str(error)) from error
    if record.value is None:
        return key
    if not record.id:
        raise UnusableRecord("header ce_id: missing")
    story = decode_value(_decoders[sort], record.value)
    if (story.group_id, getattr(story, sort)) != key[1:]:
        raise UnusableRecord(f"key: {record.key!r} does not match the value")
    return key


class StoredStory(Struct, frozen=True):
    """An episode or incident as the feed sends it: its number in the feed, and its bytes as in the topic."""

    seq: int
    sort: Sort
    id: str
    group_id: str
    body: bytes


class DowntimeTotals(Struct, frozen=True, rename="camel"):
    """Sum of the downtime of a group's partitions in its closed episodes, ms.

    ``upperMs`` leaves out partitions without an upper bound; ``unbounded`` counts them, once for each episode.
    """

    lower_ms: int = 0
    upper_ms: int = 0
    unbounded: int = 0


class CurrentStories(Struct):
    """The newest episode and the downtime of each group, the open incidents, and the annotations.

    ``last``: the highest number of a stored episode, incident or annotation. ``open``: open incidents by group and
    number. Annotations: the newest first.
    """

    last: int = 0
    newest: dict[str, EpisodeSummary] = {}
    open: dict[tuple[str, int], IncidentSummary] = {}
    downtime: dict[str, DowntimeTotals] = {}
    annotations: tuple[episodes.StoredAnnotation, ...] = ()

    def take(self, summary: Summary) -> None:
        """Store the newest summary of an episode or of an open incident; remove a closed incident."""
        if isinstance(summary, EpisodeSummary):
            newest = self.newest.get(summary.group_id)
            if newest is None or summary.episode >= newest.episode:
                self.newest[summary.group_id] = summary
        elif summary.closed_at is None:
            self.open[summary.group_id, summary.incident] = summary
        else:
            self.open.pop((summary.group_id, summary.incident), None)


def episode_summary(body: bytes) -> EpisodeSummary:
    """Return the summary of an episode, decoded from the record's value."""
    summary = _episode_summaries.decode(body)
    waits = summary.waiting_for or summary.rebalancing
    return structs.replace(summary, names=member_names(body)) if waits else summary


def _summary(sort: Sort, body: bytes) -> Summary:
    return episode_summary(body) if sort == "episode" else _incident_summaries.decode(body)


class _StoryMemberFields(Struct, frozen=True):
    """The fields of a story that contain members: ``members`` of an episode, ``names`` of an incident."""

    members: episodes.EpisodeMembers = episodes.EpisodeMembers()
    names: dict[str, MemberNames] = {}


_story_members: Final = msgspec.json.Decoder(_StoryMemberFields)


def member_names(body: bytes) -> dict[str, str]:
    """Return display names of the members in an episode or incident, by member id."""
    story = _story_members.decode(body)
    return display_names_of(story.members) | display_names(story.names)


class StoryTable:
    """The table of episodes and incidents in the history file; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        #: Incidents of the cluster, by each group that they concern; None: not read yet.
        self._cluster_incidents: dict[str, list[episodes.Incident]] | None = None
        self.reload()

    def reload(self) -> None:
        """Read the newest episodes, open incidents and annotations from the history's tables."""
        row = self._execute("SELECT value FROM meta WHERE key = 'last_story'").fetchone()
        annotations = self._execute("SELECT body FROM annotations ORDER BY timestamp DESC, id")
        totals = self._execute(
            "SELECT name, lower_ms, upper_ms, unbounded FROM downtime JOIN groups ON groups.id = group_id"
        )
        self.current_stories = CurrentStories(
            int(row[0]) if row else 0,
            downtime={name: DowntimeTotals(*totals_ms) for name, *totals_ms in totals},
            annotations=tuple(annotation_decoder.decode(body) for (body,) in annotations),
        )
        stories = self._execute(
            # SQLite: the other columns are those of the row with the maximum.
            "SELECT sort, body, MAX(number) FROM stories WHERE sort = 'episode' GROUP BY group_id "
            "UNION ALL SELECT sort, body, number FROM stories WHERE sort = 'incident' AND open"
        )
        for sort, body, _ in stories:
            self.current_stories.take(_summary(sort, zlib.decompress(body)))

    def begin(self) -> CurrentStories:
        """Return the current stories and continue with a copy, so that a failed transaction can restore these."""
        before, self._cluster_incidents = self.current_stories, None
        self.current_stories = structs.replace(
            before, newest=dict(before.newest), open=dict(before.open), downtime=dict(before.downtime)
        )
        return before

    def store(self, group: int, key: StoryKey, record: TopicRecord, now_ms: int) -> StoredStory | None:
        """Store an episode's or incident's record; return None if the stored record is the same or newer.

        After the topic got more partitions, both records may be in different partitions: the time of writing decides.
        """
        sort, name, number = key
        place, from_clause = (sort, group, number), "FROM stories WHERE sort = ? AND group_id = ? AND number = ?"
        stored = self._execute(f"SELECT id, opened, ce_id, partition, written {from_clause}", place).fetchone()
        row_id, opened, ce_id, partition, written = stored or (None, None, None, record.partition, 0)
        if stored and (ce_id == record.id or (partition != record.partition and record.timestamp < written)):
            return None
        if record.value is None:
            self._execute(f"DELETE {from_clause}", place)
            self.reload()
            return None
        body = self._add_cluster_cause(name, record.value) if sort == "episode" else record.value
        summary = _summary(sort, body)
        if self._has_new_numbering(key, summary, opened):
            self._delete_later_stories(group, key)
        seq = self._next_seq()
        began = min(summary.opened_at, now_ms or summary.opened_at)  # the clock may be ahead
        values = (
            row_id,
            *place,
            record.id,
            seq,
            summary.opened_at,
            began,
            summary.updated_at,
            record.partition,
            record.timestamp,
            now_ms,
            summary.closed_at is None,
            zlib.compress(body, 1),
        )
        self._execute("INSERT OR REPLACE INTO stories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        event_ms, version = record.event_ms or summary.updated_at, zlib.compress(record.value, 1)
        insert = "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?)"
        self._execute(insert, (*place, event_ms, summary.opened_at, version))
        if row_id is None:
            self._drop_oldest(sort, group)
        self.current_stories.take(summary)
        if isinstance(summary, EpisodeSummary):
            self._add_downtime(group, summary)
        return StoredStory(seq, sort, record.id or "", name, body)

    def _next_seq(self) -> int:
        self.current_stories.last += 1
        self._execute("INSERT OR REPLACE INTO meta VALUES ('last_story', ?)", (str(self.current_stories.last),))
        return self.current_stories.last

    def _add_cluster_cause(self, group_id: str, body: bytes) -> bytes:
        """Return the episode with the cluster incident that explains it; unchanged if there is none."""
        if self._cluster_incidents is None:
            self._cluster_incidents = {}
            query = "SELECT body FROM stories JOIN groups ON groups.id = group_id WHERE sort = 'incident' AND name = ?"
            for (incident_body,) in self._execute(query, (CLUSTER,)):
                incident = _decoders["incident"].decode(zlib.decompress(incident_body))
                for name in incident.groups:
                    self._cluster_incidents.setdefault(name, []).append(incident)
        if group_id not in self._cluster_incidents:
            return body
        episode = _decoders["episode"].decode(body)
        explained = explain_episode(episode, self._cluster_incidents[group_id])
        return body if explained is episode else encode(explained)

    def explain(self, key: StoryKey) -> list[StoredStory]:
        """Store and return the episodes that a newly stored incident of the cluster explains, with this cause."""
        self._cluster_incidents = None
        join_sql = "FROM stories JOIN groups ON groups.id = group_id"
        query = f"SELECT opened {join_sql} WHERE sort = ? AND name = ? AND number = ?"
        row = self._execute(query, key).fetchone()
        query = f"SELECT stories.id, name, ce_id, body {join_sql} WHERE sort = 'episode' AND opened >= ? ORDER BY seq"
        rows = self._execute(query, (row[0] - MAX_ROUND_BEFORE_INCIDENT_MS if row else 0,)).fetchall()
        changed: list[StoredStory] = []
        for row_id, name, ce_id, stored in rows:
            body = zlib.decompress(stored)
            explained = self._add_cluster_cause(name, body)
            if explained is not body:
                seq = self._next_seq()
                values = zlib.compress(explained, 1), seq, row_id
                self._execute("UPDATE stories SET body = ?, seq = ? WHERE id = ?", values)
                self.current_stories.take(episode_summary(explained))
                changed.append(StoredStory(seq, "episode", f"{ce_id}/cause", name, explained))
        return changed

    def annotate(self, annotation: episodes.StoredAnnotation) -> list[StoredStory]:
        """Store an annotation; return the episodes whose story it changes, each with a new number."""
        current = self.current_stories
        all_annotations = [annotation, *(mark for mark in current.annotations if mark.id != annotation.id)]
        all_annotations.sort(key=lambda mark: mark.timestamp, reverse=True)
        current.annotations = tuple(all_annotations[:MAX_ANNOTATIONS])
        values = annotation.id, annotation.timestamp, encode(annotation)
        self._execute("INSERT OR REPLACE INTO annotations VALUES (?, ?, ?)", values)
        for mark in all_annotations[MAX_ANNOTATIONS:]:
            self._execute("DELETE FROM annotations WHERE id = ?", (mark.id,))
        changed: list[StoredStory] = []
        for episode in current.newest.values():
            if story_suffix(episode.group_id, episode.opened_at, [annotation]):
                rows = self._execute(
                    "UPDATE stories SET seq = ? WHERE sort = 'episode' AND number = ? "
                    "AND group_id = (SELECT id FROM groups WHERE name = ?) RETURNING seq, ce_id, body",
                    (current.last + 1, episode.episode, episode.group_id),
                ).fetchall()
                for seq, ce_id, body in rows:
                    self._next_seq()
                    changed.append(StoredStory(seq, "episode", ce_id, episode.group_id, zlib.decompress(body)))
        return changed

    def _has_new_numbering(self, story: StoryKey, summary: Summary, opened: int | None) -> bool:
        """Return True if the stream has forgotten the group, and numbers its episodes and incidents from 1 again."""
        if opened is not None:
            return opened != summary.opened_at
        if isinstance(summary, IncidentSummary) or story.number != 1:
            return False
        newest = self.current_stories.newest.get(story.group_id)
        return newest is not None and newest.updated_at < summary.opened_at

    def _delete_later_stories(self, group: int, story: StoryKey) -> None:
        """Delete the group's stories with higher numbers than a new story: the stream lost its state and recounts."""
        for table, first in (("stories", story.number + 1), ("versions", story.number)):
            delete = f"DELETE FROM {table} WHERE sort = ? AND group_id = ? AND number >= ?"  # noqa: S608 - our tables
            self._execute(delete, (story.sort, group, first))
        if story.sort == "episode":
            self._execute("UPDATE downtime SET counted = ? WHERE group_id = ?", (story.number - 1, group))
        self.reload()

    def _add_downtime(self, group: int, episode: EpisodeSummary) -> None:
        """Add the downtime of a closed episode to its group's total, once; episodes close in the order of numbers."""
        downtime = episode.downtime
        if episode.closed_at is None or downtime is None:
            return
        row = self._execute(
            "INSERT INTO downtime VALUES (?, ?, ?, ?, ?) ON CONFLICT (group_id) DO UPDATE SET "
            "counted = excluded.counted, lower_ms = lower_ms + excluded.lower_ms, "
            "upper_ms = upper_ms + excluded.upper_ms, unbounded = unbounded + excluded.unbounded "
            "WHERE counted < excluded.counted RETURNING lower_ms, upper_ms, unbounded",
            (group, episode.episode, downtime.lower_ms, downtime.bounded_ms, downtime.unbounded),
        ).fetchone()
        if row is not None:
            self.current_stories.downtime[episode.group_id] = DowntimeTotals(*row)

    def _drop_oldest(self, sort: Sort, group: int) -> None:
        self._execute(
            "DELETE FROM stories WHERE NOT open AND id IN (SELECT id FROM stories "
            "WHERE sort = ? AND group_id = ? ORDER BY number DESC LIMIT -1 OFFSET ?)",
            (sort, group, MAX_STORIES),
        )
        self._execute(
            "DELETE FROM versions WHERE sort = ?1 AND group_id = ?2 AND number < "
            "(SELECT MIN(number) FROM stories WHERE sort = ?1 AND group_id = ?2)",
            (sort, group),
        )

    def trim(self, stored_before_ms: int) -> None:
        """Delete closed episodes and incidents stored before this time, except known groups' newest episodes."""
        self._execute(
            "DELETE FROM stories WHERE NOT open AND stored < ? AND id NOT IN (SELECT id FROM "
            "(SELECT id, MAX(number) FROM stories WHERE sort = 'episode' AND group_id IN "
            "(SELECT id FROM groups WHERE summary IS NOT NULL) GROUP BY group_id))",
            (stored_before_ms,),
        )
        self._execute(
            "DELETE FROM versions WHERE NOT EXISTS (SELECT 1 FROM stories WHERE stories.sort = versions.sort "
            "AND stories.group_id = versions.group_id AND stories.number = versions.number)"
        )

    def forget(self, sort: Sort) -> None:
        """Drop the stored episodes or incidents of a topic that was recreated."""
        for table in ("stories", "versions"):
            self._execute(f"DELETE FROM {table} WHERE sort = ?", (sort,))  # noqa: S608 - our tables
        self.reload()
