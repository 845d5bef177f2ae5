"""Episodes from diffs as they stand in their topic, without the stream: the same as the stream's.

A diff does not say who was in the group before it, so the diffs of a group are read from its beginning. From
anywhere else the first is that of a group that was there before, and its episodes are counted from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET

from streaming.episodes.fold import QUIET_MS, advance
from streaming.episodes.record import record
from streaming.episodes.seen import Bounced, Note, Quiet, RoundSeen, midway
from streaming.episodes.state import EpisodeState
from streaming.wire.episodes import Episode
from streaming.wire.events import Diff, MemberDiff


class GroupReader:
    """What one group's diffs tell, one after the other: :meth:`read` gives the note of each.

    Who is in the group is remembered between two.
    """

    def __init__(self) -> None:
        self._there: dict[str, MemberDiff] | None = None

    def read(self, diff_id: str, diff: Diff) -> RoundSeen:
        """The note of a diff. ``diff_id``: its ``ce_id``."""
        past = self._there or {}
        first = self._there is None
        there = {one: member for one, member in diff.members.items() if member.present is not False}
        instances = {
            member.group_instance_id: one
            for one, member in there.items()
            if member.group_instance_id is not None
        }
        # A static member that came back under a new id is called by it in the past as well.
        known = {
            instances.get(member.group_instance_id or "", one) if one not in diff.members else one
            for one, member in past.items()
        }
        self._there = there
        return RoundSeen(
            id=diff_id,
            timestamp=diff.timestamp,
            number=diff.round,
            protocol=diff.protocol,
            assignor=diff.assignor,
            kind="consumer" if diff.kind is UNSET else diff.kind,
            cause=diff.cause,
            delay_ms=None if diff.delay_ms is UNSET else diff.delay_ms,
            joined=[one for one in there if one not in known],
            gone=[one for one, member in diff.members.items() if member.present is False],
            after=len(there),
            names=diff.members,
            gained={one: member.assigned for one, member in diff.members.items() if member.assigned},
            lost={one: member.revoked for one, member in diff.members.items() if member.revoked},
            moved=diff.moved,
            unassigned=diff.unassigned,
            midway=first and midway(diff.cause, {one: member.owned for one, member in diff.members.items()}),
        )

    def bounced(self, note: Bounced) -> Bounced:
        """Take note of static members that came back without a diff; gives the note back."""
        self._there = {note.renamed.get(one, one): member for one, member in (self._there or {}).items()}
        return note


def episodes(
    group_id: str, told: Iterable[tuple[str, Diff] | Bounced | Quiet], quiet_ms: int = QUIET_MS
) -> list[Episode]:
    """All episodes of one group, oldest first; the last one may be open.

    Args:
        group_id: the group.
        told: its diffs with their ``ce_id``, in order, and between them what else is known: that it was quiet, and
            static members that came back.
        quiet_ms: how long a group is quiet before its episode is over.
    """
    found: dict[int, Episode] = {}
    for one in updates(group_id, told, quiet_ms):
        found[one.episode] = one
    return list(found.values())


def updates(
    group_id: str, told: Iterable[tuple[str, Diff] | Bounced | Quiet], quiet_ms: int = QUIET_MS
) -> Iterator[Episode]:
    """Every state of every episode of one group, as :func:`episodes` reads them."""
    reader, state = GroupReader(), None
    for one in told:
        note: Note
        if isinstance(one, Quiet):
            note = one
        elif isinstance(one, Bounced):
            note = reader.bounced(one)
        else:
            note = reader.read(*one)
        step = advance(state, note, quiet_ms)
        yield from records(group_id, state, step.state, step.closed)
        state = step.state


def records(
    group_id: str, before: EpisodeState | None, after: EpisodeState | None, closed: EpisodeState | None
) -> Iterator[Episode]:
    """The records that one step changed: of the episode that it ended, and of the one that is open."""
    if closed is not None:
        yield record(group_id, closed, closed=True)
    if after is not None and after is not before and after.open:
        yield record(group_id, after)


def by_group(told: Iterable[tuple[str, Diff]], quiet_ms: int = QUIET_MS) -> Mapping[str, list[Episode]]:
    """The episodes of many groups from their diffs with their ids, each group's in order."""
    groups: dict[str, list[tuple[str, Diff]]] = {}
    for diff_id, diff in told:
        groups.setdefault(diff.group_id, []).append((diff_id, diff))
    return {group_id: episodes(group_id, one, quiet_ms) for group_id, one in groups.items()}
