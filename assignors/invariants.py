"""Rules that an assignment must follow, for the command ``check``, the violations in diffs, and tests.

:func:`rules_for` returns the rules that an assignor promises; :func:`check` applies them, in time linear in the group's
partitions and subscriptions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assignors.assignment import owners, size
from assignors.model import Member, Topic, TopicPartitions

#: ``{member id (zookeeper: thread id): share}``.
Observed = Mapping[str, TopicPartitions]
#: The largest number of partitions that a message lists; further partitions are only counted.
_MAX_SHOWN_PARTITIONS = 10
VALID = "valid"
BALANCED_RULE = "balanced"
STICKY_RULE = "sticky"
COOPERATIVE_RULE = "cooperative-safe"


@dataclass(frozen=True, slots=True)
class Violation:
    """Violation of one rule: the rule, the members, and the partitions of one topic that break the rule."""

    rule: str
    message: str
    member_ids: tuple[str, ...] = ()
    topic: str | None = None
    partitions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


@dataclass(frozen=True)
class Group:
    """A group and its assignment, with indexes for the rules; ZooKeeper members are expanded to their threads."""

    topics: Mapping[str, Topic]
    members: Sequence[Member]
    assignment: Observed
    #: True if the assignor may leave partitions without an owner until the next round (cooperative-sticky).
    withholds: bool = False
    by_topic: bool = False

    @cached_property
    def subscriptions(self) -> dict[str, frozenset[str]]:
        """Topics to which each member subscribes, by member id."""
        return {member.member_id: frozenset(member.topics) for member in self.members}

    @cached_property
    def subscribers(self) -> dict[str, list[str]]:
        """Subscribers of each topic with metadata, by topic, in the order of members."""
        subscribers: dict[str, list[str]] = {}
        for member, names in {member.member_id: member.topics for member in self.members}.items():
            for name in filter(self.count, dict.fromkeys(names)):
                subscribers.setdefault(name, []).append(member)
        return subscribers

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of partitions of each member, by member id."""
        return {member: size(self.share(member)) for member in self.subscriptions}

    @cached_property
    def owners(self) -> dict[str, dict[int, str]]:
        """Owner of each partition after the round, by topic and partition."""
        return owners(self.assignment)

    @cached_property
    def claims(self) -> dict[str, dict[int, list[str]]]:
        """Previous owners by topic and partition: the members whose claims have the highest generation."""
        generations = {member.member_id: member.generation for member in self.members}
        claims: dict[str, dict[int, list[str]]] = {}
        for member in self.members:
            for name, partitions in member.owned.items():
                by_partition = claims.setdefault(name, {})
                for partition in partitions:
                    claimants = by_partition.setdefault(partition, [])
                    if claimants and generations[claimants[0]] < member.generation:
                        claimants.clear()
                    if not claimants or generations[claimants[0]] == member.generation:
                        claimants.append(member.member_id)
        return claims

    @cached_property
    def equal_subscriptions(self) -> bool:
        """True if all members subscribe to the same topics."""
        return len(set(self.subscriptions.values())) <= 1

    @cached_property
    def needs_racks(self) -> bool:
        """True if the check has racks of both a member and a partition."""
        has_racks = any(any(topic.racks or ()) for topic in self.topics.values())
        return has_racks and any(member.rack_id for member in self.members)

    def share(self, member: str) -> TopicPartitions:
        """Return a member's partitions in the checked assignment."""
        return self.assignment.get(member, {})

    def count(self, name: str) -> int:
        """Return the partition count of a topic, 0 without metadata."""
        topic = self.topics.get(name)
        return topic.partitions if topic else 0


def make_group(
    protocol: str, assignor: str, topics: Mapping[str, Topic], members: Sequence[Member], assignment: Observed
) -> Group:
    """Return the group as input of the assignment rules, for this protocol and assignor."""
    if protocol == "zookeeper":  # Each thread becomes a member with the id "consumerId-n".
        members = [
            Member(f"{member.member_id}-{number}", tuple(name for name, count in streams.items() if number < count))
            for member in members
            for streams in (member.streams or {},)
            for number in range(max(streams.values(), default=0))
        ]
    return Group(topics, members, assignment, assignor == "cooperative-sticky", assignor == "range")


def check_valid(group: Group) -> list[Violation]:
    """Check that all partitions of subscribed topics, and only these, are assigned, each to one subscriber."""
    problems = check_assigned(group)
    for name in group.subscribers:
        assigned = group.owners.get(name, {})
        before = group.claims.get(name, {}) if group.withholds else {}
        missing = tuple(p for p in range(group.count(name)) if p not in assigned and p not in before)
        if missing:
            problems.append(Violation(VALID, f"{_partition_text(name, missing)} given to nobody", (), name, missing))
    return problems


def check_assigned(group: Group) -> list[Violation]:
    """Check that assigned partitions exist and have one owner, a subscriber; this must hold at any moment."""
    unknown_workers = [
        Violation(VALID, f"{member} holds partitions but is not a member", (member,))
        for member, share in group.assignment.items()
        if member not in group.subscriptions and any(share.values())
    ]
    return unknown_workers + check_one(group.assignment, group)


def check_one(assignment: Observed, group: Group | None = None) -> list[Violation]:
    """Check that no partition is assigned twice and, with ``group``, that members subscribe to assigned topics."""
    problems: list[Violation] = []
    has_second_owners = size(owners(assignment)) < sum(map(size, assignment.values()))
    first_owners: dict[str, dict[int, str]] = {}
    for member, share in assignment.items():
        for name, partitions in share.items():
            if has_second_owners:
                owner_of = first_owners.setdefault(name, {})
                problems += _second_owners(owner_of, member, name, partitions)
                owner_of.update(dict.fromkeys(partitions, member))
            if group is not None and partitions:
                problems += _misplaced_partitions(group, member, name, tuple(sorted(set(partitions))))
    return problems


def _second_owners(owners: Mapping[int, str], member: str, name: str, partitions: Sequence[int]) -> list[Violation]:
    problems = []
    distinct_partitions = partitions if isinstance(partitions, range) else dict.fromkeys(partitions)
    if len(distinct_partitions) != len(partitions):
        repeated = tuple(sorted({p for p in partitions if list(partitions).count(p) > 1}))
        message = f"{member} is given {_partition_text(name, repeated)} twice"
        problems.append(Violation(VALID, message, (member,), name, repeated))
    shared: dict[str, list[int]] = {}
    for partition in distinct_partitions:
        if (owner := owners.get(partition, member)) != member:
            shared.setdefault(owner, []).append(partition)
    for owner, shared_partitions in shared.items():
        doubly_assigned = tuple(sorted(shared_partitions))
        message = f"{_partition_text(name, doubly_assigned)} given to {owner} and to {member}"
        problems.append(Violation(VALID, message, (owner, member), name, doubly_assigned))
    return problems


def _misplaced_partitions(group: Group, member: str, name: str, assigned: tuple[int, ...]) -> list[Violation]:
    problems = []
    if name not in group.subscriptions.get(member, (name,)):
        message = f"{member} is given {_partition_text(name, assigned)} without subscribing to {name}"
        problems.append(Violation(VALID, message, (member,), name, assigned))
    count = group.count(name)
    if assigned[0] < 0 or assigned[-1] >= count:
        missing = tuple(partition for partition in assigned if not 0 <= partition < count)
        message = f"{member} is given {_partition_text(name, missing)}, but {name} has {count} partitions"
        problems.append(Violation(VALID, message, (member,), name, missing))
    return problems


def check_balanced(group: Group) -> list[Violation]:
    """Check that loads are balanced: no partition can move to a subscriber with at least two partitions fewer.

    For ``range``, only partitions of the same topic are counted.
    """
    owned = group.owners
    if group.withholds and any(p not in owned.get(t, ()) for t in group.subscribers for p in range(group.count(t))):
        return []  # The next round assigns the remaining partitions, and only its assignment must be balanced.
    problems: dict[tuple[str, str], Violation] = {}  # By pair of members: one topic is enough to show the imbalance.
    for name, subscribers in group.subscribers.items():
        sizes = {member: len(group.share(member).get(name, ())) for member in subscribers}
        loads, scope_text = (sizes, f" of {name}") if group.by_topic else (group.sizes, "")
        holders = [member for member in subscribers if sizes[member]]
        if not holders:
            continue
        most = max(holders, key=loads.__getitem__)
        least = min(subscribers, key=loads.__getitem__)
        if loads[most] - loads[least] > 1:
            load_text = f"{most} owns {loads[most]} partitions{scope_text}, {least} {loads[least]}"
            message = f"{load_text}; a partition of {name} could move"
            problems.setdefault((most, least), Violation(BALANCED_RULE, message, (most, least), name))
    return list(problems.values())


def check_sticky(group: Group) -> list[Violation]:
    """Check that no partition left a member that still subscribes to its topic for a member with more partitions."""
    problems = []
    for name, by_partition in group.claims.items():
        for partition, claimants in by_partition.items():
            if len(claimants) != 1 or partition >= group.count(name):
                continue
            before, after = claimants[0], group.owners.get(name, {}).get(partition)
            if after is None or after == before or name not in group.subscriptions.get(before, ()):
                continue
            old, new = group.sizes[before], group.sizes.get(after, 0)
            if new > old:
                message = f"{name}-{partition} moved from {before}, which owns {old}, to {after}, which owns {new}"
                problems.append(Violation(STICKY_RULE, message, (before, after), name, (partition,)))
    return problems


def check_cooperative(group: Group) -> list[Violation]:
    """Check that no member is assigned a partition that another member still owns and must revoke first.

    As in the client (``validateCooperativeAssignment``), a partition that a member already claims does not count as
    newly assigned to that member, even if the claim has an old generation.
    """
    problems = []
    owned = {member.member_id: member.owned for member in group.members}
    for name, by_partition in group.claims.items():
        unrevoked_partitions: dict[tuple[str, str], list[int]] = {}
        for partition, claimants in by_partition.items():
            after = group.owners.get(name, {}).get(partition)
            if after is None or partition >= group.count(name):
                continue
            if partition not in owned.get(after, {}).get(name, ()):
                unrevoked_partitions.setdefault((claimants[0], after), []).append(partition)
        for (before, after), partitions in unrevoked_partitions.items():
            message = f"{_partition_text(name, partitions)} given to {after} while {before} still owns it"
            problems.append(Violation(COOPERATIVE_RULE, message, (before, after), name, tuple(sorted(partitions))))
    return problems


RULES: dict[str, Callable[[Group], list[Violation]]] = {
    VALID: check_valid,
    BALANCED_RULE: check_balanced,
    STICKY_RULE: check_sticky,
    COOPERATIVE_RULE: check_cooperative,
}


def rules_for(protocol: str, assignor: str, group: Group) -> list[str]:
    """Return the rules that an assignor promises for this group; an unknown assignor promises ``valid``."""
    rules = [VALID]
    if assignor == "range" and not group.needs_racks:
        rules.append(BALANCED_RULE)
    elif protocol == "zookeeper" or assignor in {"roundrobin", "uniform"}:
        if group.equal_subscriptions:
            rules.append(BALANCED_RULE)
    elif assignor in {"sticky", "cooperative-sticky"}:
        rules.append(BALANCED_RULE)
        if group.equal_subscriptions and not group.needs_racks:
            rules.append(STICKY_RULE)
    if group.withholds:
        rules.append(COOPERATIVE_RULE)
    return rules


def check(
    protocol: str,
    assignor: str,
    topics: Mapping[str, Topic],
    members: Sequence[Member],
    assignment: Observed,
    *,
    rules: Sequence[str] | None = None,
) -> list[Violation]:
    """Return the violations of ``rules``; None: check the rules that the assignor promises."""
    group = make_group(protocol, assignor, topics, members, assignment)
    selected_rules = rules_for(protocol, assignor, group) if rules is None else rules
    return [violation for rule in selected_rules for violation in RULES[rule](group)]


def _partition_text(topic: str, partitions: Sequence[int]) -> str:
    """Return a topic's partitions as text: ``t0-3``, ``t0-1,2,3`` or ``t0-1,2,3… (90)``."""
    shown, more = ",".join(map(str, partitions[:_MAX_SHOWN_PARTITIONS])), len(partitions) > _MAX_SHOWN_PARTITIONS
    return f"{topic}-{shown}" + (f"… ({len(partitions)})" if more else "")
