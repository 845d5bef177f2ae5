"""What-if analysis: assignments of a live group after changes, under every assignor of every protocol."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from assignors import registry
from assignors.assignment import collect_lists, count_moved, diff, size, subtract
from assignors.errors import BadInput, MonitorError
from assignors.java import uuid_of
from assignors.model import Assignment, Member, Topic, TopicPartitions
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.records.diffs import MemberNames
from streaming.simulation.live_group import LiveGroup, LiveMember


class ProtocolAssignor(NamedTuple):
    """A rebalance protocol with one of its assignors."""

    protocol: str
    assignor: str

    @property
    def registry(self) -> str:
        """Return the protocol's name as :mod:`assignors.registry` spells it."""
        return PROTOCOL_FAMILIES[self.protocol].assignors_of


#: Pairs in the order of Kafka's documentation. ``cooperative-sticky`` under EAGER, as halfway through a migration, is
#: left out, as its assignments then equal those of ``sticky``.
PROTOCOL_ASSIGNORS: Final = (
    ProtocolAssignor("eager", "range"),
    ProtocolAssignor("eager", "roundrobin"),
    ProtocolAssignor("eager", "sticky"),
    ProtocolAssignor("cooperative", "cooperative-sticky"),
    ProtocolAssignor("consumer", "uniform"),
    ProtocolAssignor("consumer", "range"),
)
_STICKY_ASSIGNORS: Final = ("sticky", "cooperative-sticky")
#: The largest number of successive rebalances after which a cooperative group must be stable.
_MAX_ROUNDS: Final = 8


class GroupChange(Struct, frozen=True, kw_only=True):
    """Requested changes to a group.

    ``add``: client ids of new members, or their instance ids in a group of static members. ``remove``: members that
    depart, by any of their names. ``partitions``: new partition counts. ``subscribe``: topics of every member; None
    leaves subscriptions unchanged.
    """

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    partitions: Mapping[str, int] = {}
    subscribe: tuple[str, ...] | None = None


class Preview(NamedTuple):
    """The group's assignment under one protocol and assignor.

    ``own``: True if the group uses this protocol and assignor now. ``assignment``: the final assignment by member id,
    empty if there is a ``problem``. ``rounds``: number of rounds, a lower bound unless ``exact_rounds``.
    ``rack_local_counts``: number of partitions whose owner is in the rack of a replica, and number of partitions for
    which both racks are known. ``inexact``: reasons why Kafka's assignment may differ.
    """

    way: ProtocolAssignor
    own: bool
    assignment: Assignment
    rounds: int = 0
    exact_rounds: bool = True
    moved: int = 0
    newly_assigned: int = 0
    unowned: int = 0
    most: int = 0
    least: int = 0
    rack_local_counts: tuple[int, int] = (0, 0)
    inexact: tuple[str, ...] = ()
    problem: str | None = None


class ChangedGroup(Struct, frozen=True, kw_only=True, dict=True):
    """A group before and after a what-if change, with the ids of ``new`` members, and ``notes`` about assumptions."""

    before: LiveGroup
    after: LiveGroup
    new: frozenset[str]
    notes: tuple[str, ...]

    @cached_property
    def owned(self) -> dict[str, TopicPartitions]:
        """Return each member's partitions before the change."""
        return {member.member_id: member.owned for member in self.before.members}

    @property
    def own(self) -> ProtocolAssignor | None:
        """Return the group's protocol and assignor; None if the assignor is not one of Kafka's."""
        protocol, assignor = self.before.protocol, self.before.assignor or ""
        if protocol != "consumer":
            protocol = "cooperative" if assignor == "cooperative-sticky" else "eager"
        way = ProtocolAssignor(protocol, assignor)
        return way if way in PROTOCOL_ASSIGNORS else None


def apply_change(group: LiveGroup, changes: GroupChange) -> ChangedGroup:
    """Return the group before and after the changes, without a new assignment."""
    if group.kind != "consumer":
        raise BadInput(f"group {group.group_id}: its kind is {group.kind}; what-if supports consumer groups only")
    gone = {_find_member(group, name).member_id for name in changes.remove}
    topics = _topics(group, changes)
    stay = [member for member in group.members if member.member_id not in gone]
    if changes.subscribe is not None:
        stay = [structs.replace(member, topics=tuple(changes.subscribe)) for member in stay]
    new, notes = _new_members(group, stay or group.members, changes)
    if not stay and not new:
        raise BadInput("--remove: no member is left; keep a member, or add one with --add")
    after, ids = group._replace(members=(*stay, *new), topics=topics), frozenset(member.member_id for member in new)
    return ChangedGroup(before=group, after=after, new=ids, notes=tuple(notes))


def _find_member(group: LiveGroup, name: str) -> LiveMember:
    names_by_id = group.names
    matches = [
        member
        for member in group.members
        if name
        in (member.member_id, names_by_id[member.member_id], member.names.group_instance_id, member.names.client_id)
    ]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(sorted(names_by_id[member.member_id] for member in matches or group.members)[:20])
    problem = f"{len(matches)} members have this name" if matches else "no member has this name"
    raise BadInput(f"--remove {name}: {problem}; there are {listed}")


def _topics(group: LiveGroup, changes: GroupChange) -> dict[str, Topic]:
    topics = dict(group.topics)
    for name in changes.subscribe or ():
        if name not in topics and name not in changes.partitions:
            problem = f"its partition count is not in the membership log; give it with --partitions {name}=N"
            raise BadInput(f"--subscribe {name}: {problem}")
    for name, count in changes.partitions.items():
        where = f"--partitions {name}={count}"
        topic = topics.get(name)
        if topic is None and name not in (changes.subscribe or ()):
            raise BadInput(f"{where}: no member subscribes to {name}")
        topic = topic or Topic(name, 0)
        if count < topic.partitions:
            raise BadInput(f"{where}: it has {topic.partitions} partitions, and Kafka can't remove partitions")
        racks = None if topic.racks is None else (*topic.racks, *[()] * (count - topic.partitions))
        topics[name] = Topic(name, count, racks, topic.topic_id)
    return {name: topic for name, topic in topics.items() if changes.subscribe is None or name in changes.subscribe}


def _new_members(
    group: LiveGroup, similar_members: Sequence[LiveMember], changes: GroupChange
) -> tuple[list[LiveMember], list[str]]:
    notes: list[str] = []
    if not changes.add:
        return [], notes
    if not similar_members:
        raise BadInput(f"--add: group {group.group_id} has no member whose subscription a new member could copy")
    model, static = similar_members[0], all(member.names.group_instance_id for member in similar_members)
    if len({member.topics for member in similar_members}) > 1 and changes.subscribe is None:
        notes.append(f"members subscribe to different topics: new ones to those of {group.names[model.member_id]}")
    racks = Counter(member.rack_id for member in similar_members)
    if set(racks) != {None}:
        notes.append("new members are assumed to be in the racks with the fewest members")
    new = []
    for name in changes.add:
        namesakes = [member for member in group.members if static or member.member_id == name]
        if any(name in (rival.member_id, rival.names.client_id, rival.names.group_instance_id) for rival in namesakes):
            raise BadInput(f"--add {name}: a member has this name already; give another name")
        rack = min(racks, key=lambda rack_id: (racks[rack_id], rack_id or ""))
        racks[rack] += 1
        uuid = UUID(bytes=blake2b(f"{group.group_id} {name}".encode(), digest_size=16).digest())
        new.append(
            LiveMember(
                member_id=str(uuid) if group.protocol == "consumer" else f"{name}-{uuid}",
                names=MemberNames(model.names.client_id, None, name) if static else MemberNames(name),
                rack_id=rack,
                topics=model.topics if changes.subscribe is None else changes.subscribe,
                assignors=model.assignors,
                classic=model.classic,
            )
        )
    return new, notes


def previews(change: ChangedGroup) -> Iterator[Preview]:
    """Yield the group's assignment after the change under each pair of a protocol and an assignor."""
    return (preview(change, way) for way in PROTOCOL_ASSIGNORS)


def preview(change: ChangedGroup, way: ProtocolAssignor) -> Preview:
    """Return the assignment after the change under one protocol and assignor."""
    own = change.own == way
    try:
        assignment, rounds, exact = _final_assignment(change, way)
    except MonitorError as problem:
        return Preview(way, own, {}, problem=str(problem))
    sizes = [size(share) for share in assignment.values()]
    subscribed = {topic for member in change.after.members for topic in member.topics}
    partition_count = sum(topic.partitions for name, topic in change.after.topics.items() if name in subscribed)
    return Preview(
        way,
        own,
        assignment,
        rounds=rounds,
        exact_rounds=exact,
        moved=count_moved(change.owned, assignment),
        newly_assigned=size(subtract(collect_lists(assignment.values()), collect_lists(change.owned.values()))),
        unowned=partition_count - sum(sizes),
        most=max(sizes, default=0),
        least=min(sizes, default=0),
        rack_local_counts=_rack_local_counts(change.after, assignment),
        inexact=tuple(_inexactness_reasons(change, way)),
    )


def _final_assignment(change: ChangedGroup, way: ProtocolAssignor) -> tuple[Assignment, int, bool]:
    assign = registry.find(way.registry, way.assignor).assign
    topics, number = change.after.topics, change.after.number
    if way.protocol == "consumer":
        topics = {name: replace(topic, topic_id=topic.topic_id or uuid_of(name)) for name, topic in topics.items()}
    members = [_member(member, member.owned, member.generation) for member in change.after.members]
    assignment = assign(topics, members)
    if way.protocol == "eager":
        return assignment, 1, True
    if way.protocol == "consumer":
        # There is one target: a member gives up partitions with its next heartbeat, and then the new owner gets them.
        changes = [diff(change.owned.get(member_id, {}), share) for member_id, share in assignment.items()]
        steps, is_gained = any(each.revoked for each in changes), any(each.assigned for each in changes)
        return assignment, 1 + steps + is_gained, not (steps or is_gained)
    rounds, owned = 1, {member.member_id: member.owned for member in members}
    while any(diff(owned[member_id], share).revoked for member_id, share in assignment.items()):
        # Members that gave up partitions rejoin (KIP-429): the next round assigns those.
        if rounds == _MAX_ROUNDS:
            return assignment, rounds, False
        owned, rounds = dict(assignment), rounds + 1
        claims = [_member(member, owned[member.member_id], number + rounds) for member in change.after.members]
        assignment = assign(topics, claims)
    return assignment, rounds, True


def _member(member: LiveMember, owned: TopicPartitions, generation: int) -> Member:
    return Member(member.member_id, member.topics, member.names.group_instance_id, member.rack_id, owned, generation)


def _rack_local_counts(group: LiveGroup, assignment: Assignment) -> tuple[int, int]:
    racks = {member.member_id: member.rack_id for member in group.members if member.rack_id is not None}
    at = [
        (racks[member], replicas[partition])
        for member in assignment.keys() & racks.keys()
        for topic, partitions in assignment[member].items()
        for replicas in (group.topics[topic].racks,)
        for partition in partitions
        if replicas is not None
    ]
    return sum(rack in replicas for rack, replicas in at), sum(bool(replicas) for _, replicas in at)


def _inexactness_reasons(change: ChangedGroup, way: ProtocolAssignor) -> Iterator[str]:
    before = change.before
    classic, was_classic = way.registry == "classic", before.protocol == "classic"
    if classic != was_classic:
        yield "members get other ids under this protocol: interchangeable members may swap partitions"
    elif any(_is_order_random(change, member, way) for member in change.after.members):
        yield "ids of new members are random: interchangeable members may swap partitions"
    if not classic and any(topic.topic_id is None for topic in change.after.topics.values()):
        yield "topic ids are unknown: their order, and so tie-breaks, may differ"
    is_newly_sticky = way.assignor in _STICKY_ASSIGNORS and before.assignor not in _STICKY_ASSIGNORS
    if is_newly_sticky and change.own != way and was_classic:
        yield "assumes that it ran before: the first round after a switch may know fewer owned partitions"


def _is_order_random(change: ChangedGroup, member: LiveMember, way: ProtocolAssignor) -> bool:
    if member.member_id not in change.new:
        return False
    if way.assignor not in ("range", "roundrobin") or way.registry != "classic":
        # The order of members depends on their whole ids: sticky assignors use their hashes, the server random ids.
        return True
    if member.names.group_instance_id:
        return False
    prefix = f"{member.names.client_id}-"
    others = [other_member.member_id for other_member in change.after.members if other_member is not member]
    return any(member_id.startswith(prefix) or prefix.startswith(member_id) for member_id in others)
