"""Group, members, events and step of the consumer protocol (KIP-848).

Sources: ``ConsumerGroup``, ``ConsumerGroupMember`` and ``GroupMetadataManager`` of Kafka 4.3.1;
``ConsumerMembershipManager`` and ``ConsumerHeartbeatRequestManager`` for the members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from assignors.assignment import collect_sets, common, minus, normalize, union
from assignors.java import in_timeline_order
from assignors.model import TopicPartitions
from streaming.protocols.classic.step import ClassicState
from streaming.protocols.group import LIVE, MachineMember, MachineState, Stage
from streaming.protocols.machine import Step
from streaming.protocols.vocabulary import NOTHING, Announced, MachineEvent, MemberCalls, Reason, Setup, joint_reason


class Reconciliation(StrEnum):
    """``MemberState``: how far a member is with its target."""

    STABLE = "STABLE"
    UNREVOKED = "UNREVOKED_PARTITIONS"
    UNRELEASED = "UNRELEASED_PARTITIONS"


class CurrentAssignment(NamedTuple):
    """A member's current assignment: what it may own, what it has to give up first, and its epoch."""

    state: Reconciliation
    epoch: int
    assigned: TopicPartitions
    revoking: TopicPartitions = NOTHING


def advance(
    current: CurrentAssignment,
    target: TopicPartitions,
    target_epoch: int,
    blocked: TopicPartitions,
    owned: TopicPartitions | None,
) -> CurrentAssignment:
    """The member's next current assignment.

    ``target`` lacks topics that it does not subscribe to any more; ``blocked``: partitions of it that other members
    still own or have to give up; ``owned``: what the member reports, None when its heartbeat does not.
    """
    if current.state is Reconciliation.STABLE and current.epoch == target_epoch:
        return current
    if current.state is Reconciliation.STABLE and current.assigned == target:
        return CurrentAssignment(Reconciliation.STABLE, target_epoch, current.assigned)
    if current.state is Reconciliation.UNREVOKED and (owned is None or common(owned, current.revoking)):
        return current
    assigned = common(current.assigned, target)
    revoking = minus(current.assigned, assigned)
    if revoking and (owned is None or common(owned, revoking)):
        return CurrentAssignment(Reconciliation.UNREVOKED, current.epoch, assigned, revoking)
    wanted = minus(target, assigned)
    free = minus(wanted, blocked)
    state = Reconciliation.UNRELEASED if minus(wanted, free) else Reconciliation.STABLE
    return CurrentAssignment(state, target_epoch, normalize(union(assigned, free)))


def first_round(
    held: Mapping[str, TopicPartitions], target: Mapping[str, TopicPartitions], members: Iterable[str]
) -> dict[str, TopicPartitions]:
    """Return each member's partitions once everyone has given up what moves."""
    everyone = {name: held.get(name, NOTHING) for name in members}
    blocked = collect_sets(everyone)
    after: dict[str, TopicPartitions] = {}
    for name, share in everyone.items():
        wanted = target.get(name, NOTHING)
        if wanted == share:
            after[name] = wanted
            continue
        keep = common(share, wanted)
        free = {
            topic: [p for p in partitions if p not in blocked.get(topic, ())]
            for topic, partitions in minus(wanted, keep).items()
        }
        after[name] = normalize(union(keep, {topic: p for topic, p in free.items() if p}))
    return after


#: ``LEAVE_GROUP_STATIC_MEMBER_EPOCH``: a static member is away and will be back.
AWAY_EPOCH = -2

#: A new group starts at 1 (``ModernGroup``), so that its first member makes it 2.
NEW_EPOCH = 1
_NEW = CurrentAssignment(Reconciliation.STABLE, 0, NOTHING)


class ConsumerPhase(StrEnum):
    """``ConsumerGroupState``."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMember(MachineMember, frozen=True, gc=False):
    """A member: what its process does, and what the coordinator knows of it."""

    current: CurrentAssignment = _NEW
    #: Since when it has had to give up partitions.
    unrevoked_at: int = 0
    #: A heartbeat of it is scheduled (the others are only counted).
    due: bool = False

    @property
    def classic(self) -> bool:
        """Speaks JoinGroup and SyncGroup to a consumer group."""
        return self.client.group_protocol == "classic"


class ConsumerState(MachineState, frozen=True):
    """A group: epochs, the target of each member, and the members."""

    members: Mapping[str, ConsumerMember] = {}
    group_epoch: int = NEW_EPOCH
    target_epoch: int = 0
    targets: Mapping[str, TopicPartitions] = {}
    #: When the target was computed; None before the first.
    target_at: int | None = None
    #: Topics changed: the next heartbeat bumps the epoch.
    outdated: bool = False
    #: ``(group epoch, why it was bumped)``, until a round has announced it.
    reasons: tuple[tuple[int, Reason], ...] = ()
    #: What everyone had after the last round.
    held: Mapping[str, TopicPartitions] = {}
    #: The first round of the target under way, until all of its rounds are announced; and whether it is.
    first: Mapping[str, TopicPartitions] | None = None
    second: bool = False
    #: The group while all its members are classic.
    classic: ClassicState | None = None


class Heartbeat(MemberCalls, frozen=True):
    """ConsumerGroupHeartbeat requests reach the coordinator. ``full``: with the subscription and what is owned."""

    full: bool = False


class HeartbeatAnswered(MemberCalls, frozen=True):
    """Members learn their current assignments."""


class Goodbye(MemberCalls, frozen=True):
    """Heartbeats with epoch −1 (leave) or −2 (static, back soon) reach the coordinator."""


class Expired(MemberCalls, frozen=True):
    """Sessions, or the time to give up partitions, ran out."""


class MetadataChanged(MachineEvent, frozen=True):
    """The coordinator's metadata image shows these topics as they are now."""

    topics: tuple[str, ...]


#: The kind of request that a heartbeat of KIP-848 is.
HEARTBEAT = "ConsumerGroupHeartbeat"


class ConsumerStep(Step[ConsumerState, ConsumerMember]):
    """A group of the consumer protocol while one event is applied, and the outputs so far."""

    member = ConsumerMember
    farewell = HEARTBEAT
    parts = Goodbye
    says_back_soon = True

    def __init__(self, group: ConsumerState, at: int, setup: Setup) -> None:
        super().__init__(group, at, setup)
        self._holders: dict[str, dict[int, str]] | None = None

    def counted_in(self, name: str, **changes: Any) -> None:
        """The coordinator knows this member from now on."""
        place = self.group.places + 1
        self.update(name, is_member=True, place=place, **changes)
        self.set(places=place)

    def order(self, *, last: str | None) -> list[str]:
        """Known members as the coordinator's table of members iterates them; ``last`` has just come."""
        names = [name for name, member in self.members.items() if member.is_member and name != last]
        names.sort(key=lambda name: self.members[name].place)
        by_id = {self.members[name].member_id: name for name in names}
        ordered = [by_id[member_id] for member_id in in_timeline_order(list(by_id), most=self.group.most)]
        return ordered if last is None else [*ordered, last]

    def held_by_others(self, name: str, wanted: TopicPartitions) -> TopicPartitions:
        """Which of these partitions other members than this one are assigned, or have not given up yet."""
        held = self.holders()
        blocked = {}
        for topic, partitions in wanted.items():
            owners = held.get(topic, {})
            taken = [p for p in partitions if owners.get(p, name) != name]
            if taken:
                blocked[topic] = taken
        return blocked

    def holders(self) -> dict[str, dict[int, str]]:
        """Return the member that owns each partition, or has not given it up yet."""
        if self._holders is None:
            self._holders = {}
            for name, member in self.members.items():
                if member.is_member:
                    self.held(name, None, member.current)
        return self._holders

    def held(self, name: str, before: CurrentAssignment | None, after: CurrentAssignment) -> None:
        """A member's current assignment has changed."""
        holders = self._holders
        if holders is None:
            return
        for share in () if before is None else (before.assigned, before.revoking):
            for topic, partitions in share.items():
                owners = holders[topic]
                for partition in partitions:
                    if owners.get(partition) == name:
                        del owners[partition]
        for share in (after.assigned, after.revoking):
            for topic, partitions in share.items():
                holders.setdefault(topic, {}).update(dict.fromkeys(partitions, name))

    def caused(self, kind: str, names: Iterable[str] = ()) -> None:
        """A reason for the next round, and a new group epoch, which also covers metadata that have changed."""
        epoch = self.group.group_epoch + 1
        reasons = (*self.group.reasons, (epoch, Reason(kind, tuple(names))))
        self.set(reasons=reasons, group_epoch=epoch, outdated=False)

    def heartbeat(self, member: ConsumerMember) -> tuple[str, int]:
        """At the interval that the coordinator sets, or the classic one."""
        if member.classic:
            return "Heartbeat", self.timing.heartbeat_ms
        return HEARTBEAT, self.timing.consumer_heartbeat_ms

    def beat(self, names: Collection[str], ways: int = 1) -> None:
        """Members send a full heartbeat, which arrives after it crossed the network ``ways`` times."""
        self.later(Heartbeat(self.network(ways), self.calls(names), full=True))

    # Rounds.

    def settle(self) -> None:
        """A round counts once every member that it touches knows it: what moves is given up, then given out."""
        group = self.group
        first, targets = group.first, group.targets
        if first is None:
            return
        stable = True
        for name in targets:
            member = self.members.get(name)
            if member is None:
                continue
            if member.current.epoch != group.target_epoch:
                if member.stage in LIVE or member.current.assigned != targets[name]:
                    return
            elif member.current.state is not Reconciliation.STABLE:
                stable = False
        if not group.second:
            self.announce(first)
            if first == targets:
                self.set(first=None)
                return
            self.set(second=True)
        if stable:
            self.announce(targets)
            self.set(first=None, second=False)

    def announce(self, after: Mapping[str, TopicPartitions]) -> None:
        """One round, with the reasons that led to its epoch."""
        number = self.group.target_epoch if after else self.group.group_epoch
        pending = self.group.reasons
        reasons = [reason for epoch, reason in pending if epoch <= number]
        reason = joint_reason(reasons, self.group.reason)
        members = self.group_members()
        after = {name: share for name, share in after.items() if name in members}
        self.set(reasons=tuple(bump for bump in pending if bump[0] > number), reason=reason, held=after)
        self.out.append(Announced(number, bool(reasons), reason, after))

    # The life of a process.

    def knock(self, names: Collection[str]) -> None:
        """A first heartbeat, with epoch 0."""
        self.beat(names, 3)

    def renamed(self, before: str, after: str) -> None:
        """Targets go by name, and so does what everyone had after the last round."""
        targets, held = dict(self.group.targets), dict(self.group.held)
        for shares in (targets, held):
            if before in shares:
                shares[after] = shares.pop(before)
        self.set(targets=targets, held=held)

    def interrupted(self, member: ConsumerMember) -> dict[str, Any]:
        """No heartbeat of it is on its way any more."""
        return {**super().interrupted(member), "due": False}

    def watch(self, names: Collection[str]) -> None:
        """Sessions run out, or the time to give up partitions does."""
        for name in names:
            member = self.members[name]
            if not member.is_member:
                continue
            end = self.last_contact(member) + self.timing.session_timeout_ms
            if member.current.state is Reconciliation.UNREVOKED:
                end = min(end, member.unrevoked_at + self.timing.rebalance_timeout_ms)
            self.later(Expired(max(end, self.at), self.calls([name])))

    def thawed(self, name: str) -> None:
        """In time, it sends a heartbeat; too late, it has nothing left and sends epoch 0."""
        member = self.members[name]
        call = member.call + 1
        if member.is_member:
            self.update(name, stage=Stage.STABLE, call=call, beat_from=self.at)
            self.consume({name: member.owned})
            self.beat([name])
        else:
            self.send(HEARTBEAT)  # answered with UNKNOWN_MEMBER_ID
            # Its id it keeps: the process made it up itself.
            self.update(name, stage=Stage.STARTING, call=call, owned=NOTHING)
            self.knock([name])

    def resubscribed(self, names: Collection[str]) -> None:
        """The next heartbeat, sent at once, carries the new subscription."""
        for name in names:
            member = self.members[name]
            if member.is_member and member.stage is Stage.STABLE:
                self.quiet([name])
                self.update(name, beat_from=self.at)
                self.beat([name])

    def away(self, name: str) -> None:
        """A static member stopped with epoch −2: it keeps its place until its session ends."""
        assigned = normalize(self.members[name].current.assigned)
        self.update(name, current=CurrentAssignment(Reconciliation.STABLE, AWAY_EPOCH, assigned), contact_at=self.at)
        self.watch([name])
