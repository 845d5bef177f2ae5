"""Owners of partitions, and the names and joining times of members. A diff need not list all members."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from streaming.records import names
from streaming.records.diffs import Cause, Diff, LatestAssignment
from streaming.records.events import Holding
from streaming.serve.records import OwnerChange

#: Bytes of diffs that one answer reads.
MOST_BYTES: Final = 32 * 2**20
#: Rounds in which the joining of members is round_ for.
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
    """Return display names of a round's members; those that its diff omits, by the latest assignment."""
    latest = None if diff.unchanged is UNSET else _latest(connection, group_id)
    return names.called({**(latest.names if latest is not None else {}), **diff.named})


def owners_before(connection: sqlite3.Connection, seq: int) -> list[OwnerChange]:
    """Return the owners of partitions before a stored round.

    A diff lists the members that changed. So a partition's owner is in the first round from this one on that lists
    it; where none does, it is in the latest assignment. At most ``MOST_BYTES`` of diffs are read.
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
    shares: dict[str, dict[str, list[int]]] = {}
    for (topic, number), owner in owners.items():
        if owner is not None:
            shares.setdefault(owner, {}).setdefault(topic, []).append(number)
    return [(owner, topic, sorted(numbers)) for owner in shares for topic, numbers in shares[owner].items()]


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
        return joined.union(
            *(item.member_ids for item in self.cause.evidence if item.kind == "member.joined")
        )


_presences = msgspec.json.Decoder(_RoundMembers)


def joined_since(connection: sqlite3.Connection, group: str, members: Collection[str]) -> dict[str, int]:
    """When members joined, by the group's last rounds, ms. Members that joined before these are left out."""
    with closing(connection.execute(_NEWEST, (group, MOST_LOOKED_AT))) as rows:
        return _appeared(map(_presences.decode, _bounded(body for (body,) in rows)), members)


def _bounded(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the JSON of stored diffs, up to ``MOST_BYTES``."""
    size = 0
    for body in bodies:
        raw = zlib.decompress(body)
        yield raw
        size += len(raw)
        if size > MOST_BYTES:
            break


def _appeared(newest: Iterable[_RoundMembers], members: Collection[str]) -> dict[str, int]:
    """Return when members joined, by the group's rounds, newest first; a diff may omit unchanged members."""
    joined_at: dict[str, int] = {}
    missing = set(members)
    later: int | None = None
    round_: _RoundMembers | None = None
    for round_ in newest:
        if round_.unchanged is UNSET:
            present = {
                member_id for member_id, member in round_.members.items() if member.present is not False
            }
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
