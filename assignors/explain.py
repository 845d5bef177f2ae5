"""Explanation of an assignment: for each member and partition, the rule of the assignor that assigned or revoked it.

The explanation only depends on the assignor's input and result, so :func:`explain` also handles observed assignments.
Every partition that a member has after the round, or has lost in it, is in exactly one :class:`Decision`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignors.assignment import diff
from assignors.classic.group import sorted_members
from assignors.invariants import Observed, make_group
from assignors.java import in_string_order
from assignors.model import Member, Topic


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of one rule about partitions of one topic, with the reason as text."""

    rule: str
    topic: str
    partitions: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The change of one member's assignment, and the assignor's decisions behind it."""

    owned: dict[str, list[int]]
    revoked: dict[str, list[int]]
    assigned: dict[str, list[int]]
    kept: dict[str, list[int]]
    decisions: tuple[Decision, ...]


def explain(
    protocol: str, assignor: str, topics: Mapping[str, Topic], members: Sequence[Member], assignment: Observed
) -> dict[str, Explanation]:
    """Return the change of each member (zookeeper: thread) with the reasons, in the order of ``members``."""
    reasons = _Reasons(protocol, assignor, topics, members, assignment)
    explanations = {}
    for member in reasons.group.members:
        owned, after = (
            {name: sorted(partitions) for name, partitions in share.items() if partitions}
            for share in (member.owned, reasons.group.share(member.member_id))
        )
        change = diff(owned, after)
        decided: dict[tuple[str, str, str], list[int]] = {}
        for name in in_string_order({*change.kept, *change.assigned}):
            for part in (change.kept, change.assigned):
                for partition in part.get(name, ()):
                    rule, why = reasons.assigned(member, name, partition, kept=part is change.kept)
                    decided.setdefault((rule, name, why), []).append(partition)
        for name, partitions in change.revoked.items():
            for partition in partitions:
                rule, why = reasons.lost(member, name, partition)
                decided.setdefault((rule, name, why), []).append(partition)
        decisions = tuple(Decision(rule, name, tuple(numbers), why) for (rule, name, why), numbers in decided.items())
        explanations[member.member_id] = Explanation(owned, *change, decisions)
    return explanations


class _Reasons:
    """Reasons why a member got or lost a single partition, as pairs ``(rule, why)``."""

    def __init__(
        self, protocol: str, assignor: str, topics: Mapping[str, Topic], members: Sequence[Member], assignment: Observed
    ) -> None:
        self.group = group = make_group(protocol, assignor, topics, members, assignment)
        self._assignor = assignor
        self._partition_order = "hash order" if protocol == "zookeeper" else "topic and partition order"
        if protocol == "zookeeper":
            order = in_string_order(member.member_id for member in group.members)
        else:
            order = [member.member_id for member in sorted_members(group.members)]
        self._turn_by_member = {member: place for place, member in enumerate(order)}
        self._positions: dict[str, dict[str, int]] = {}
        for member in order:
            for name in group.subscriptions[member]:
                positions = self._positions.setdefault(name, {})
                positions[member] = len(positions)
        self._owners: dict[tuple[str, int], list[str]] = {}
        for member, share in assignment.items():
            for name, partitions in share.items():
                for partition in partitions:
                    self._owners.setdefault((name, partition), []).append(member)

    def assigned(self, member: Member, topic: str, partition: int, *, kept: bool) -> tuple[str, str]:
        count = self.group.count(topic)
        if partition >= count:  # only ``sticky``, after a topic has shrunk
            return "no-such-partition", f"{topic} has {count} partitions; this assignor keeps what was owned"
        other_owners = ", ".join(owner for owner in self._owners[topic, partition] if owner != member.member_id)
        if other_owners:
            reason = "this assignor loses count behind an owned partition that does not exist"
            return "given-twice", f"{other_owners} has it as well: {reason}"
        if self._assignor == "range":
            return self._range(member, topic, partition)
        if self._assignor == "roundrobin":
            skipped_text = "" if self.group.equal_subscriptions else f", members without {topic} skipped"
            place = f"turn of member {self._turn_by_member[member.member_id] + 1} of {len(self._turn_by_member)}"
            return "circle", f"{place}, partitions in {self._partition_order}{skipped_text}"
        return self._sticky(member, topic, partition, kept=kept)

    def _sticky(self, member: Member, topic: str, partition: int, *, kept: bool) -> tuple[str, str]:
        claimants = self.group.claims.get(topic, {}).get(partition, [])
        if kept and member.member_id in claimants:
            return "kept", "owned before, within the member's share"
        rack = self._rack_reason(member, topic, partition)
        rack_text = f"; {rack}" if rack else ""
        before = [claimant for claimant in claimants if claimant != member.member_id]
        if before:
            return "moved", f"from {', '.join(before)} to balance the group{rack_text}"
        return "filled", f"had no owner, went to a subscriber with the least{rack_text}"

    def _range(self, member: Member, topic: str, partition: int) -> tuple[str, str]:
        positions = self._positions.get(topic, {})
        at = positions.get(member.member_id)
        if at is None:
            return "unexplained", f"the member doesn't subscribe to {topic}"
        base, extra = divmod(self.group.count(topic), len(positions))
        start = at * base + min(at, extra)
        if start <= partition < start + base + (at < extra):
            extra_text = f", the first {extra} one more" if extra else ""
            return "range", f"subscriber {at + 1} of {len(positions)}: {base} each{extra_text}"
        rack = self._rack_reason(member, topic, partition)
        if rack:
            return "range-rack", f"{rack}; up to {base + (extra > 0)} partitions a subscriber"
        return "range-rest", "what was left after partitions went to members in their racks"

    def lost(self, member: Member, topic: str, partition: int) -> tuple[str, str]:
        group = self.group
        count = group.count(topic)
        if topic not in group.subscriptions[member.member_id]:
            return "unsubscribed", f"the member no longer subscribes to {topic}"
        if not count:
            return "no-metadata", f"{topic} has no metadata: deleted, or not visible"
        if partition >= count:
            return "no-such-partition", f"{topic} has {count} partitions: dropped"
        return self._reason_for_new_owner(member, topic, partition)

    def _reason_for_new_owner(self, member: Member, topic: str, partition: int) -> tuple[str, str]:
        group = self.group
        after = group.owners.get(topic, {}).get(partition, "nobody")
        if self._assignor in ("range", "roundrobin"):
            return "recomputed", f"given to {after}: this assignor doesn't look at what was owned"
        claimants = group.claims.get(topic, {}).get(partition, [])
        if member.member_id not in claimants:
            return "stale-claim", f"{', '.join(claimants)} claims it with a higher generation; given to {after}"
        if len(claimants) > 1:
            return "double-claim", f"claimed by {', '.join(claimants)} in one generation; given to {after}"
        racks = group.topics[topic].racks
        if group.needs_racks and racks and racks[partition] and member.rack_id not in racks[partition]:
            return "rack-mismatch", f"no replica in rack {member.rack_id}; given to {after}"
        if group.withholds and after == "nobody":
            return "withheld", "over the member's share: its new owner gets it in the next round, once revoked"
        return "balance", f"over the member's share; given to {after}"

    def _rack_reason(self, member: Member, topic: str, partition: int) -> str | None:
        racks = self.group.topics[topic].racks
        if self.group.needs_racks and racks and member.rack_id in racks[partition]:
            return f"rack {member.rack_id} holds a replica"
        return None
