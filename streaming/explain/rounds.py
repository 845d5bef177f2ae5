"""The rounds of a group as logs show them, and the members known between two rounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from streaming.monitor.causes import Differing, cause_of
from streaming.monitor.state import MemberState
from streaming.records.diffs import Cause, MemberNames
from streaming.records.events import COMPARISON, Evidence

#: Client reasons of rounds that complete a cooperative rebalance.
FOLLOW_UPS: Final = ("need to revoke partitions", "cooperative rejoin", "group is already rebalancing")
#: A member id that the coordinator makes: the client id (or the instance id) and a UUID.
_UUID_LENGTH: Final = 37
_UUID: Final = re.compile(r".-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(slots=True)
class LogRound:
    """One round, as logs show it.

    Attributes:
        number: the generation or epoch; None: unknown.
        began, ended: ms; ``ended`` None: no line shows its end.
        evidence: why it began.
        joined, gone, present: member ids; ``present``: of members known to be in the group after it.
        before, after: number of members, at least.
        is_counted: both are exact.
        is_midway: nothing is known of the group before it.
        is_follow_up: it completes the cooperative rebalance before it.
        moved: partitions that changed their owner; None: unknown.
        pauses: by member: when it stopped, and when it had its assignment.
        is_by_clients: no coordinator's log shows it.
    """

    group_id: str
    number: int | None
    began: int
    ended: int | None = None
    protocol: str = "classic"
    assignor: str | None = None
    kind: str = "consumer"
    evidence: list[Evidence] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    before: int = 0
    after: int = 0
    is_counted: bool = False
    is_midway: bool = False
    is_follow_up: bool = False
    names: dict[str, MemberNames] = field(default_factory=dict)
    moved: dict[str, list[int]] | None = None
    pauses: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_by_clients: bool = False
    present: list[str] = field(default_factory=list)

    def add_reports(self, reports: Iterable[Evidence]) -> None:
        """Add what clients reported of members of this round, and of topics."""
        members = {*self.gone, *self.present}
        self.evidence += [
            item
            for item in reports
            if item not in self.evidence and (not item.member_ids or members & {*item.member_ids})
        ]

    @property
    def cause(self) -> Cause:
        """Why it began, as the monitor names causes."""
        members = [MemberState(member, []) for member in self.present]
        unseen = [Evidence(source=COMPARISON, reason="first observation in the logs")] if self.is_midway else []
        return cause_of(Differing(self.joined, [*self.gone], []), self.evidence, members, unseen)


def merged(names: MemberNames | None, older: MemberNames | None) -> MemberNames:
    """Return the names of a member by two sources; the first wins."""
    first, second = names or MemberNames(), older or MemberNames()
    return MemberNames(
        first.client_id or second.client_id,
        first.client_host or second.client_host,
        first.group_instance_id or second.group_instance_id,
    )


class GroupRounds:
    """Makes rounds of one group's events; one class for each kind of log.

    Attributes:
        kind: ``consumer``, ``connect``, ``streams`` or ``share``.
        members: members known to be in the group.
        size: number of members; None: unknown.
        number: the newest generation or epoch.
        names: identities of all members so far.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.kind = "consumer"
        self.members: dict[str, MemberNames] = {}
        self.size: int | None = None
        self.number: int | None = None
        self.names: dict[str, MemberNames] = {}
        #: Members that joined and departed since the newest round. The order is kept.
        self._pending: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        self._done: LogRound | None = None

    def flush(self) -> Iterator[LogRound]:
        """Yield the round that later lines may still have completed."""
        if self._done is not None:
            done, self._done = self._done, None
            yield done

    def _forget(self, size: int | None) -> None:
        """Forget the members: a new group, or generations between are in no log."""
        self.members, self.size = {}, size

    def _name(
        self, member_id: str, client: str | None = None, host: str | None = None, instance: str | None = None
    ) -> None:
        who = merged(MemberNames(client, host, instance), self.names.get(member_id))
        if who.client_id is None and who.group_instance_id is None and _UUID.search(member_id):
            who = MemberNames(member_id[:-_UUID_LENGTH], who.client_host)
        self.names[member_id] = who

    def _complete(
        self, current: LogRound, ended: int | None, size: int | None = None, reports: Sequence[Evidence] = ()
    ) -> LogRound:
        """Apply joins and departures to the members, and set the members of the round.

        ``size``: number of members by the log. ``reports``: of clients since the round before.
        """
        has_epochs = current.protocol != "classic"
        joined = [member for member in self._pending if member not in self.members]
        gone = [*self._gone]
        if size == 0:
            gone += [member for member in self.members if member not in self._gone]
            joined = []
        members, before = len(self.members), self.size
        if before is None and size is not None:
            before = max(0, size - len(joined) + len(gone))
        expected = None if before is None else before + len(joined) - len(gone)
        if has_epochs or current.is_by_clients:
            size = expected if size is None else size
        for member in gone:
            self.members.pop(member, None)
        self.members.update((member, self.names.get(member, MemberNames())) for member in joined)
        current.is_counted = before is not None and size is not None and expected == size
        current.is_midway = before is None and not members and not gone and current.number not in (0, 1)
        # Only empty groups have the first generation. Epochs begin at 1 or, from 4.3 on, at 2.
        had_others = ended is not None and size != 0 and (current.number or 0) > (1 + has_epochs)
        current.before = before if before is not None else max(members, len(gone) + had_others)
        current.after = size if size is not None else max(not has_epochs, len(self.members))
        self.size, current.ended = size, ended
        current.joined, current.gone, current.present = joined, gone, [*self.members]
        current.add_reports(reports)
        ids = [*gone, *joined, *(member for item in current.evidence for member in item.member_ids)]
        current.names = {member: self.names[member] for member in ids if member in self.names}
        self._pending, self._gone = {}, {}
        return current
