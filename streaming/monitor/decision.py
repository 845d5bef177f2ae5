"""What one event gives, ready to write: by native code where the group is plain, else by :mod:`.apply`.

The package ``rebalance-kernel`` (folder ``kernel``) is optional. It knows the rounds of plain groups, which nearly
all are: derived from member events, under the classic protocol, all members subscribed alike, without racks. It
gives the same bytes as :func:`streaming.monitor.apply.apply`, which stays the reference, and declines all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from streaming.monitor import applied
from streaming.monitor.apply import apply
from streaming.monitor.rounds import output_id
from streaming.monitor.state import AssignmentOutput, DiffOutput, GroupState
from streaming.wire import codec
from streaming.wire.events import Event, MemberFenced, MemberJoined, MemberLeft

if TYPE_CHECKING:
    from rebalance_kernel import Group

    from streaming.monitor.tracked import Tracked


class DenseAssignment(NamedTuple):
    """The latest assignment of a plain group. Of those of a batch only the last is written: encoded when asked."""

    event: Event
    group: Group

    @property
    def id(self) -> str:
        """Its ``ce_id``."""
        return output_id(self.event.data.group_id, self.event, "assignment")

    @property
    def value(self) -> bytes | None:
        """Its JSON."""
        return self.group.assignment(self.event.data.group_id)


class ReadableAssignment(NamedTuple):
    """The latest assignment of any group."""

    output: AssignmentOutput

    @property
    def id(self) -> str:
        """Its ``ce_id``."""
        return self.output.id

    @property
    def value(self) -> bytes | None:
        """Its JSON; None: a tombstone."""
        return None if self.output.assignment is None else codec.encode(self.output.assignment)


Assignment = DenseAssignment | ReadableAssignment


class Decision(NamedTuple):
    """The group after an event, and what to write.

    Attributes:
        state: None: forgotten.
        diffs: ``(ce_id, JSON)`` of each round.
        latest: the latest assignment, where the event gives one.
    """

    state: GroupState | Group | None
    diffs: Sequence[tuple[str, bytes]] = ()
    latest: Assignment | None = None


def decide(tracked: Tracked, event: Event) -> Decision | None:
    """What an event gives; None: nothing, its group stays as it is.

    Raises:
        BadInput: see :func:`streaming.monitor.apply.apply`.
    """
    data = event.data
    if isinstance(data, MemberJoined | MemberLeft | MemberFenced):
        group = tracked.plain
        if group is not None:
            mark = applied.fingerprint(event.source, event.id)
            if group.applied(mark):
                return None
            dense = _dense(group, mark, event, data)
            if dense is not None:
                return dense
    before = tracked.state
    state, outputs = apply(before, event)
    if state is before:
        return None
    diffs = [(output.id, codec.encode(output.diff)) for output in outputs if isinstance(output, DiffOutput)]
    assignments = [ReadableAssignment(output) for output in outputs if isinstance(output, AssignmentOutput)]
    return Decision(state, diffs, assignments[-1] if assignments else None)


def _dense(
    group: Group, mark: bytes, event: Event, data: MemberJoined | MemberLeft | MemberFenced
) -> Decision | None:
    if isinstance(data, MemberJoined):
        if data.owned or data.rack_id is not None or data.group_protocol != "classic":
            return None
        answer = group.joined(
            data.group_id,
            mark,
            data.timestamp,
            data.member_id,
            data.topics,
            data.assignors,
            data.group_instance_id,
            data.session_timeout_ms,
            data.generation,
        )
    else:
        answer = group.removed(
            data.group_id, mark, data.timestamp, data.member_id, event.type, event.source, data.reason
        )
    if answer is None:
        return None
    after, rounds = answer
    diffs = [(output_id(data.group_id, event, number), value) for number, value in rounds]
    return Decision(after, diffs, DenseAssignment(event, after) if diffs else None)
