"""Reading the history: pages of rounds, timelines, owners of partitions, and when members joined."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from streaming.advice.rules import episodes_to_read
from streaming.records.codec import encode
from streaming.records.diffs import Cause, Diff, LatestAssignment, MemberNames
from streaming.records.downtime import together
from streaming.records.episodes import Downtime, decode_episode
from streaming.records.events import Holding
from streaming.records.names import called
from streaming.serve import historyfile
from streaming.serve.history import Extent, StoredRound
from streaming.serve.records import OwnerChange, RoundSummary, changes
from streaming.serve.stories import MOST_STORIES, EpisodeSummary, Sort, StoredStory, summary_of

_T = TypeVar("_T")

#: Bytes of diffs that one answer reads.
MOST_BYTES: Final = 32 * 2**20
#: Rounds that are searched for the joining of members.
MOST_LOOKED_AT: Final = 200
_NEWEST: Final = """
SELECT body FROM rounds
WHERE group_id = (SELECT id FROM groups WHERE name = ?) ORDER BY written DESC, seq DESC LIMIT ?
"""
_FROM: Final = """
SELECT body FROM rounds
WHERE group_id = ?1 AND (written, seq) >= (SELECT written, seq FROM rounds WHERE seq = ?2)
ORDER BY written, seq
"""
#: Most items of one page.
MAX_PAGE: Final = 2000
#: The same of rounds with their diffs, which are large.
MAX_DIFFS: Final = 500
#: A page ends after the item with which it has so many bytes: a diff of ten thousand members is 8 MB.
MAX_BYTES: Final = 16 * 2**20

_AFTER: Final = """
SELECT seq, summary, body, (SELECT name FROM groups WHERE id = group_id AND groups.summary IS NOT NULL)
FROM rounds WHERE seq > ? ORDER BY seq LIMIT ?
"""
#: Behind a round in a list; where retention has dropped it, what is left of those before it.
_BEFORE: Final = """
((written, seq) < (SELECT written, seq FROM rounds WHERE seq = ?)
OR (seq < ? AND NOT EXISTS (SELECT 1 FROM rounds WHERE seq = ?)))
"""
_ROUND_AT: Final = """
SELECT seq, summary, body FROM rounds
WHERE group_id = (SELECT id FROM groups WHERE name = ?) AND timestamp <= ? ORDER BY written DESC, seq DESC LIMIT 1
"""
_ROUND_AFTER: Final = """
SELECT later.seq FROM rounds JOIN rounds AS later ON later.group_id = rounds.group_id
AND (later.written, later.seq) > (rounds.written, rounds.seq)
WHERE rounds.seq = ? ORDER BY later.written, later.seq LIMIT 1
"""
#: Episodes that the group as of a moment lists.
_EPISODES_AT: Final = 10
_OF_GROUP: Final = "group_id = (SELECT id FROM groups WHERE name = ?)"
_STORIES: Final = "SELECT id, body FROM stories WHERE"
_EPISODES_SINCE: Final = """
SELECT body FROM stories
WHERE sort = 'episode' AND group_id = (SELECT id FROM groups WHERE name = ?) AND updated >= ?
"""
_STORIES_AFTER: Final = """
SELECT seq, sort, ce_id, (SELECT name FROM groups WHERE id = group_id), body
FROM stories WHERE seq > ? ORDER BY seq LIMIT ?
"""
_summaries = msgspec.json.Decoder(RoundSummary)
_diffs = msgspec.json.Decoder(Diff)
_episodes = msgspec.json.Decoder(EpisodeSummary)
_assignments = msgspec.json.Decoder(LatestAssignment)
#: Digits of a partition's number, and one.
_MOST_DIGITS: Final = 11


class Window(NamedTuple):
    """Which rounds to return: of one group or all, in ``[since, until)`` ms, by cause and partitions moved."""

    group: str | None = None
    since: int | None = None
    until: int | None = None
    cause: str | None = None
    min_moved: int = 0
    before: int | None = None
    limit: int = 100

    def sql(self) -> tuple[str, list[Any]]:
        """``WHERE … ORDER BY … LIMIT`` and its values; newest first."""
        where, values = _where(
            (_OF_GROUP, self.group),
            ("timestamp >= ?", self.since),
            ("timestamp < ?", self.until),
            ("cause = ?", self.cause),
            ("moved >= ?", self.min_moved or None),
        )
        if self.before is not None:
            where += f" AND {_BEFORE}"
            values += [self.before] * 3
        return f"WHERE {where} ORDER BY written DESC, seq DESC LIMIT ?", [*values, self.limit + 1]


def _where(*conditions: tuple[str, Any]) -> tuple[str, list[Any]]:
    set_conditions = [condition for condition in conditions if condition[1] is not None]
    return " AND ".join(["1", *(sql for sql, _ in set_conditions)]), [value for _, value in set_conditions]


class StoredPage(NamedTuple):
    """JSON bytes of a page's items, newest first, the next page's cursor, and the number of the oldest item."""

    items: list[bytes]
    next: int | None
    last: int = 0


class OwnersOverTime(NamedTuple):
    """JSON bytes: owners before the oldest round of the page, and display names of members at its two ends.

    ``began``: the time of that round, ms.
    """

    base: bytes
    names: bytes
    page: StoredPage
    began: int = 0


class GroupThen(NamedTuple):
    """A group as of a moment: its newest round, its assignment, and JSON bytes of its stories, the newest first."""

    seq: int
    summary: RoundSummary
    assignment: LatestAssignment
    episodes: list[bytes]
    incidents: list[bytes]


class GroupPast(NamedTuple):
    """JSON bytes: a group's latest assignment, stories (the newest first), and the diffs of episodes by number."""

    assignment: bytes | None
    episodes: list[bytes]
    incidents: list[bytes]
    rounds: dict[int, list[bytes]]


class Archive:
    """Reads the file; each query sees the latest commit."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the file for several queries, even if retention runs between them."""
        with historyfile.reading(self._path), closing(historyfile.connect(self._path, "ro")) as connection:
            connection.execute("BEGIN")
            yield connection

    def after(self, extent: Extent, seq: int, limit: int, max_bytes: int) -> list[StoredRound] | None:
        """Rounds after ``seq``, oldest first; None if some of them were dropped already."""
        with self._reading() as connection:
            meta = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('epoch', 'trimmed')"))
            if meta["epoch"] != extent.epoch or seq < int(meta["trimmed"]):
                return None
            with closing(connection.execute(_AFTER, (seq, limit))) as rows:
                return list(_up_to(max_bytes, map(_stored_round, rows), lambda stored: len(stored.body)))

    def stories_after(self, seq: int, limit: int, max_bytes: int) -> list[StoredStory]:
        """Stories that were stored after ``seq``, in that order."""
        with self._reading() as connection, closing(connection.execute(_STORIES_AFTER, (seq, limit))) as rows:
            stories = (
                StoredStory(row_seq, sort, ce_id, group, zlib.decompress(body))
                for row_seq, sort, ce_id, group, body in rows
            )
            return list(_up_to(max_bytes, stories, lambda stored: len(stored.body)))

    def stories(self, sort: Sort, window: Window, *, opened: bool | None = None) -> StoredPage:
        """Return stories as in their topic, newest first; ``opened``: only open ones, or only closed ones."""
        # A group numbers its stories in order; the stories of several groups are ordered by time.
        first = "began" if window.group is None else "number"
        where, values = _where(
            ("sort = ?", sort),
            (_OF_GROUP, window.group),
            ("began >= ?", window.since),
            ("began < ?", window.until),
            ("open = ?", opened),
            (f"({first}, id) < (SELECT {first}, id FROM stories WHERE id = ?)", window.before),  # noqa: S608 - ours
        )
        with self._reading() as connection:
            rows = connection.execute(
                f"{_STORIES} {where} ORDER BY {first} DESC, id DESC LIMIT ?", [*values, window.limit + 1]
            ).fetchall()
            items = [zlib.decompress(body) for _, body in rows[: window.limit]]
        return StoredPage(items, rows[window.limit - 1][0] if len(rows) > window.limit else None)

    def past(self, group: str, now_ms: int) -> GroupPast:
        """Return what advice is made of: a group's stories, its assignment, and the diffs of some episodes."""
        episodes, incidents = (
            self.stories(sort, Window(group, limit=MOST_STORIES)).items for sort in ("episode", "incident")
        )
        rounds: dict[int, list[bytes]] = {}
        size = 0
        with self._reading() as connection:
            for episode in episodes_to_read([decode_episode(body) for body in episodes], now_ms):
                ids = ", ".join("?" * len(episode.rounds))
                bodies = connection.execute(
                    f"SELECT body FROM rounds WHERE ce_id IN ({ids}) ORDER BY written, seq",  # noqa: S608 - question marks
                    episode.rounds,
                ).fetchall()
                if len(bodies) == episode.round_count and size < MOST_BYTES:
                    rounds[episode.episode] = [zlib.decompress(body) for (body,) in bodies]
                    size += sum(map(len, rounds[episode.episode]))
        return GroupPast(self.assignment(group), episodes, incidents, rounds)

    def downtime(self, group: str, since: int) -> Downtime | None:
        """Return the downtime of a group in the episodes that had a round since a time (ms)."""
        with self._reading() as connection:
            rows = connection.execute(_EPISODES_SINCE, (group, since)).fetchall()
            return together(_episodes.decode(zlib.decompress(body)).downtime for (body,) in rows)

    def page(self, window: Window, *, with_diff: bool) -> StoredPage:
        """Return a page of rounds, newest first, each ``{"seq", "summary"}``, and ``"diff"`` with ``with_diff``."""

        def item(seq: int, summary: bytes, body: bytes) -> bytes:
            diff = b',"diff":' + zlib.decompress(body) if with_diff else b""
            return b'{"seq":%d,"summary":%b%b}' % (seq, summary, diff)

        with self._reading() as connection:
            return _page(connection, window, item)

    def timeline(self, window: Window) -> OwnersOverTime:
        """Ownership over the rounds of a window: the owners before it, then each round's changes."""
        diffs: list[Diff] = []

        def item(seq: int, summary: bytes, body: bytes) -> bytes:
            diff = _diffs.decode(zlib.decompress(body))
            diffs[1:] = [diff]  # the newest and the oldest
            return b'{"seq":%d,"summary":%b,"changes":%b}' % (seq, summary, encode(changes(diff)))

        with self._reading() as connection:
            page = _page(connection, window, item)
            owners = owners_before(connection, page.last) if page.last else []
            names = [names_of(connection, diff) for diff in reversed(diffs)]
        return OwnersOverTime(
            base=encode(owners),
            names=encode({member_id: name for some in names for member_id, name in some.items()}),
            page=page,
            began=diffs[-1].timestamp if diffs else 0,
        )

    def round(self, group: str, seq: int) -> bytes | None:
        """One round with its diff."""
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT summary, body FROM rounds WHERE seq = ? AND {_OF_GROUP}",  # noqa: S608 - a literal
                (seq, group),
            ).fetchone()
            if row is None:
                return None
            body = zlib.decompress(row[1])
            diff = _diffs.decode(body)
            listed = diff.named
            names = {member_id: name for member_id, name in names_of(connection, diff).items() if member_id in listed}
            return b'{"seq":%d,"summary":%b,"names":%b,"diff":%b}' % (seq, row[0], encode(names), body)

    def assignment(self, group: str) -> bytes | None:
        """Return the latest assignment of a group, as in the topic."""
        with self._reading() as connection:
            row = connection.execute("SELECT assignment FROM groups WHERE name = ?", (group,)).fetchone()
        return None if row is None else row[0]

    def search(self, words: str, limit: int) -> list[dict[str, object]]:
        """Return partitions, topics and members of latest assignments whose names contain a text.

        Of the partition ``orders-17`` the owners are listed, by display name.
        """
        topic_part, _, digits = words.rpartition("-")
        number = (
            int(digits) if topic_part and digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS else None
        )
        found: list[dict[str, object]] = []
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT assignment FROM groups WHERE instr(lower(assignment), ?1) OR instr(lower(assignment), ?2)"
                " ORDER BY name",
                (words.lower(), (words if number is None else topic_part).lower()),
            )
            for (assignment,) in rows:
                found += _matches(_assignments.decode(assignment), words.lower(), topic_part.lower(), number)
                if len(found) >= limit:
                    break
        return found[:limit]

    def since(self, group: str, assignment: bytes | None) -> dict[str, int]:
        """When members of a latest assignment joined, ms, as far as the last rounds show it."""
        if assignment is None:
            return {}
        with self._reading() as connection:
            return joined_since(connection, group, _assignments.decode(assignment).members)

    def group_at(self, group: str, at_ms: int) -> GroupThen | None:
        """Return a group as of a moment; None if no round of it is kept from before, or it was deleted then."""
        with self._reading() as connection:
            row = connection.execute(_ROUND_AT, (group, at_ms)).fetchone()
            summary = None if row is None else _summaries.decode(row[1])
            if summary is None or summary.state == "Dead":
                return None
            episodes = _versions_at(connection, "episode", group, at_ms, _EPISODES_AT)
            incidents = [
                body
                for body in _versions_at(connection, "incident", group, at_ms, MOST_STORIES)
                if (closed := _lasting.decode(body).closed_at) is None or closed > at_ms
            ]
            latest = _latest(connection, group)
            if latest is None or latest.timestamp > at_ms:
                latest = _assignment_after(connection, row[0], _diffs.decode(zlib.decompress(row[2])), summary)
            return GroupThen(row[0], summary, latest, episodes, incidents)

    def groups_at(self, at_ms: int) -> list[tuple[int, RoundSummary, EpisodeSummary | None]]:
        """Return each group as of a moment: its newest round, with its number, and its newest episode."""
        found = []
        with self._reading() as connection:
            for (name,) in connection.execute("SELECT name FROM groups WHERE summary IS NOT NULL").fetchall():
                row = connection.execute(_ROUND_AT, (name, at_ms)).fetchone()
                if row is not None and (summary := _summaries.decode(row[1])).state != "Dead":
                    episodes = _versions_at(connection, "episode", name, at_ms, 1)
                    newest = summary_of("episode", episodes[0]) if episodes else None
                    found.append((row[0], summary, newest if isinstance(newest, EpisodeSummary) else None))
        return found

    def names(self, assignment: bytes | None) -> bytes:
        """JSON bytes: what people call the members of a latest assignment."""
        with historyfile.reading(self._path):
            return b"{}" if assignment is None else encode(called(_assignments.decode(assignment).names))


def _matches(latest: LatestAssignment, words: str, topic_part: str, number: int | None) -> Iterator[dict[str, object]]:
    names = called(latest.names)
    counts: dict[str, int] = {}
    owners: dict[str, list[str]] = {}
    for member_id, holding in latest.members.items():
        for topic, numbers in holding.items():
            counts[topic] = counts.get(topic, 0) + len(numbers)
            if number in numbers and topic_part in topic.lower():
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


def _page(connection: sqlite3.Connection, window: Window, item: Callable[[int, bytes, bytes], bytes]) -> StoredPage:
    """Return the rounds of a window, each as ``item(seq, summary, body)``, up to ``MAX_BYTES``."""
    items: list[bytes] = []
    size = last = 0
    where, values = window.sql()
    query = f"SELECT seq, summary, body FROM rounds {where}"  # noqa: S608 - literals
    with closing(connection.execute(query, values)) as rows:
        for seq, summary, body in rows:
            if len(items) >= window.limit or size >= MAX_BYTES:
                return StoredPage(items, last, last)
            items.append(item(seq, summary, body))
            size, last = size + max(len(items[-1]), len(body)), seq
    return StoredPage(items, None, last)


def _body(row: tuple[bytes]) -> bytes:
    return zlib.decompress(row[0])


def _stored_round(row: tuple[int, bytes, bytes, str]) -> StoredRound:
    seq, summary_json, body, group = row
    summary = _summaries.decode(summary_json)
    if summary.group_id != group:
        raise ValueError(f"round {seq} is of no group that it holds")
    return StoredRound(seq, summary, zlib.decompress(body))


def _up_to(max_bytes: int, items: Iterable[_T], size: Callable[[_T], int]) -> Iterator[_T]:
    """Yield items until they have more bytes than this."""
    total = 0
    for item in items:
        yield item
        total += size(item)
        if total > max_bytes:
            return


def _latest(connection: sqlite3.Connection, group: str) -> LatestAssignment | None:
    row = connection.execute("SELECT assignment FROM groups WHERE name = ?", (group,)).fetchone()
    return None if row is None or row[0] is None else _assignments.decode(row[0])


def names_of(connection: sqlite3.Connection, diff: Diff) -> dict[str, str]:
    """Return display names of a round's members; those that its diff omits, by the latest assignment."""
    latest = None if diff.unchanged is UNSET else _latest(connection, diff.group_id)
    return called({**(latest.names if latest is not None else {}), **diff.named})


def owners_before(connection: sqlite3.Connection, seq: int) -> list[OwnerChange]:
    """Return the owners of partitions before a stored round.

    A diff lists the members that changed. So a partition's owner is in the first round from this one on that lists
    it; where none does, it is in the latest assignment. At most ``MOST_BYTES`` of diffs are read.
    """
    (group_id,) = connection.execute("SELECT group_id FROM rounds WHERE seq = ?", (seq,)).fetchone()
    owners: dict[tuple[str, int], str | None] = {}
    latest: LatestAssignment | None = None
    with closing(connection.execute(_FROM, (group_id, seq))) as rows:
        for raw in _up_to(MOST_BYTES, map(_body, rows), len):
            diff = _diffs.decode(raw)
            for member_id, member in diff.members.items():
                owners |= {place: member_id for place in _places(member.owned) if place not in owners}
            for member in diff.members.values():
                owners |= {place: None for place in _places(member.assigned) if place not in owners}
            if diff.unchanged is UNSET:
                break
        else:
            # Behind a round that was not read, the latest assignment is too late.
            latest = _latest(connection, diff.group_id) if rows.fetchone() is None else None
    for member_id, share in latest.members.items() if latest is not None else ():
        owners |= {place: member_id for place in _places(share) if place not in owners}
    shares: dict[str, dict[str, list[int]]] = {}
    for (topic, number), owner in owners.items():
        if owner is not None:
            shares.setdefault(owner, {}).setdefault(topic, []).append(number)
    return [(owner, topic, sorted(numbers)) for owner in shares for topic, numbers in shares[owner].items()]


class _Lasting(Struct, frozen=True, rename="camel"):
    closed_at: int | None = None


_lasting: Final = msgspec.json.Decoder(_Lasting)


def _versions_at(connection: sqlite3.Connection, sort: Sort, group: str, at_ms: int, most: int) -> list[bytes]:
    """Return the last stories that had begun, each as of a moment, the newest first.

    Where only later records of a story were read, as its topic is compacted, the oldest of these is returned.
    """
    begun = "FROM versions WHERE sort = ?1 AND group_id = (SELECT id FROM groups WHERE name = ?2) AND opened <= ?3"
    rows = connection.execute(
        f"SELECT number, body {begun} AND number > (SELECT MAX(number) {begun}) - ?4 "
        "ORDER BY number DESC, happened <= ?3, abs(happened - ?3) DESC",
        (sort, group, at_ms, most),
    )
    return [zlib.decompress(body) for body in dict(rows).values()]


def _assignment_after(connection: sqlite3.Connection, seq: int, diff: Diff, summary: RoundSummary) -> LatestAssignment:
    """Return the assignment after a stored round; members that its diff omits as far as later rounds show them."""
    members = {
        member_id: {
            topic: sorted([*member.kept.get(topic, ()), *member.assigned.get(topic, ())])
            for topic in {**member.kept, **member.assigned}
        }
        for member_id, member in diff.members.items()
        if member.present is not False
    }
    names = {
        member_id: MemberNames(
            client_id=member.client_id, client_host=member.client_host, group_instance_id=member.group_instance_id
        )
        for member_id, member in diff.members.items()
    }
    if diff.unchanged is not UNSET:
        latest = _latest(connection, diff.group_id)
        names = (latest.names if latest is not None else {}) | names
        following = connection.execute(_ROUND_AFTER, (seq,)).fetchone()
        if following is not None:
            for owner, topic, numbers in owners_before(connection, following[0]):
                if owner is not None and owner not in diff.members:
                    members.setdefault(owner, {})[topic] = numbers
        elif latest is not None:
            members |= {one: share for one, share in latest.members.items() if one not in diff.members}
    return LatestAssignment(
        **{name: getattr(summary, name) for name in ("group_id", "protocol", "assignor", "generation", "group_epoch")},
        timestamp=summary.timestamp,
        members=members,
        kind=diff.kind,
        names={member_id: name for member_id, name in names.items() if member_id in members},
    )


def _places(share: Holding) -> list[tuple[str, int]]:
    return [(topic, number) for topic, numbers in share.items() for number in numbers]


class _Presence(Struct, frozen=True):
    present: bool | None = None


class _RoundMembers(Struct, frozen=True):
    """The fields of a diff that show who was in the group."""

    timestamp: int
    cause: Cause
    members: dict[str, _Presence]
    unchanged: int | UnsetType = UNSET

    @property
    def joined(self) -> set[str]:
        """The members that joined with the round."""
        joined = {*self.cause.member_ids} if self.cause.kind == "member.joined" else set[str]()
        return joined.union(*(item.member_ids for item in self.cause.evidence if item.kind == "member.joined"))


_presences = msgspec.json.Decoder(_RoundMembers)


def joined_since(connection: sqlite3.Connection, group: str, members: Collection[str]) -> dict[str, int]:
    """When members joined, by the group's last rounds, ms. Members that joined before these are left out."""
    with closing(connection.execute(_NEWEST, (group, MOST_LOOKED_AT))) as rows:
        return _appeared(map(_presences.decode, _up_to(MOST_BYTES, map(_body, rows), len)), members)


def _appeared(newest: Iterable[_RoundMembers], members: Collection[str]) -> dict[str, int]:
    """Return when members joined, by the group's rounds, newest first; a diff may omit unchanged members."""
    joined_at: dict[str, int] = {}
    missing = set(members)
    later: int | None = None
    round_: _RoundMembers | None = None
    for round_ in newest:
        if round_.unchanged is UNSET:
            present = {member_id for member_id, member in round_.members.items() if member.present is not False}
            if later is not None:
                joined_at |= dict.fromkeys(missing - present, later)
            missing &= present
        else:
            joined = missing & round_.joined
            joined_at |= dict.fromkeys(joined, round_.timestamp)
            missing -= joined
        later = round_.timestamp
        if not missing:
            break
    if round_ is not None and round_.cause.kind == "member.joined":
        joined_at |= dict.fromkeys(missing.intersection(round_.cause.member_ids), round_.timestamp)
    return joined_at
