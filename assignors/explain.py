"""Why: for each member and partition, which rule of the assignor put it there, or took it away.

Read off the question and the answer, not out of the assignors, so that it explains an observed assignment as well.
Every partition a member holds after, and every one it lost, is in exactly one :class:`Decision`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignors.assignment import AssignmentDiff, diff
from assignors.classic.group import sorted_members
from assignors.invariants import Group, Observed, make_group
from assignors.java import in_string_order
from assignors.model import Member, Topic


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of one rule about partitions of one topic, with the reason in a sentence."""

    rule: str
    topic: str
    partitions: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """One member's change, and the decisions behind it."""

    owned: dict[str, list[int]]
    revoked: dict[str, list[int]]
    assigned: dict[str, list[int]]
    kept: dict[str, list[int]]
    decisions: tuple[Decision, ...]


def explain(
    protocol: str, assignor: str, topics: Mapping[str, Topic], members: Sequence[Member], assignment: Observed
) -> dict[str, Explanation]:
    """Every member's (zookeeper: thread's) change and its reasons, in the order of ``members``."""
    group = make_group(protocol, assignor, topics, members, assignment)
    if assignor == "range":
        reasons: _Reasons = _Range(group, protocol)
    elif assignor == "roundrobin":
        reasons = _Circle(group, protocol)
    else:
        reasons = _Sticky(group, assignor)
    return {member.member_id: _explained(group, reasons, member) for member in group.members}


def _explained(group: Group, reasons: _Reasons, member: Member) -> Explanation:
    share = group.share(member.member_id)
    owned = {name: sorted(partitions) for name, partitions in member.owned.items() if partitions}
    change = diff(owned, {name: sorted(partitions) for name, partitions in share.items() if partitions})
    decided: dict[tuple[str, str, str], list[int]] = {}
    for name, partition, kept in _after(change):
        rule, why = reasons.flawed(member, name, partition) or reasons.assigned(member, name, partition, kept=kept)
        decided.setdefault((rule, name, why), []).append(partition)
    for name, partitions in change.revoked.items():
        for partition in partitions:
            rule, why = reasons.lost(member, name, partition)
            decided.setdefault((rule, name, why), []).append(partition)
    decisions = tuple(Decision(rule, name, tuple(partitions), why) for (rule, name, why), partitions in decided.items())
    return Explanation(owned, change.revoked, change.assigned, change.kept, decisions)


def _after(change: AssignmentDiff) -> list[tuple[str, int, bool]]:
    """``(topic, partition, was it kept)`` of what a member holds after, topics in string order."""
    names = in_string_order({*change.kept, *change.assigned})
    return [
        (name, partition, kept)
        for name in names
        for share, kept in ((change.kept, True), (change.assigned, False))
        for partition in share.get(name, ())
    ]


class _Reasons(ABC):
    """Names the rule behind one partition: ``(rule, why)``."""

    def __init__(self, group: Group) -> None:
        self.group = group

    @abstractmethod
    def assigned(self, member: Member, topic: str, partition: int, *, kept: bool) -> tuple[str, str]:
        """Why the member holds it after."""

    def flawed(self, member: Member, topic: str, partition: int) -> tuple[str, str] | None:
        """Why the member holds what nobody should, None when all is well: sticky where a topic has shrunk."""
        count = self.group.count(topic)
        if partition >= count:
            return "no-such-partition", f"{topic} has {count} partitions; this assignor keeps what was owned"
        holders = self.group.holders.get(topic, {}).get(partition, ())
        others = ", ".join(holder for holder in holders if holder != member.member_id)
        if others:
            return "given-twice", (
                f"{others} has it as well: this assignor loses count behind an owned partition that does not exist"
            )
        return None

    def lost(self, member: Member, topic: str, partition: int) -> tuple[str, str]:
        group = self.group
        if topic not in group.subscriptions[member.member_id]:
            return "unsubscribed", f"the member no longer subscribes to {topic}"
        if not group.count(topic):
            return "no-metadata", f"{topic} has no metadata: deleted, or not visible"
        if partition >= group.count(topic):
            return "no-such-partition", f"{topic} has {group.count(topic)} partitions: dropped"
        return self.taken(member, topic, partition)

    def taken(self, member: Member, topic: str, partition: int) -> tuple[str, str]:
        del member  # range and round robin look at no one's claims
        after = self.owner(topic, partition)
        return "recomputed", f"given to {after}: this assignor doesn't look at what was owned"

    def owner(self, topic: str, partition: int) -> str:
        return self.group.owners.get(topic, {}).get(partition, "nobody")

    def rack_reason(self, member: Member, topic: str, partition: int) -> str | None:
        racks = self.group.topics[topic].racks
        if self.group.racks_matter and racks and member.rack_id in racks[partition]:
            return f"rack {member.rack_id} holds a replica"
        return None


class _Range(_Reasons):
    def __init__(self, group: Group, protocol: str) -> None:
        super().__init__(group)
        ordered = [m.member_id for m in _in_order(group, protocol)]
        place = {member: at for at, member in enumerate(ordered)}
        self._position = {
            name: {m: at for at, m in enumerate(sorted(subscribers, key=place.__getitem__))}
            for name, subscribers in group.subscribers.items()
        }

    def assigned(self, member: Member, topic: str, partition: int, *, kept: bool) -> tuple[str, str]:
        del kept  # not looked at by this assignor
        positions = self._position.get(topic, {})
        at = positions.get(member.member_id)
        if at is None:
            return "unexplained", f"the member doesn't subscribe to {topic}"
        base, extra = divmod(self.group.count(topic), len(positions))
        start = at * base + min(at, extra)
        if start <= partition < start + base + (at < extra):
            more = f", the first {extra} one more" if extra else ""
            return "range", f"subscriber {at + 1} of {len(positions)}: {base} each{more}"
        rack = self.rack_reason(member, topic, partition)
        if rack:
            return "range-rack", f"{rack}; up to {base + (extra > 0)} partitions a subscriber"
        return "range-rest", "what was left after partitions went to members in their racks"


class _Circle(_Reasons):
    def __init__(self, group: Group, protocol: str) -> None:
        super().__init__(group)
        self._at = {m.member_id: at for at, m in enumerate(_in_order(group, protocol))}
        self._order = "hash order" if protocol == "zookeeper" else "topic and partition order"

    def assigned(self, member: Member, topic: str, partition: int, *, kept: bool) -> tuple[str, str]:
        del partition, kept  # the circle decides, whoever owned it
        skipping = "" if self.group.equal_subscriptions else f", members without {topic} skipped"
        place = f"turn of member {self._at[member.member_id] + 1} of {len(self._at)}"
        return "circle", f"{place}, partitions in {self._order}{skipping}"


class _Sticky(_Reasons):
    def __init__(self, group: Group, assignor: str) -> None:
        super().__init__(group)
        self._cooperative = assignor == "cooperative-sticky"

    def assigned(self, member: Member, topic: str, partition: int, *, kept: bool) -> tuple[str, str]:
        rivals = self.group.claims.get(topic, {}).get(partition, [])
        if kept and member.member_id in rivals:
            return "kept", "owned before, within the member's share"
        rack = self.rack_reason(member, topic, partition)
        beside = f"; {rack}" if rack else ""
        before = [rival for rival in rivals if rival != member.member_id]
        if before:
            return "moved", f"from {', '.join(before)} to balance the group{beside}"
        return "filled", f"had no owner, went to a subscriber with the least{beside}"

    def taken(self, member: Member, topic: str, partition: int) -> tuple[str, str]:
        rivals = self.group.claims.get(topic, {}).get(partition, [])
        after = self.owner(topic, partition)
        if member.member_id not in rivals:
            return "stale-claim", f"{', '.join(rivals)} claims it with a higher generation; given to {after}"
        if len(rivals) > 1:
            return "double-claim", f"claimed by {', '.join(rivals)} in one generation; given to {after}"
        racks = self.group.topics[topic].racks
        if self.group.racks_matter and racks and racks[partition] and member.rack_id not in racks[partition]:
            return "rack-mismatch", f"no replica in rack {member.rack_id}; given to {after}"
        if self._cooperative and after == "nobody":
            return ("withheld", "over the member's share: its new owner gets it in the next round, once revoked")
        return "balance", f"over the member's share; given to {after}"


def _in_order(group: Group, protocol: str) -> list[Member]:
    if protocol == "zookeeper":
        by_id = {member.member_id: member for member in group.members}
        return [by_id[name] for name in in_string_order(by_id)]
    return sorted_members(group.members)
