"""What a decided round, and the group after it, look like in the topics: the one place that knows these records."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from streaming.monitor.rounds import Changes, Round
from streaming.monitor.state import GroupState, ownership
from streaming.wire.codec import encode
from streaming.wire.diffs import Cause, Diff, LatestAssignment, MemberDiff, MemberNames
from streaming.wire.events import Event, GroupObserved, Holding

_diffs = msgspec.json.Decoder(Diff)


class DiffOutput(Struct, frozen=True, gc=False):
    """A diff to write.

    Attributes:
        id: its ``ce_id``.
        event: the one behind it.
        decided, changes: the round that it is of.
        members: those that it names; None: everybody, as in ``changes``.
        unchanged: how many others there are; UNSET: none.
        renamed: static members that came back since the diff before, where members are left out.
        cause: what it says of its cause; None: all.
        unassigned: those of the partitions that nobody has that had an owner before; None: all that nobody has.
        still_unassigned: how many others there are, where it names no more than these.
    """

    id: str
    event: Event
    decided: Round
    changes: Changes
    members: dict[str, MemberDiff] | None = None
    unchanged: int | UnsetType = UNSET
    renamed: dict[str, str] | UnsetType = UNSET
    cause: Cause | None = None
    unassigned: Holding | None = None
    still_unassigned: int | UnsetType = UNSET

    @property
    def named(self) -> Collection[str]:
        """Ids of the members that it names."""
        members = self.changes.members if self.members is None else self.members
        return msgspec.json.decode(members) if isinstance(members, Raw) else members

    @property
    def value(self) -> bytes:
        """Its JSON."""
        event, decided, changes = self.event, self.decided, self.changes
        epochs = decided.protocol != "classic"
        diff = Diff(
            group_id=event.data.group_id,
            protocol=decided.protocol,
            assignor=decided.assignor,
            generation=None if epochs else decided.generation,
            group_epoch=decided.generation if epochs else None,
            round=decided.number,
            cause=decided.cause if self.cause is None else self.cause,
            timestamp=event.data.timestamp,
            # JSON already, where native code has counted
            members=changes.members if self.members is None else self.members,  # type: ignore[arg-type]
            unassigned=changes.unassigned if self.unassigned is None else self.unassigned,
            moved=sum(map(len, changes.moves.values())),
            violations=changes.violations,
            kind=UNSET if decided.kind == "consumer" else decided.kind,
            delay_ms=event.data.delay_ms if isinstance(event.data, GroupObserved) else UNSET,
            expected=decided.expected,
            unchanged=self.unchanged,
            renamed=self.renamed,
            still_unassigned=self.still_unassigned,
        )
        return encode(diff)

    @property
    def diff(self) -> Diff:
        """The diff, decoded."""
        return _diffs.decode(self.value)


class AssignmentOutput(Struct, frozen=True, gc=False):
    """The latest assignment of a group to write. Of a batch's only the last is, so it is made when asked for.

    Attributes:
        event: the one behind it.
        state: the group after it; None: the group is gone, which a tombstone says.
        after: the ``ce_id`` of the last diff that is part of it, where diffs leave members out.
        cause, unassigned: what that diff says and the one after it need not repeat; UNSET: nothing.
    """

    event: Event
    state: GroupState | None
    after: str | UnsetType = UNSET
    cause: Cause | UnsetType = UNSET
    unassigned: Holding | UnsetType = UNSET

    @property
    def id(self) -> str:
        """Its ``ce_id``."""
        return output_id(self.event, "assignment")

    @property
    def assignment(self) -> LatestAssignment | None:
        """Who owns what; None for a tombstone."""
        state = self.state
        if state is None:
            return None
        epochs = state.protocol != "classic"
        streams = state.kind == "streams"
        return LatestAssignment(
            group_id=self.event.data.group_id,
            protocol=state.protocol,
            assignor=state.assignor,
            generation=None if epochs else state.generation,
            group_epoch=state.generation if epochs else None,
            timestamp=self.event.data.timestamp,
            members=ownership(state.members),
            kind=UNSET if state.kind == "consumer" else state.kind,
            standby=state.standby if streams else UNSET,
            warmup=state.warmup if streams else UNSET,
            names={
                member.member_id: MemberNames(
                    client_id=member.client_id,
                    client_host=member.client_host,
                    group_instance_id=member.instance_id,
                )
                for member in state.members
            },
            racks={one.member_id: one.rack_id for one in state.members if one.rack_id} or UNSET,
            after=self.after,
            cause=self.cause,
            unassigned=self.unassigned,
        )

    @property
    def value(self) -> bytes | None:
        """Its JSON."""
        assignment = self.assignment
        return None if assignment is None else encode(assignment)


Output = DiffOutput | AssignmentOutput


def output_id(event: Event, part: int | str) -> str:
    """The ``ce_id`` of an output: a pure function of the group, the event behind it and the round.

    128 bits of BLAKE2b over ``group, ce_source, ce_id, part``, each behind its length, in hexadecimal.
    """
    group_id = event.data.group_id
    text = f"{len(group_id)}:{group_id}{len(event.source)}:{event.source}{len(event.id)}:{event.id}{part}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def diff_output(event: Event, decided: Round, changes: Changes) -> DiffOutput:
    """The diff of a round that this event gave."""
    return DiffOutput(output_id(event, decided.number), event, decided, changes)
