"""Owners of partitions, and the names of members, at a stored round. A diff need not list all members."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from typing import Final

import msgspec
from msgspec import UNSET

from streaming.serve.records import OwnerChange
from streaming.wire import names
from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.events import Holding

#: Bytes of diffs that are read to find who owned what.
MOST_BYTES: Final = 32 * 2**20
_FROM: Final = """
SELECT body FROM rounds
WHERE group_id = ?1 AND (written, seq) >= (SELECT written, seq FROM rounds WHERE seq = ?2)
ORDER BY written, seq
"""

_diffs = msgspec.json.Decoder(Diff)
_assignments = msgspec.json.Decoder(LatestAssignment)


def stored_round(connection: sqlite3.Connection, seq: int) -> tuple[int, Diff]:
    """The group and the diff of a stored round."""
    group_id, body = connection.execute("SELECT group_id, body FROM rounds WHERE seq = ?", (seq,)).fetchone()
    return group_id, _diffs.decode(zlib.decompress(body))


def _latest(connection: sqlite3.Connection, group_id: int) -> LatestAssignment | None:
    (body,) = connection.execute("SELECT assignment FROM groups WHERE id = ?", (group_id,)).fetchone()
    return None if body is None else _assignments.decode(body)


def names_of(connection: sqlite3.Connection, group_id: int, diff: Diff) -> dict[str, str]:
    """What people call the members of a round; those that its diff does not list, by the latest assignment."""
    latest = None if diff.unchanged is UNSET else _latest(connection, group_id)
    return names.called({**(latest.names if latest is not None else {}), **diff.named})


def owners_before(connection: sqlite3.Connection, seq: int) -> list[OwnerChange]:
    """Who owned what before a stored round.

    A diff lists the members that changed. So a partition's owner is in the first round from this one on that lists
    it; where none does, it is in the latest assignment. What more rounds than are looked at would show is left out.
    """
    group_id, _ = stored_round(connection, seq)
    owners: dict[tuple[str, int], str | None] = {}
    complete, size = False, 0
    with closing(connection.execute(_FROM, (group_id, seq))) as rows:
        for (body,) in rows:
            raw = zlib.decompress(body)
            diff = _diffs.decode(raw)
            for member_id, member in diff.members.items():
                owners |= {place: member_id for place in _places(member.owned) if place not in owners}
            for member in diff.members.values():
                owners |= {place: None for place in _places(member.assigned) if place not in owners}
            complete, size = diff.unchanged is UNSET, size + len(raw)
            if complete or size > MOST_BYTES:
                break
    latest = None if complete or size > MOST_BYTES else _latest(connection, group_id)
    for member_id, share in latest.members.items() if latest is not None else ():
        owners |= {place: member_id for place in _places(share) if place not in owners}
    found: dict[str, dict[str, list[int]]] = {}
    for (topic, number), owner in owners.items():
        if owner is not None:
            found.setdefault(owner, {}).setdefault(topic, []).append(number)
    return [(owner, topic, sorted(numbers)) for owner in found for topic, numbers in found[owner].items()]


def _places(share: Holding) -> list[tuple[str, int]]:
    return [(topic, number) for topic, numbers in share.items() for number in numbers]
