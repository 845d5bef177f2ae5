"""Rebalance rounds of a group in logs, and its known members between two rounds."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import astuple

from streaming.monitor.causes import MemberDifferences, find_cause
from streaming.monitor.state import MemberState
from streaming.records.diffs import Cause, MemberNames
from streaming.records.events import COMPARISON, Evidence, Kind

#: Client reasons of rounds that complete a cooperative rebalance.
FOLLOW_UP_REASONS: Final = ("need to revoke partitions", "cooperative rejoin", "group is already rebalancing")
#: UUID at the end of a member id that the coordinator generated, after the client id or the instance id.
_UUID_LENGTH: Final = 37
_UUID: Final = re.compile(r".-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(slots=True)
class LogRound:
    """One round of a group, as far as logs show it.

    Attributes:
        number: the generation or epoch; None if unknown.
        began, ended: times in ms; ``ended`` is None if the logs do not show the end of the round.
        evidence: evidence of the reasons for the round.
        joined, gone, present: ids of members that joined, departed, and are known to be in the group afterwards.
        before, after: lower bounds of the number of members before and after the round.
        is_counted: True if ``before`` and ``after`` are exact.
        is_midway: True if the logs do not show the group before the round.
        is_follow_up: True if the round completes the previous round's cooperative rebalance.
        moved: partitions whose owner changed; None if unknown.
        pauses: by member, the time at which it stopped and the time at which it received its assignment, ms.
        is_from_clients: True if only clients' logs show the round.
    """

    group_id: str
    number: int | None
    began: int
    ended: int | None = None
    protocol: str = "classic"
    assignor: str | None = None
    kind: Kind = "consumer"
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
    is_from_clients: bool = False
    present: list[str] = field(default_factory=list)

    def add_reports(self, reports: Iterable[Evidence]) -> None:
        """Add the clients' reports about topics and the members of a round."""
        members = {*self.gone, *self.present}
        new = [item for item in reports if item not in self.evidence]
        self.evidence += [item for item in new if not item.member_ids or members & {*item.member_ids}]

    @property
    def is_unfinished(self) -> bool:
        """True if the logs end before the round; a numbered round that only clients log counts as ended."""
        return self.ended is None and (self.number is None or not self.is_from_clients)

    @property
    def cause(self) -> Cause:
        """The cause of the round, in the form that diffs have."""
        members = [MemberState(member, []) for member in self.present]
        first_evidence = [Evidence(source=COMPARISON, reason="first observation in the logs")] if self.is_midway else []
        return find_cause(MemberDifferences(self.joined, [*self.gone], []), self.evidence, members, first_evidence)


def merged(names: MemberNames | None, older_names: MemberNames | None) -> MemberNames:
    """Return the names of a member (client id, host, …), each from ``names`` or, if missing, from ``older_names``."""
    name_pairs = zip(astuple(names or MemberNames()), astuple(older_names or MemberNames()), strict=True)
    return MemberNames(*(new or old for new, old in name_pairs))


class GroupRounds:
    """Builds rounds from one group's events; each kind of log has its own subclass.

    Attributes:
        kind: the kind of the group: ``consumer``, ``connect``, ``streams`` or ``share``.
        members: members known to be in the group.
        size: number of members; None if unknown.
        number: the newest generation or epoch; ``protocol``: the protocol of its round.
        names: identities of all members so far, by member id.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.kind: Kind = "consumer"
        self.members: dict[str, MemberNames] = {}
        self.size: int | None = None
        self.number: int | None = None
        self.protocol = "classic"
        self.names: dict[str, MemberNames] = {}
        #: Members that joined and members that departed since the newest round, in order.
        self._pending: dict[str, None] = {}
        self._gone_members: dict[str, None] = {}
        self._done: LogRound | None = None

    def flush(self) -> Iterator[LogRound]:
        """Yield the last round, which waited because later log lines could still complete it."""
        if self._done is not None:
            done, self._done = self._done, None
            yield done

    def _forget_members(self, size: int | None) -> None:
        """Remove all known members, as the group is new or the logs lack the generations in between."""
        self.members, self.size = {}, size

    def _name(
        self, member_id: str, client: str | None = None, host: str | None = None, instance: str | None = None
    ) -> None:
        who = merged(MemberNames(client, host, instance), self.names.get(member_id))
        if who.client_id is None and who.group_instance_id is None and _UUID.search(member_id):
            who = MemberNames(member_id[:-_UUID_LENGTH], who.client_host)
        self.names[member_id] = who

    def _complete_round(
        self, current: LogRound, ended: int | None, size: int | None = None, reports: Sequence[Evidence] = ()
    ) -> LogRound:
        """Complete a round: apply its joins and departures to the group's members, and return the round.

        ``size``: number of members in the log. ``reports``: clients' reports since the previous round.
        """
        has_epochs = current.protocol != "classic"
        joined = [member for member in self._pending if member not in self.members]
        gone = [*self._gone_members]
        if size == 0:
            gone += [member for member in self.members if member not in self._gone_members]
            joined = []
        members, before = len(self.members), self.size
        if before is None and size:
            before = max(0, size - len(joined) + len(gone))
        expected = None if before is None else before + len(joined) - len(gone)
        if has_epochs or current.is_from_clients:
            size = expected if size is None else size
        for member in gone:
            self.members.pop(member, None)
        self.members.update((member, self.names.get(member, MemberNames())) for member in joined)
        current.is_counted = before is not None and size is not None and expected == size
        current.is_midway = before is None and not members and not gone and current.number not in (0, 1)
        # A group is empty before its first generation, 1, or its first epoch, which is 1 or, since 4.3, 2.
        had_other_members = ended is not None and (size == 0 or (current.number or 0) > (1 + has_epochs))
        current.before = before if before is not None else max(members, len(gone) + had_other_members)
        current.after = size if size is not None else max(not has_epochs, len(self.members))
        self.size, current.ended = size, ended
        current.joined, current.gone, current.present = joined, gone, [*self.members]
        current.add_reports(reports)
        ids = [*gone, *joined, *(member for item in current.evidence for member in item.member_ids)]
        current.names = {member: self.names[member] for member in ids if member in self.names}
        self._pending, self._gone_members = {}, {}
        return current
