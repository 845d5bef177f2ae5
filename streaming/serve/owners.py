"""Who owned what when, from stored rounds: diffs that leave members out are put together with those before them."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing

import msgspec
from msgspec import UNSET

from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.owners import Owners, current

_BEFORE = "SELECT body FROM rounds WHERE group_id = ? AND seq < ? ORDER BY seq DESC"
_FROM = "SELECT ce_id, body FROM rounds WHERE group_id = ? AND seq BETWEEN ? AND ? ORDER BY seq"
_SEQ = "SELECT seq FROM rounds WHERE group_id = ? AND ce_id = ?"
_NEWEST = "SELECT seq, timestamp FROM rounds WHERE group_id = ? ORDER BY seq DESC LIMIT 1"
#: Behind every round.
_END = 2**62

_diffs = msgspec.json.Decoder(Diff)
_assignments = msgspec.json.Decoder(LatestAssignment)


def decoded(body: bytes) -> Diff:
    """A stored diff."""
    return _diffs.decode(zlib.decompress(body))


def owners_before(connection: sqlite3.Connection, group_id: int, seq: int = _END) -> Owners | None:
    """The owners before a round of a group, or after all that are stored; None where these do not say.

    By the newest round before it that names everybody and those after that; where there is none any more, by the
    latest assignment and the rounds between.
    """
    brief: list[Diff] = []
    with closing(connection.execute(_BEFORE, (group_id, seq))) as rows:
        for (body,) in rows:
            diff = decoded(body)
            if diff.unchanged is UNSET:
                owners = Owners()
                owners.take(diff)
                break
            brief.append(diff)
        else:
            return _by_assignment(connection, group_id, seq)
    for diff in reversed(brief):
        if not owners.fits(diff):
            return None
        owners.take(diff)
    return owners


def _by_assignment(connection: sqlite3.Connection, group_id: int, seq: int) -> Owners | None:
    (body,) = connection.execute("SELECT assignment FROM groups WHERE id = ?", (group_id,)).fetchone()
    if body is None:
        return None
    latest = _assignments.decode(body)
    if latest.after is UNSET:
        return None
    place = connection.execute(_SEQ, (group_id, latest.after)).fetchone()
    if place is None:
        return None
    owners = Owners.of(latest)
    if place[0] < seq:
        for _, stored in connection.execute(_FROM, (group_id, place[0] + 1, seq - 1)).fetchall():
            diff = decoded(stored)
            if not owners.fits(diff):
                return None
            owners.take(diff)
    else:
        for _, stored in reversed(connection.execute(_FROM, (group_id, seq, place[0])).fetchall()):
            owners.undo(decoded(stored))
    return owners


def whole(connection: sqlite3.Connection, seq: int) -> Diff:
    """A stored round's diff with everybody, as far as the history says who else there was."""
    group_id, body = connection.execute("SELECT group_id, body FROM rounds WHERE seq = ?", (seq,)).fetchone()
    diff = decoded(body)
    if diff.unchanged is UNSET:
        return diff
    owners = owners_before(connection, group_id, seq)
    return diff if owners is None or not owners.fits(diff) else owners.whole(diff)


def assignment_now(connection: sqlite3.Connection, group_id: int, body: bytes) -> LatestAssignment | None:
    """A latest assignment with what stored rounds after it changed; None: there are none."""
    latest = _assignments.decode(body)
    if latest.after is UNSET:
        return None
    place = connection.execute(_SEQ, (group_id, latest.after)).fetchone()
    if place is None:
        newest = connection.execute(_NEWEST, (group_id,)).fetchone()
        if newest is None or newest[1] <= latest.timestamp:
            return None  # its diff is still to come
        place = (0,)
    rows = connection.execute(_FROM, (group_id, place[0] + 1, _END)).fetchall()
    found = current(latest, ((ce_id, decoded(stored)) for ce_id, stored in rows))
    return None if found is latest else found
