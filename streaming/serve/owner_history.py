"""Owners of partitions and join times of members, as far as the stored rounds of a group show them."""

import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assignors.assignment import normalize, union
from streaming.records.diffs import Cause, Diff, LatestAssignment, assignment_decoder, diff_decoder
from streaming.records.events import Evidence
from streaming.records.names import display_names
from streaming.serve.records import GroupSummary, OwnerChange, places
from streaming.simulation import live_group

_T = TypeVar("_T")
#: The most bytes of diffs that are read for one answer.
MAX_READ_BYTES: Final = 32 * 2**20
_NEWEST_ROUNDS_SQL: Final = """
SELECT body FROM rounds
WHERE group_id = (SELECT id FROM groups WHERE name = ?) ORDER BY written DESC, seq DESC LIMIT 200
"""
_ROUNDS_FROM_SQL: Final = """
SELECT body FROM rounds
WHERE group_id = ?1 AND (written, seq) >= (SELECT written, seq FROM rounds WHERE seq = ?2)
ORDER BY written, seq
"""
_NEXT_ROUND_SQL: Final = """
SELECT later.seq FROM rounds JOIN rounds AS later ON later.group_id = rounds.group_id
AND (later.written, later.seq) > (rounds.written, rounds.seq)
WHERE rounds.seq = ? ORDER BY later.written, later.seq LIMIT 1
"""
#: Fields that an assignment takes unchanged from the summary of its group.
_GROUP_FIELDS: Final = ("group_id", "protocol", "assignor", "generation", "group_epoch", "timestamp")


def limit_bytes(max_bytes: int, items: Iterable[_T], size: Callable[[_T], int]) -> Iterator[_T]:
    """Yield items until the sum of their sizes exceeds a limit."""
    total = 0
    for item in items:
        yield item
        total += size(item)
        if total > max_bytes:
            return


def _decompress_bodies(rows: Iterable[tuple[bytes]]) -> Iterator[bytes]:
    return limit_bytes(MAX_READ_BYTES, (zlib.decompress(body) for (body,) in rows), len)


def latest_assignment(connection: sqlite3.Connection, group: str) -> LatestAssignment | None:
    """Return the latest assignment of a group."""
    row = connection.execute("SELECT assignment FROM groups WHERE name = ?", (group,)).fetchone()
    return None if row is None or row[0] is None else assignment_decoder.decode(row[0])


def names_of(connection: sqlite3.Connection, diff: Diff) -> dict[str, str]:
    """Return display names of a round's members, from its diff and from the latest assignment."""
    latest = None if diff.unchanged is UNSET else latest_assignment(connection, diff.group_id)
    return display_names({**(latest.names if latest is not None else {}), **diff.named})


def owners_before(connection: sqlite3.Connection, seq: int) -> list[OwnerChange]:
    """Return the owners of partitions before a stored round.

    A diff lists the members that changed. So a partition's owner is in the first round, from this round on, that
    lists the partition. If no round lists it, its owner is in the latest assignment. At most
    ``MAX_READ_BYTES`` of diffs are read.
    """
    (group_id,) = connection.execute("SELECT group_id FROM rounds WHERE seq = ?", (seq,)).fetchone()
    owners: dict[tuple[str, int], str | None] = {}
    latest: LatestAssignment | None = None
    with closing(connection.execute(_ROUNDS_FROM_SQL, (group_id, seq))) as rows:
        for body in _decompress_bodies(rows):
            diff = diff_decoder.decode(body)
            for member_id, member in diff.members.items():
                owners |= {place: member_id for place in places(member.owned) if place not in owners}
            for member in diff.members.values():
                owners |= {place: None for place in places(member.assigned) if place not in owners}
            if diff.unchanged is UNSET:
                break
        else:
            # If some rounds were not read, the latest assignment may have changed since this round.
            latest = latest_assignment(connection, diff.group_id) if rows.fetchone() is None else None
    for member_id, share in latest.members.items() if latest is not None else ():
        owners |= {place: member_id for place in places(share) if place not in owners}
    shares: dict[str, dict[str, list[int]]] = {}
    for (topic, number), owner in owners.items():
        if owner is not None:
            shares.setdefault(owner, {}).setdefault(topic, []).append(number)
    return [(owner, topic, sorted(numbers)) for owner in shares for topic, numbers in shares[owner].items()]


def assignment_after(connection: sqlite3.Connection, group: GroupSummary) -> LatestAssignment:
    """Return the assignment after a group's stored round; later rounds provide the members that the diff omits."""
    (body,) = connection.execute("SELECT body FROM rounds WHERE seq = ?", (group.seq,)).fetchone()
    diff = diff_decoder.decode(zlib.decompress(body))
    members = {
        member_id: normalize(union(member.kept, member.assigned))
        for member_id, member in diff.members.items()
        if member.present is not False
    }
    names = {member_id: live_group.names_of(member) for member_id, member in diff.members.items()}
    if diff.unchanged is not UNSET:
        latest = latest_assignment(connection, diff.group_id)
        names = (latest.names if latest is not None else {}) | names
        later = connection.execute(_NEXT_ROUND_SQL, (group.seq,)).fetchone()
        if later is not None:
            for owner, topic, numbers in owners_before(connection, later[0]):
                if owner is not None and owner not in diff.members:
                    members.setdefault(owner, {})[topic] = numbers
        elif latest is not None:
            members |= {owner: share for owner, share in latest.members.items() if owner not in diff.members}
    return LatestAssignment(
        **{name: getattr(group, name) for name in _GROUP_FIELDS},
        members=members,
        kind=diff.kind,
        names={member_id: name for member_id, name in names.items() if member_id in members},
    )


class _MemberPresence(Struct, frozen=True):
    present: bool | None = None


class _RoundMembers(Struct, frozen=True):
    """The fields of a diff that show which members were in the group."""

    timestamp: int
    cause: Cause
    members: dict[str, _MemberPresence]
    unchanged: int | UnsetType = UNSET


_round_members = msgspec.json.Decoder(_RoundMembers)


def joined_since(connection: sqlite3.Connection, group: str, members: Collection[str]) -> dict[str, int]:
    """Return the time (ms) at which each member joined, for members that joined in the group's last 200 rounds."""
    joined_at: dict[str, int] = {}
    missing = set(members)
    later_round_ms: int | None = None
    round_: _RoundMembers | None = None
    with closing(connection.execute(_NEWEST_ROUNDS_SQL, (group,))) as rows:
        for round_ in map(_round_members.decode, _decompress_bodies(rows)):
            if round_.unchanged is UNSET:
                present = {member_id for member_id, member in round_.members.items() if member.present is not False}
                if later_round_ms is not None:
                    joined_at |= dict.fromkeys(missing - present, later_round_ms)
                missing &= present
            else:  # the diff omits unchanged members
                causes: list[Cause | Evidence] = [round_.cause, *round_.cause.evidence]
                joins = [cause for cause in causes if cause.kind == "member.joined"]
                joined = missing.intersection(member_id for cause in joins for member_id in cause.member_ids)
                joined_at |= dict.fromkeys(joined, round_.timestamp)
                missing -= joined
            later_round_ms = round_.timestamp
            if not missing:
                break
    if round_ is not None and round_.cause.kind == "member.joined":
        joined_at |= dict.fromkeys(missing.intersection(round_.cause.member_ids), round_.timestamp)
    return joined_at
