"""Computes a group's episodes from its diffs alone, for comparison with the episodes that the stream wrote.

A diff does not list all earlier members, so reading begins with the group's first diff.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Final, NamedTuple

from msgspec import UNSET

from assignors.assignment import LastOwners, track_owners
from streaming.episodes import waiting
from streaming.episodes.fold import QUIET_TIME_MS, EpisodeStep, apply_note, end_if_quiet
from streaming.episodes.notes import BounceNote, RoundNote, WaitNote, changes_tasks, existed_before
from streaming.episodes.record import record
from streaming.episodes.state import EpisodeState
from streaming.records.diffs import Diff, MemberDiff, MemberNames
from streaming.records.episodes import Episode
from streaming.records.events import Holding
from tests.support.built_diffs import DiffBuilder

_DELETED: Final = "group.deleted"


class QuietNote(NamedTuple):
    """A note: the quiet time has passed; ``after``: id of the last note before it."""

    after: str


EpisodeNote = RoundNote | BounceNote | WaitNote | QuietNote


def advance(state: EpisodeState | None, note: EpisodeNote, quiet_ms: int = QUIET_TIME_MS) -> EpisodeStep:
    """Return the group's episodes as they are after one more note; the arguments are not modified."""
    if isinstance(note, QuietNote):
        return end_if_quiet(state, note.after)
    after = deepcopy(state)
    if isinstance(note, WaitNote):
        return after if after is not None and waiting.apply_wait_note(after, note) else state, None
    return apply_note(after, note, quiet_ms)


class GroupReader:
    """Converts the diffs of one group, read in order, into notes.

    Args:
        derived: True for a group known only from member events: no collector follows it, so ``member.left`` is the
            member's own event.
    """

    def __init__(self, *, derived: bool = False) -> None:
        self._is_derived = derived
        self._members: dict[str, MemberDiff] | None = None
        self._last_owners: LastOwners = {}

    def read(self, diff_id: str, diff: Diff) -> RoundNote:
        """Return the note of a diff's round, from which episodes are computed. ``diff_id``: the diff's ``ce_id``."""
        past, first = self._members or {}, self._members is None
        listed = {member_id: member for member_id, member in diff.members.items() if member.present is not False}
        gone = [member_id for member_id, member in diff.members.items() if member.present is False]
        renamed = _rejoined_ids(past, diff, listed)
        previous = {renamed.get(member_id, member_id): member for member_id, member in past.items()}
        unlisted_members: dict[str, MemberDiff] = {}
        if diff.unchanged is not UNSET:
            unlisted_members = {name: member for name, member in previous.items() if name not in diff.members}
        current = unlisted_members | listed
        joined = [member_id for member_id in listed if member_id not in previous]
        if first and diff.unchanged is not UNSET:  # the group existed before, and most of its members are unknown
            joined = [member_id for member_id in diff.cause.member_ids if diff.cause.kind == "member.joined"]
        after = len(listed) + (0 if diff.unchanged is UNSET else diff.unchanged)
        free = _renamed(self._last_owners, renamed)
        self._members = current
        left, moved = track_owners(free, diff.members)
        if sum(map(len, moved.values())) != diff.moved:
            # The monitor forgot some free partitions: the group was deleted, or the topic was created again.
            left, moved = track_owners({}, diff.members)
        self._last_owners = _owners_after(left, diff, current)
        before = {member_id: _partitions_after(member) for member_id, member in unlisted_members.items()}
        before |= {member_id: member.owned for member_id, member in diff.members.items()}
        return RoundNote(
            id=diff_id,
            timestamp=diff.timestamp,
            diff=diff,
            joined=joined,
            gone=gone,
            before=len(previous) if diff.unchanged is UNSET else after - len(joined) + len(gone),
            after=after,
            names={
                member_id: MemberNames(member.client_id, member.client_host, member.group_instance_id)
                for member_id, member in diff.members.items()
            },
            moved=moved,
            changes_tasks=diff.kind == "connect"
            and changes_tasks(
                before,
                free,
                {member_id: _partitions_after(member) for member_id, member in current.items()},
                diff.unassigned,
            ),
            existed_before=first and existed_before(diff.cause, before),
            derived=self._is_derived,
        )

    def apply_bounce(self, note: BounceNote) -> BounceNote:
        """Give the group's static members the new member ids of the note, and return the note."""
        self._members = {note.renamed.get(name, name): member for name, member in (self._members or {}).items()}
        self._last_owners = _renamed(self._last_owners, note.renamed)
        return note


def _rejoined_ids(past: Mapping[str, MemberDiff], diff: Diff, listed: Mapping[str, MemberDiff]) -> dict[str, str]:
    """Return the new member id of each static member that rejoined, by its old member id."""
    instances = {
        member.group_instance_id: member_id
        for member_id, member in listed.items()
        if member.group_instance_id is not None
    }
    return {
        member_id: instances[member.group_instance_id]
        for member_id, member in past.items()
        if member_id not in diff.members and member.group_instance_id in instances
    }


def _partitions_after(member: MemberDiff) -> Holding:
    return {t: [*member.kept.get(t, ()), *member.assigned.get(t, ())] for t in {**member.kept, **member.assigned}}


def _renamed(free: LastOwners, renamed: Mapping[str, str]) -> LastOwners:
    if not renamed:
        return free
    return {topic: {p: renamed.get(owner, owner) for p, owner in owners.items()} for topic, owners in free.items()}


def _owners_after(free: LastOwners, diff: Diff, present_members: Mapping[str, MemberDiff]) -> LastOwners:
    """Return the last owners of the partitions that have no owner after the diff; none for a deleted group."""
    if diff.cause.kind == _DELETED:
        return {}
    tasks = diff.kind == "connect" or diff.protocol == "streams"
    if not tasks and diff.protocol != "share":
        return free
    owned = {
        (topic, number)
        for member in present_members.values()
        for topic, numbers in _partitions_after(member).items()
        for number in numbers
    }
    left = {
        topic: {
            number: owner
            for number, owner in owners.items()
            if (number in diff.unassigned.get(topic, ()) if tasks else (topic, number) not in owned)
        }
        for topic, owners in free.items()
    }
    return {topic: owners for topic, owners in left.items() if owners}


def episode_state(builder: DiffBuilder) -> EpisodeState:
    """Return the state of a group's episode after all diffs of the builder."""
    reader, state = GroupReader(), None
    for entry in builder.diffs:
        state, _ = advance(state, reader.read(*entry))
    assert state is not None
    return state


def episodes(
    group_id: str,
    entries: Iterable[tuple[str, Diff] | BounceNote | WaitNote | QuietNote],
    quiet_ms: int = QUIET_TIME_MS,
    *,
    derived: bool = False,
) -> list[Episode]:
    """Return all episodes of one group, oldest first; the last one may be open.

    Args:
        group_id: the group id.
        entries: the group's diffs with their ``ce_id``, in order, and the other notes between them: ends of quiet
            times, static members that rejoined, and members for which snapshots show the group waiting.
        quiet_ms: quiet time after which an episode ends.
        derived: see :class:`GroupReader`.
    """
    newest: dict[int, Episode] = {}
    for update in updates(group_id, entries, quiet_ms, derived=derived):
        newest[update.episode] = update
    return list(newest.values())


def updates(
    group_id: str,
    entries: Iterable[tuple[str, Diff] | BounceNote | WaitNote | QuietNote],
    quiet_ms: int = QUIET_TIME_MS,
    *,
    derived: bool = False,
) -> Iterator[Episode]:
    """Return every update of every episode of one group, as :func:`episodes` computes them."""
    reader, state = GroupReader(derived=derived), None
    for entry in entries:
        note: EpisodeNote
        if isinstance(entry, QuietNote | WaitNote):
            note = entry
        elif isinstance(entry, BounceNote):
            note = reader.apply_bounce(entry)
        else:
            note = reader.read(*entry)
        before = state
        state, closed = advance(before, note, quiet_ms)
        yield from records(group_id, before, state, closed)


def records(
    group_id: str, before: EpisodeState | None, after: EpisodeState | None, closed: EpisodeState | None
) -> Iterator[Episode]:
    """Yield the record of the ended episode, if one ended, and the record of the open episode, if it changed."""
    if closed is not None:
        yield record(group_id, closed, closed=True)
    if after is not None and after is not before and after.open:
        yield record(group_id, after)
