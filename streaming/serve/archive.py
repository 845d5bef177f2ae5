"""Reading the history: pages of rounds and stories, timelines, searches, and groups as of a moment."""

import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, structs

from streaming.advice.rules import episodes_to_read
from streaming.records.codec import encode
from streaming.records.diffs import Diff, LatestAssignment, assignment_decoder, diff_decoder
from streaming.records.downtime import total_downtime
from streaming.records.episodes import Episode, decode_episode
from streaming.records.names import display_names
from streaming.serve import historyfile, owner_history
from streaming.serve.history import RoundRange, StoredRound, set_status
from streaming.serve.records import GroupSummary, RoundSummary, apply_round, changes
from streaming.serve.stories import MAX_STORIES, EpisodeSummary, IncidentSummary, Sort, StoredStory, episode_summary

#: The most items of one page.
MAX_PAGE_ITEMS: Final = 2000
#: The most rounds of one page with diffs, which are large.
MAX_DIFFS: Final = 500
#: A page ends after the item with which it exceeds this size: a diff of ten thousand members is 8 MB.
MAX_BYTES: Final = 16 * 2**20
_ROUNDS_AFTER_SQL: Final = """
SELECT seq, summary, body, (SELECT name FROM groups WHERE id = group_id AND groups.summary IS NOT NULL)
FROM rounds WHERE seq > ? ORDER BY seq LIMIT ?
"""
_STORIES_AFTER_SQL: Final = """
SELECT seq, sort, ce_id, (SELECT name FROM groups WHERE id = group_id), body
FROM stories WHERE seq > ? ORDER BY seq LIMIT ?
"""
#: SQL condition: rounds that follow a given round in a list. If retention has dropped the round, all rounds stored
#: before it.
_ROUNDS_BEFORE_SQL: Final = """
((written, seq) < (SELECT written, seq FROM rounds WHERE seq = ?)
OR (seq < ? AND NOT EXISTS (SELECT 1 FROM rounds WHERE seq = ?)))
"""
_GROUP_SQL: Final = "group_id = (SELECT id FROM groups WHERE name = ?)"
_ROUND_AT_SQL: Final = f"""
SELECT seq, summary FROM rounds
WHERE {_GROUP_SQL} AND timestamp <= ? ORDER BY written DESC, seq DESC LIMIT 1
"""  # noqa: S608 - a literal
_EPISODES_SINCE_SQL: Final = f"SELECT body FROM stories WHERE sort = 'episode' AND {_GROUP_SQL} AND updated >= ?"  # noqa: S608 - a literal
_summary_decoder = msgspec.json.Decoder(RoundSummary)
_episodes = msgspec.json.Decoder(EpisodeSummary)
_incidents = msgspec.json.Decoder(IncidentSummary)
#: A topic and a partition, such as ``orders-17``.
_PARTITION: Final = re.compile(r"(.+)-([0-9]{1,10})", re.DOTALL)


class PageQuery(NamedTuple):
    """A page of rounds or stories: of one group or all, in ``[since, until)`` ms, by cause and moved partitions."""

    group: str | None = None
    since: int | None = None
    until: int | None = None
    cause: str | None = None
    min_moved: int = 0
    before: int | None = None
    limit: int = 100


def _sql_condition(*conditions: tuple[str, Any]) -> tuple[str, list[Any]]:
    """Return one SQL condition from the conditions whose value is not None, and the values of its question marks."""
    where, values = ["1"], list[Any]()
    for condition, value in conditions:
        if value is not None:
            where.append(condition)
            values += [value] * condition.count("?")
    return " AND ".join(where), values


class StoredPage(NamedTuple):
    """JSON bytes of a page's items, newest first, and the next page's cursor."""

    items: list[bytes]
    next: int | None


#: JSON of a group's latest assignment, episodes and incidents (newest first), and diffs by the number of their episode.
PastGroupRows = tuple[bytes | None, list[bytes], list[bytes], dict[int, list[bytes]]]


class Archive:
    """Reads the history file; each query sees the latest commit."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose queries all read the same state of the file, even if retention runs meanwhile."""
        with historyfile.history_read_errors(self._path), closing(historyfile.connect(self._path, "ro")) as connection:
            connection.execute("BEGIN")
            yield connection

    def rounds_after(self, round_range: RoundRange, seq: int, limit: int, max_bytes: int) -> list[StoredRound] | None:
        """Return rounds with numbers after ``seq``, oldest first; None if retention has dropped any of these rounds."""
        with self._reading() as connection:
            metadata_values = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('epoch', 'trimmed')"))
            if metadata_values["epoch"] != round_range.epoch or seq < int(metadata_values["trimmed"]):
                return None
            with closing(connection.execute(_ROUNDS_AFTER_SQL, (seq, limit))) as rows:
                return list(
                    owner_history.limit_bytes(max_bytes, map(_stored_round, rows), lambda stored: len(stored.body))
                )

    def stories_after(self, seq: int, limit: int, max_bytes: int) -> list[StoredStory]:
        """Return the episodes and incidents with numbers after ``seq`` in the history, in this order."""
        with self._reading() as connection, closing(connection.execute(_STORIES_AFTER_SQL, (seq, limit))) as rows:
            stories = (
                StoredStory(row_seq, sort, ce_id, group, zlib.decompress(body))
                for row_seq, sort, ce_id, group, body in rows
            )
            return list(owner_history.limit_bytes(max_bytes, stories, lambda stored: len(stored.body)))

    def stories(self, sort: Sort, window: PageQuery, *, opened: bool | None = None) -> StoredPage:
        """Return episodes or incidents as in their topic, newest first; ``opened``: only open or only closed ones."""
        # A group numbers its stories in order; the stories of several groups are ordered by time.
        first = "began" if window.group is None else "number"
        where, values = _sql_condition(
            ("sort = ?", sort),
            (_GROUP_SQL, window.group),
            ("began >= ?", window.since),
            ("began < ?", window.until),
            ("open = ?", opened),
            (f"({first}, id) < (SELECT {first}, id FROM stories WHERE id = ?)", window.before),  # noqa: S608 - ours
        )
        with self._reading() as connection:
            query = f"SELECT id, body FROM stories WHERE {where} ORDER BY {first} DESC, id DESC LIMIT ?"  # noqa: S608 - ours
            rows = connection.execute(query, [*values, window.limit + 1]).fetchall()
            items = [zlib.decompress(body) for _, body in rows[: window.limit]]
        return StoredPage(items, rows[window.limit - 1][0] if len(rows) > window.limit else None)

    def past(self, group: str, now_ms: int) -> PastGroupRows:
        """Return the input of advice for a group: its stories, its assignment, and the diffs of some episodes."""
        episodes, incidents = (
            self.stories(sort, PageQuery(group, limit=MAX_STORIES)).items for sort in ("episode", "incident")
        )
        rounds: dict[int, list[bytes]] = {}
        size = 0
        with self._reading() as connection:
            for episode in episodes_to_read([decode_episode(body) for body in episodes], now_ms):
                ids = ", ".join("?" * len(episode.rounds))
                query = f"SELECT body FROM rounds WHERE ce_id IN ({ids}) ORDER BY written, seq"  # noqa: S608 - question marks
                bodies = connection.execute(query, episode.rounds).fetchall()
                if len(bodies) == episode.round_count and size < owner_history.MAX_READ_BYTES:
                    rounds[episode.episode] = [zlib.decompress(body) for (body,) in bodies]
                    size += sum(map(len, rounds[episode.episode]))
        return self.assignment(group), episodes, incidents, rounds

    def page(self, window: PageQuery, *, with_diff: bool) -> StoredPage:
        """Return a page of rounds, newest first, each ``{"seq", "summary"}``, and ``"diff"`` if ``with_diff``."""

        def item(seq: int, summary: bytes, body: bytes) -> bytes:
            diff = {"diff": Raw(zlib.decompress(body))} if with_diff else {}
            return encode({"seq": seq, "summary": Raw(summary), **diff})

        with self._reading() as connection:
            return _page(connection, window, item)

    def timeline(self, window: PageQuery) -> tuple[dict[str, Raw], StoredPage, int]:
        """Return a page of rounds with their changes of owners, and the time of its oldest round (ms).

        The first item has the owners before the oldest round, and the members' display names, as in JSON answers.
        """
        ends: list[tuple[int, Diff]] = []

        def item(seq: int, summary: bytes, body: bytes) -> bytes:
            diff = diff_decoder.decode(zlib.decompress(body))
            ends[1:] = [(seq, diff)]  # the newest and the oldest round
            return encode({"seq": seq, "summary": Raw(summary), "changes": changes(diff)})

        with self._reading() as connection:
            page = _page(connection, window, item)
            owners = owner_history.owners_before(connection, ends[-1][0]) if ends else []
            names: dict[str, str] = {}
            for _, diff in reversed(ends):
                names |= owner_history.names_of(connection, diff)
        return {"base": Raw(encode(owners)), "names": Raw(encode(names))}, page, ends[-1][1].timestamp if ends else 0

    def round(self, group: str, seq: int) -> bytes | None:
        """Return one round with its diff, as JSON; None if the group has no such round."""
        with self._reading() as connection:
            query = f"SELECT summary, body FROM rounds WHERE seq = ? AND {_GROUP_SQL}"  # noqa: S608 - a literal
            row = connection.execute(query, (seq, group)).fetchone()
            if row is None:
                return None
            body = zlib.decompress(row[1])
            diff = diff_decoder.decode(body)
            names = owner_history.names_of(connection, diff)
        listed = {member_id: name for member_id, name in names.items() if member_id in diff.named}
        return encode({"seq": seq, "summary": Raw(row[0]), "names": listed, "diff": Raw(body)})

    def episode(self, group: str, number: str) -> Episode | None:
        """Return a group's episode by its number; None if the group has no such episode."""
        with self._reading() as connection:
            query = f"SELECT body FROM stories WHERE sort = 'episode' AND CAST(number AS TEXT) = ? AND {_GROUP_SQL}"  # noqa: S608 - a literal
            row = connection.execute(query, (number, group)).fetchone()
        return None if row is None else decode_episode(zlib.decompress(row[0]))

    def assignment(self, group: str) -> bytes | None:
        """Return the latest assignment of a group, as in the topic."""
        with self._reading() as connection:
            row = connection.execute("SELECT assignment FROM groups WHERE name = ?", (group,)).fetchone()
        return None if row is None else row[0]

    def group(self, group: str, since_ms: int) -> dict[str, object]:
        """Return a group's latest assignment, its members' names and join times, and its downtime, as in JSON answers.

        ``downtimeToday``: downtime of the episodes that had a round since ``since_ms``.
        """
        body = self.assignment(group)
        with self._reading() as connection:
            episodes = connection.execute(_EPISODES_SINCE_SQL, (group, since_ms)).fetchall()
            downtime = total_downtime(_episodes.decode(zlib.decompress(episode)).downtime for (episode,) in episodes)
            if body is None:
                return {"assignment": None, "names": {}, "since": {}, "downtimeToday": downtime}
            latest = assignment_decoder.decode(body)
            since = owner_history.joined_since(connection, group, latest.members)
        names = display_names(latest.names)
        return {"assignment": Raw(body), "names": names, "since": since, "downtimeToday": downtime}

    def search(self, words: str, limit: int) -> list[dict[str, object]]:
        """Return partitions, topics and members of latest assignments whose names contain a text.

        A matching partition, such as ``orders-17``, has the display names of its owners.
        """
        words = words.lower()
        partition = _PARTITION.fullmatch(words)
        topic, number = (partition[1], int(partition[2])) if partition else (words, None)
        matches: list[dict[str, object]] = []
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT assignment FROM groups WHERE instr(lower(assignment), ?) OR instr(lower(assignment), ?)"
                " ORDER BY name",
                (words, topic),
            )
            for (assignment,) in rows:
                matches += _matches(assignment_decoder.decode(assignment), words, topic, number)
                if len(matches) >= limit:
                    break
        return matches[:limit]

    def group_at(self, now: GroupSummary, at_ms: int) -> dict[str, Any] | None:
        """Return a group as of a past time, as in JSON answers; its (at most 10) episodes and incidents are JSON bytes.

        Return None if no round before the moment is stored, or the group was deleted then.
        """
        with self._reading() as connection:
            group = _summary_at(connection, now, at_ms)
            if group is None:
                return None
            episodes = _stories_at(connection, "episode", group.group_id, at_ms, 10)
            incidents = [
                body
                for body in _stories_at(connection, "incident", group.group_id, at_ms, MAX_STORIES)
                if (closed := _incidents.decode(body).closed_at) is None or closed > at_ms
            ]
            latest = owner_history.latest_assignment(connection, group.group_id)
            if latest is None or latest.timestamp > at_ms:
                latest = owner_history.assignment_after(connection, group)
        fields = {"group": group, "assignment": latest, "names": display_names(latest.names), "at": at_ms}
        return fields | {"episodes": episodes, "incidents": incidents}

    def groups_at(self, groups: Iterable[GroupSummary], at_ms: int) -> dict[str, GroupSummary]:
        """Return groups by id as of a past time, without groups that had no round yet or were deleted."""
        with self._reading() as connection:
            then = [_summary_at(connection, group, at_ms) for group in groups]
        return {group.group_id: group for group in then if group is not None}


def _summary_at(connection: sqlite3.Connection, now: GroupSummary, at_ms: int) -> GroupSummary | None:
    """Return a group's summary as of a past time, but with the totals of ``now``, its current summary."""
    row = connection.execute(_ROUND_AT_SQL, (now.group_id, at_ms)).fetchone()
    if row is None or (summary := _summary_decoder.decode(row[1])).state == "Dead":
        return None
    newest: EpisodeSummary | None = None
    for body in _stories_at(connection, "episode", now.group_id, at_ms, 1):
        newest = episode_summary(body)
        if (newest.closed_at or 0) > at_ms:
            newest = structs.replace(newest, closed_at=None)
    return set_status(apply_round(now, row[0], summary), newest)


def _matches(latest: LatestAssignment, words: str, topic_text: str, number: int | None) -> Iterator[dict[str, object]]:
    names = display_names(latest.names)
    counts: dict[str, int] = {}
    owners: dict[str, list[str]] = {}
    for member_id, holding in latest.members.items():
        for topic, numbers in holding.items():
            counts[topic] = counts.get(topic, 0) + len(numbers)
            if number in numbers and topic_text in topic.lower():
                owners.setdefault(topic, []).append(names.get(member_id, member_id))
    group: dict[str, object] = {"groupId": latest.group_id}
    for topic, held in owners.items():
        yield group | {"kind": "partition", "topic": topic, "partition": number, "owners": held}
    for topic, count in counts.items():
        if words in topic.lower():
            yield group | {"kind": "topic", "topic": topic, "partitions": count}
    for member_id in latest.members:
        if words in f"{names.get(member_id, '')} {member_id}".lower():
            yield group | {"kind": "member", "memberId": member_id, "name": names.get(member_id, member_id)}


def _page(connection: sqlite3.Connection, window: PageQuery, item: Callable[[int, bytes, bytes], bytes]) -> StoredPage:
    """Return one page of stored rounds, up to ``MAX_BYTES``; ``item`` makes each entry from (seq, summary, body)."""
    items: list[bytes] = []
    size = last = 0
    where, values = _sql_condition(
        (_GROUP_SQL, window.group),
        ("timestamp >= ?", window.since),
        ("timestamp < ?", window.until),
        ("cause = ?", window.cause),
        ("moved >= ?", window.min_moved or None),
        (_ROUNDS_BEFORE_SQL, window.before),
    )
    query = f"SELECT seq, summary, body FROM rounds WHERE {where} ORDER BY written DESC, seq DESC LIMIT ?"  # noqa: S608 - literals
    with closing(connection.execute(query, [*values, window.limit + 1])) as rows:
        for seq, summary, body in rows:
            if len(items) >= window.limit or size >= MAX_BYTES:
                return StoredPage(items, last)
            items.append(item(seq, summary, body))
            size, last = size + max(len(items[-1]), len(body)), seq
    return StoredPage(items, None)


def _stored_round(row: tuple[int, bytes, bytes, str]) -> StoredRound:
    seq, summary_json, body, group = row
    summary = _summary_decoder.decode(summary_json)
    if summary.group_id != group:
        raise ValueError(f"round {seq} is stored for group {group!r} but is of group {summary.group_id!r}")
    return StoredRound(seq, summary, zlib.decompress(body))


def _stories_at(connection: sqlite3.Connection, sort: Sort, group: str, at_ms: int, most: int) -> list[bytes]:
    """Return the episodes or incidents that had begun at a past time, as of that time, the newest first.

    If compaction left only later records of an episode or incident, the oldest of these is returned.
    """
    begun = "FROM versions WHERE sort = ?1 AND group_id = (SELECT id FROM groups WHERE name = ?2) AND opened <= ?3"
    rows = connection.execute(
        f"SELECT number, body {begun} AND number > (SELECT MAX(number) {begun}) - ?4 "
        "ORDER BY number DESC, happened <= ?3, abs(happened - ?3) DESC",
        (sort, group, at_ms, most),
    )
    return [zlib.decompress(body) for body in dict(rows).values()]
