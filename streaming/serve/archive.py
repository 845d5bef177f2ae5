"""Reading the history: pages of rounds, the rounds after a place in the feed, the window of a timeline."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from streaming.records.codec import encode
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.downtime import together
from streaming.records.episodes import Downtime
from streaming.records.names import called
from streaming.serve import historyfile
from streaming.serve.history import Extent, StoredRound
from streaming.serve.owners import joined_since, names_of, owners_before, stored_round
from streaming.serve.records import RoundSummary
from streaming.serve.stories import EpisodeSummary, Sort, StoredStory

#: One page holds no more than this, whatever was asked for.
MAX_PAGE: Final = 2000
#: Diffs are large: fewer of them stand on a page than summaries.
MAX_DIFFS: Final = 500
#: What a page holds ends behind the item with which it has so many bytes: a diff of ten thousand members is 8 MB.
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
    """Return the conditions that have a value, joined, and these values. Conditions are literals of this module."""
    set_conditions = [condition for condition in conditions if condition[1] is not None]
    return " AND ".join(["1", *(sql for sql, _ in set_conditions)]), [value for _, value in set_conditions]


class StoredPage(NamedTuple):
    """JSON bytes of a page's items, newest first, and the cursor of the next page."""

    items: list[bytes]
    next: int | None


class OwnersOverTime(NamedTuple):
    """JSON bytes: owners before the oldest round of the page, and what people call its members at its two ends."""

    base: bytes
    names: bytes
    page: StoredPage


class Archive:
    """Reads the file, with one connection per thread; each sees the latest commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close every thread's connection."""
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = historyfile.connect(self._path, "ro")
            with self._lock:
                self._all.append(found)
        return found

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the file for several queries, even if retention runs between them."""
        with historyfile.reading(self._path):
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def after(self, extent: Extent, seq: int, limit: int, max_bytes: int) -> list[StoredRound] | None:
        """Rounds after ``seq``, oldest first; None if some of them were dropped already."""
        with self._reading() as connection:
            meta = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('epoch', 'trimmed')"))
            if meta["epoch"] != extent.epoch or seq < int(meta["trimmed"]):
                return None
            found: list[StoredRound] = []
            size = 0
            with closing(connection.execute(_AFTER, (seq, limit))) as rows:
                for row_seq, stored, body, group in rows:
                    raw, summary = zlib.decompress(body), _summaries.decode(stored)
                    if summary.group_id != group:
                        raise ValueError(f"round {row_seq} is of no group that it holds")
                    found.append(StoredRound(row_seq, summary, raw))
                    size += len(raw)
                    if size > max_bytes:
                        break
            return found

    def stories_after(self, seq: int, limit: int, max_bytes: int) -> list[StoredStory]:
        """Stories that were stored after ``seq``, in that order."""
        found: list[StoredStory] = []
        size = 0
        with self._reading() as connection, closing(connection.execute(_STORIES_AFTER, (seq, limit))) as rows:
            for row_seq, sort, ce_id, group, body in rows:
                found.append(StoredStory(row_seq, sort, ce_id, group, zlib.decompress(body)))
                size += len(found[-1].body)
                if size > max_bytes:
                    break
        return found

    def stories(self, sort: Sort, window: Window, *, opened: bool | None = None) -> StoredPage:
        """Stories as they stand in their topic, newest first; ``opened``: only what is open, or what is over."""
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
                f"{_STORIES} {where} ORDER BY {first} DESC, id DESC LIMIT ?",
                [*values, window.limit + 1],
            ).fetchall()
            items = [zlib.decompress(body) for _, body in rows[: window.limit]]
        return StoredPage(items, rows[window.limit - 1][0] if len(rows) > window.limit else None)

    def downtime(self, group: str, since: int) -> Downtime | None:
        """How long a group's partitions had no consumer in its episodes that had a round since a moment (ms)."""
        with self._reading() as connection:
            rows = connection.execute(_EPISODES_SINCE, (group, since)).fetchall()
            return together(_episodes.decode(zlib.decompress(body)).downtime for (body,) in rows)

    def page(self, window: Window, *, with_diff: bool) -> StoredPage:
        """Return a page of rounds, newest first, each ``{"seq", "summary"}`` and, when asked for, ``"diff"``."""
        with self._reading() as connection:
            found, more = _Bounded(window.limit), False
            with closing(_rows(connection, "SELECT seq, summary, body FROM rounds", window)) as rows:
                for seq, summary, body in rows:
                    if found.full:
                        more = True
                        break
                    diff = b',"diff":' + zlib.decompress(body) if with_diff else b""
                    found.take(seq, b'{"seq":%d,"summary":%b%b}' % (seq, summary, diff))
        return found.page(more=more)

    def timeline(self, window: Window) -> OwnersOverTime:
        """Ownership over the rounds of a window: who owned what before it, then each round's changes."""
        with self._reading() as connection:
            found, more = _Bounded(window.limit), False
            with closing(_rows(connection, "SELECT seq, summary, changes FROM rounds", window)) as rows:
                for seq, summary, changes in rows:
                    if found.full:
                        more = True
                        break
                    item = b'{"seq":%d,"summary":%b,"changes":%b}'
                    found.take(seq, item % (seq, summary, zlib.decompress(changes)))
            ends = [stored_round(connection, seq) for seq in dict.fromkeys((found.first, found.last)) if seq]
            owners = owners_before(connection, found.last) if found.last else []
            names = [names_of(connection, *one) for one in reversed(ends)]
        return OwnersOverTime(
            base=encode(owners),
            names=encode({member_id: name for some in names for member_id, name in some.items()}),
            page=found.page(more=more),
        )

    def round(self, group: str, seq: int) -> bytes | None:
        """One round with its diff."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT summary, body FROM rounds WHERE seq = ? "
                "AND group_id = (SELECT id FROM groups WHERE name = ?)",
                (seq, group),
            ).fetchone()
            if row is None:
                return None
            body = zlib.decompress(row[1])
            named = _diffs.decode(body).named
            known = names_of(connection, *stored_round(connection, seq))
            names = encode({one: name for one, name in known.items() if one in named})
            return b'{"seq":%d,"summary":%b,"names":%b,"diff":%b}' % (seq, row[0], names, body)

    def assignment(self, group: str) -> bytes | None:
        """The latest assignment of a group, as it stands in the topic."""
        with self._reading() as connection:
            row = connection.execute("SELECT assignment FROM groups WHERE name = ?", (group,)).fetchone()
        return None if row is None else row[0]

    def since(self, group: str, assignment: bytes | None) -> dict[str, int]:
        """When members of a latest assignment joined, ms, as far as the last rounds show it."""
        if assignment is None:
            return {}
        with self._reading() as connection:
            return joined_since(connection, group, _assignments.decode(assignment).members)

    def names(self, assignment: bytes | None) -> bytes:
        """JSON bytes: what people call the members of a latest assignment."""
        with historyfile.reading(self._path):
            return b"{}" if assignment is None else encode(called(_assignments.decode(assignment).names))


def _rows(connection: sqlite3.Connection, select: str, window: Window) -> sqlite3.Cursor:
    where, values = window.sql()  # clauses are literals of this module, values are bound
    return connection.execute(f"{select} {where}", values)


class _Bounded:
    """The items of a page while it is put together, and the numbers of the first and the last."""

    def __init__(self, limit: int) -> None:
        self.items: list[bytes] = []
        self.first = self.last = 0
        self._limit, self._size = limit, 0

    @property
    def full(self) -> bool:
        return len(self.items) >= self._limit or self._size >= MAX_BYTES

    def take(self, seq: int, item: bytes) -> None:
        self.items.append(item)
        self._size += len(item)
        self.first, self.last = self.first or seq, seq

    def page(self, *, more: bool) -> StoredPage:
        return StoredPage(self.items, self.last if more else None)
