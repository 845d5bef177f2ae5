"""Who owns what in one group, kept up with diffs that need not name everybody.

A diff with ``unchanged`` leaves out who kept everything. It may also leave out what the diff before has told: who
caused the rebalance, and which partitions nobody has. :class:`Owners` knows it, from a diff that names everybody or
from a latest assignment, and puts the two together::

    owners = Owners.of(assignment)  # as of the diff `assignment.after`
    for diff in diffs_after_it:
        whole = owners.whole(diff)  # with everybody
        owners.take(diff)

Diffs of one group come in the order of their topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Self

from msgspec import UNSET, UnsetType, structs

from assignors.diff import as_lists, size
from assignors.errors import BadInput
from assignors.model import Share
from assignors.shares import held, minus, tidy, union
from streaming.wire.diffs import Cause, Diff, LatestAssignment, MemberDiff, MemberNames, told_once
from streaming.wire.events import Holding, Partitions

_NOTHING: Holding = {}


class UnknownGroup(BadInput):
    """Nothing is known of this group."""


class DoesNotFollow(BadInput):
    """A diff leaves out members that are not known, or others than those that are: records between are missing."""


class Owners:
    """The members of one group, each as in a diff in which it keeps what it has, by member id.

    Attributes:
        members: in the order in which they came.
        unassigned: what nobody has, as far as the next diff may leave it out.
        cause: that of the last diff, the same; None: it is not known.
    """

    __slots__ = ("cause", "members", "unassigned")

    def __init__(self, members: Iterable[tuple[str, MemberDiff]] = ()) -> None:
        self.members = dict(members)
        self.unassigned = _NOTHING
        self.cause: Cause | None = None

    @classmethod
    def of(cls, assignment: LatestAssignment) -> Self:
        """As a latest assignment has it: after the diff ``assignment.after``, where that is said."""
        standby = {} if assignment.standby is UNSET else assignment.standby
        warmup = {} if assignment.warmup is UNSET else assignment.warmup
        nobody = MemberNames()
        owners = cls(
            (
                member_id,
                MemberDiff(
                    owned=owned,
                    revoked=_NOTHING,
                    assigned=_NOTHING,
                    kept=owned,
                    present=True,
                    standby=standby.get(member_id, UNSET),
                    warmup=warmup.get(member_id, UNSET),
                    **structs.asdict(assignment.names.get(member_id, nobody)),
                ),
            )
            for member_id, owned in assignment.members.items()
        )
        owners.unassigned = _NOTHING if assignment.unassigned is UNSET else assignment.unassigned
        owners.cause = None if assignment.cause is UNSET else assignment.cause
        return owners

    def fits(self, diff: Diff) -> bool:
        """Whether the diff follows from these: it names everything, or leaves out as much as is left."""
        if diff.unchanged is UNSET:
            return True
        if diff.still_unassigned is not UNSET and size(self._unowned(diff)) != diff.still_unassigned:
            return False
        renamed = _renamed(diff)
        back = {renamed[old] for old in renamed if old in self.members}
        known = sum(one in self.members or one in back for one in diff.members)
        return len(self.members) - known == diff.unchanged

    def whole(self, diff: Diff) -> Diff:
        """The diff with everybody; these are the owners before it.

        Raises:
            DoesNotFollow: they are not.
        """
        if diff.unchanged is UNSET:
            return diff
        if not self.fits(diff):
            raise _unknown(diff, self.members)
        members = self._called(diff) | diff.members
        gone = {name: members.pop(name) for name, one in diff.members.items() if one.present is False}
        return structs.replace(
            diff,
            cause=self._cause(diff),
            members=members | gone,
            unassigned=self._unassigned(diff),
            unchanged=UNSET,
            renamed=UNSET,
            still_unassigned=UNSET,
        )

    def take(self, diff: Diff) -> None:
        """Be the owners after the diff; its cost is that of the members that it names.

        Raises:
            DoesNotFollow: these are not those before it.
        """
        if diff.unchanged is UNSET:
            self.members = {}
        elif not self.fits(diff):
            raise _unknown(diff, self.members)
        elif diff.renamed:
            self.members = self._called(diff)
        self.unassigned, self.cause = self._unassigned(diff), self._cause(diff)
        for member_id, one in diff.members.items():
            after = _keeping(one, as_lists(union(one.kept, one.assigned)))
            if one.present or (one.present is None and after.owned):
                self.members[member_id] = after
            else:
                self.members.pop(member_id, None)

    def undo(self, diff: Diff) -> None:
        """Be the owners before the diff, of whom these are those after it.

        A member that comes and one that owned nothing look alike in a diff: those that it names and that owned
        nothing are not there before it. A static member that came back since the last diff has its new id also in
        rounds before, up to one that names it.
        """
        if diff.unchanged is UNSET:
            self.members = {}
        instances = {
            one.group_instance_id: name for name, one in self.members.items() if one.group_instance_id
        }
        before = {new: old for old, new in reversed(_renamed(diff).items())}
        for member_id, one in diff.members.items():
            if (
                self.members.pop(member_id, None) is None
                and one.present
                and one.group_instance_id in instances
            ):
                self.members.pop(instances[one.group_instance_id], None)  # it came back since
            if one.owned:
                self.members[before.get(member_id, member_id)] = _keeping(one, one.owned)
        left = diff.unassigned if diff.still_unassigned is UNSET else minus(self.unassigned, diff.unassigned)
        assigned, revoked = _changed(diff)
        self.unassigned = tidy(union(minus(left, revoked), minus(assigned, revoked)))
        if diff.cause.omitted is UNSET:
            self.cause = None

    def _unowned(self, diff: Diff) -> Share:
        """What nobody had before the diff, and nobody has after it."""
        return minus(self.unassigned, _changed(diff)[0])

    def _unassigned(self, diff: Diff) -> Holding:
        """All that nobody has after the diff."""
        if diff.still_unassigned is UNSET:
            return diff.unassigned
        return tidy(union(self._unowned(diff), diff.unassigned))

    def _cause(self, diff: Diff) -> Cause:
        """The cause of the diff; as it says it, where that before it is not known."""
        return diff.cause if diff.cause.omitted is UNSET or self.cause is None else self.cause

    def _called(self, diff: Diff) -> dict[str, MemberDiff]:
        """The members by the ids that they have in the diff."""
        renamed = _renamed(diff)
        return {renamed.get(name, name): one for name, one in self.members.items()}


def current(latest: LatestAssignment, later: Iterable[tuple[str, Diff]]) -> LatestAssignment:
    """A latest assignment with what diffs after it changed.

    Args:
        latest: of one group.
        later: its diffs after ``latest.after`` with their ``ce_id``, in order; from the first on that does not
            follow they say nothing.
    """
    owners, last = Owners.of(latest), None
    for diff_id, diff in later:
        if not owners.fits(diff):
            break
        owners.take(diff)
        last = diff_id, diff
    if last is None:
        return latest
    after, diff = last
    members = owners.members
    streams = diff.kind == "streams"
    racks = {} if latest.racks is UNSET else latest.racks
    return LatestAssignment(
        group_id=latest.group_id,
        protocol=diff.protocol,
        assignor=diff.assignor,
        generation=diff.generation,
        group_epoch=diff.group_epoch,
        timestamp=diff.timestamp,
        members={name: one.owned for name, one in members.items()},
        kind=diff.kind,
        standby=_tasks((name, one.standby) for name, one in members.items()) if streams else UNSET,
        warmup=_tasks((name, one.warmup) for name, one in members.items()) if streams else UNSET,
        names={
            name: MemberNames(
                client_id=one.client_id, client_host=one.client_host, group_instance_id=one.group_instance_id
            )
            for name, one in members.items()
        },
        racks={name: rack for name, rack in racks.items() if name in members} or UNSET,
        after=after,
        cause=owners.cause if owners.cause is not None and owners.cause.is_told_once else UNSET,
        unassigned=told_once(owners.unassigned) or UNSET,
    )


def _tasks(found: Iterable[tuple[str, Partitions | UnsetType]]) -> dict[str, Partitions]:
    return {name: tasks for name, tasks in found if tasks is not UNSET}


class Together:
    """Diffs of many groups, each with everybody where it is known what was owned before."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, Owners] = {}

    def whole(self, diff: Diff) -> Diff:
        """The next diff with everybody; as it is, where those before it do not say who else there is."""
        owners = self._groups.get(diff.group_id)
        if owners is None or not owners.fits(diff):
            owners = Owners()
        found = owners.whole(diff) if owners.fits(diff) else diff
        if found.unchanged is UNSET:
            owners.take(diff)
        if owners.members:
            self._groups[diff.group_id] = owners
        else:
            self._groups.pop(diff.group_id, None)
        return found


def _changed(diff: Diff) -> tuple[Holding, Holding]:
    """What members of the diff get, and what they give up."""
    members = diff.members.values()
    return held(one.assigned for one in members), held(one.revoked for one in members)


def _renamed(diff: Diff) -> dict[str, str]:
    return {} if diff.renamed is UNSET else diff.renamed


def _keeping(member: MemberDiff, owned: Holding) -> MemberDiff:
    """The member in a diff that neither gives it anything nor takes anything from it."""
    return structs.replace(member, owned=owned, revoked=_NOTHING, assigned=_NOTHING, kept=owned, present=True)


def _unknown(diff: Diff, members: Sized) -> DoesNotFollow:
    return DoesNotFollow(
        f"group {diff.group_id!r}, round {diff.round} of {_number(diff)}: the diff leaves out {diff.unchanged} "
        f"members{_more(diff)}, and of the {len(members)} that are known others are left; read on from a diff that "
        "names everybody, or from `rebalance.assignments`"
    )


def _more(diff: Diff) -> str:
    return (
        "" if diff.still_unassigned is UNSET else f" and {diff.still_unassigned} partitions that nobody has"
    )


def _number(diff: Diff) -> str:
    return f"generation {diff.generation}" if diff.group_epoch is None else f"epoch {diff.group_epoch}"
