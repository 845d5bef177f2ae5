"""A builder of one group's diffs: each round names members that join or leave; the builder moves the partitions."""

from typing import Any

from msgspec import UNSET

from assignors.assignment import LastOwners, track_owners
from streaming.records.diffs import Cause, Diff, MemberDiff
from streaming.records.events import Evidence, Holding

IdentifiedDiff = tuple[str, Diff]
START_MS = 1_700_000_000_000
#: Reasons of a LeaveGroup as brokers log them: a Java client that is being closed, and a client that sends none.
CONSUMER_CLOSED_REASON = "explicit `LeaveGroup` request; client reason: the consumer is being closed"
REASON_NOT_PROVIDED = "explicit `LeaveGroup` request; client reason: not provided"


def named(member_id: str) -> tuple[str | None, str | None, str | None]:
    """Return client id, host and instance id of a member id like ``client@host#3=instance``."""
    rest, _, instance = member_id.partition("=")
    rest = rest.partition("#")[0]
    client, _, host = rest.partition("@")
    return client or None, f"/{host}" if host else None, instance or None


class DiffBuilder:
    """A group whose members share ``partitions`` of the topic ``t`` in the order in which they joined."""

    def __init__(self, partitions: int = 12, group_id: str = "g", protocol: str = "classic") -> None:
        self.partitions = partitions
        self.group_id = group_id
        self.protocol = protocol
        self.assignor: str | None = "range"
        self.kind: Any = UNSET
        self.now = START_MS
        self.members: dict[str, Holding] = {}
        self.diffs: list[IdentifiedDiff] = []
        self._last_owners: LastOwners = {}

    def round(
        self,
        kind: str,
        *,
        after: float = 1.0,
        joined: tuple[str, ...] = (),
        gone: tuple[str, ...] = (),
        who: tuple[str, ...] | None = None,
        evidence: tuple[Evidence, ...] = (),
        number: int = 1,
        shares: dict[str, Holding] | None = None,
        unassigned: Holding | None = None,
        delay_ms: int | None = None,
    ) -> "DiffBuilder":
        """Add the diff of a round; ``who``: the members in its cause, by default all members that joined or left."""
        self.now += round(after * 1000)
        before = {**self.members, **{member_id: {} for member_id in joined}}
        present = [member_id for member_id in before if member_id not in gone]
        new = self._even_shares(present) if shares is None else shares
        members = {}
        for member_id in (*present, *gone):
            owned_before = before[member_id].get("t", [])
            now = new.get(member_id, {}).get("t", []) if member_id in present else []
            client, host, instance = named(member_id)
            members[member_id] = MemberDiff(
                owned=_task_holding(owned_before),
                revoked=_task_holding([p for p in owned_before if p not in now]),
                assigned=_task_holding([p for p in now if p not in owned_before]),
                kept=_task_holding([p for p in owned_before if p in now]),
                present=member_id in present,
                client_id=client,
                client_host=host,
                group_instance_id=instance,
            )
        self._last_owners, moved = track_owners(self._last_owners, members)
        self.members = {member_id: new.get(member_id, {}) for member_id in present}
        diff = Diff(
            group_id=self.group_id,
            protocol=self.protocol,
            assignor=self.assignor,
            generation=len(self.diffs) + 1,
            group_epoch=None,
            round=number,
            cause=Cause(kind=kind, member_ids=list((*joined, *gone) if who is None else who), evidence=list(evidence)),
            timestamp=self.now,
            members=members,
            unassigned=unassigned or {},
            moved=sum(map(len, moved.values())),
            violations=[],
            kind=self.kind,
            delay_ms=UNSET if delay_ms is None else delay_ms,
        )
        self.diffs.append((f"d{len(self.diffs) + 1}", diff))
        return self

    def join(self, *ids: str, after: float = 1.0) -> "DiffBuilder":
        """Add a round in which these members join."""
        return self.round("member.joined", joined=ids, after=after)

    def leave(self, *ids: str, after: float = 1.0, reason: str = CONSUMER_CLOSED_REASON) -> "DiffBuilder":
        """Add a round in which these members leave; the coordinator's log has a reason for each leave."""
        evidence = Evidence(source="coordinator-log", reason=reason, member_ids=list(ids), kind="member.left")
        return self.round("member.left", gone=ids, after=after, evidence=(evidence,))

    def fence(self, *ids: str, after: float = 1.0, reason: str | None = None) -> "DiffBuilder":
        """Add the round in which these members are removed because their sessions timed out."""
        evidence = Evidence(source="coordinator-log", reason=reason or "", member_ids=list(ids), kind="member.fenced")
        return self.round("member.fenced", gone=ids, after=after, evidence=(evidence,) if reason else ())

    def remove_without_cause(self, *ids: str, after: float = 1.0) -> "DiffBuilder":
        """Add a round in which these members have departed for an unknown reason."""
        evidence = Evidence(source="polling", reason="can't tell", member_ids=list(ids), kind="group.observed")
        return self.round("group.observed", gone=ids, after=after, evidence=(evidence,))

    def _even_shares(self, members: list[str]) -> dict[str, Holding]:
        count = len(members)
        return {
            member_id: _task_holding(
                list(range(self.partitions * place // count, self.partitions * (place + 1) // count))
            )
            for place, member_id in enumerate(members)
        }


def _task_holding(partitions: list[int]) -> Holding:
    return {"t": partitions} if partitions else {}
