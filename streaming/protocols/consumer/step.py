"""Types of the consumer protocol (KIP-848): group, members, events, and the application of one event.

The coordinator follows ``ConsumerGroup``, ``ConsumerGroupMember`` and ``GroupMetadataManager`` of Kafka 4.3.1; members
follow ``ConsumerMembershipManager`` and ``ConsumerHeartbeatRequestManager``.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from assignors.assignment import collect_lists, common, normalize, subtract, union
from assignors.java import in_timeline_order
from assignors.model import TopicPartitions
from streaming.protocols import vocabulary
from streaming.protocols.classic.step import ClassicState
from streaming.protocols.machine import Step
from streaming.protocols.vocabulary import LIVE, NOTHING, MemberCalls, Reason, Stage


class Reconciliation(StrEnum):
    """Progress of a member towards its target assignment (``MemberState`` in Kafka)."""

    STABLE = "STABLE"
    UNREVOKED = "UNREVOKED_PARTITIONS"
    UNRELEASED = "UNRELEASED_PARTITIONS"


class CurrentAssignment(NamedTuple):
    """A KIP-848 member's current assignment: its epoch, its partitions, and those that it must give up first."""

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
    """Return the next current assignment of a member.

    ``target``: the member's target assignment, without topics to which the member no longer subscribes. ``blocked``:
    partitions of the target that other members still own or must give up. ``owned``: partitions that the member
    reports, None if its heartbeat does not contain any report.
    """
    if current.state is Reconciliation.STABLE and current.epoch == target_epoch:
        return current
    if current.state is Reconciliation.STABLE and current.assigned == target:
        return CurrentAssignment(Reconciliation.STABLE, target_epoch, current.assigned)
    if current.state is Reconciliation.UNREVOKED and (owned is None or common(owned, current.revoking)):
        return current
    assigned = common(current.assigned, target)
    revoking = subtract(current.assigned, assigned)
    if revoking and (owned is None or common(owned, revoking)):
        return CurrentAssignment(Reconciliation.UNREVOKED, current.epoch, assigned, revoking)
    missing = subtract(target, assigned)
    free = subtract(missing, blocked)
    state = Reconciliation.UNRELEASED if subtract(missing, free) else Reconciliation.STABLE
    return CurrentAssignment(state, target_epoch, normalize(union(assigned, free)))


def first_round(
    held: Mapping[str, TopicPartitions], target: Mapping[str, TopicPartitions], members: Iterable[str]
) -> dict[str, TopicPartitions]:
    """Return each member's partitions after the first round of a target, in which moving partitions are revoked."""
    owned_by_member = {name: held.get(name, NOTHING) for name in members}
    blocked = collect_lists(owned_by_member.values())
    after: dict[str, TopicPartitions] = {}
    for name, share in owned_by_member.items():
        target_share = target.get(name, NOTHING)
        if target_share == share:
            after[name] = target_share
            continue
        keep = common(share, target_share)
        after[name] = normalize(union(keep, subtract(subtract(target_share, keep), blocked)))
    return after


#: ``LEAVE_GROUP_STATIC_MEMBER_EPOCH``: a static member has left temporarily.
AWAY_EPOCH = -2
#: Epoch of a new group (``ModernGroup``); the first member bumps it to 2.
NEW_EPOCH = 1
NO_ASSIGNMENT = CurrentAssignment(Reconciliation.STABLE, 0, NOTHING)


class ConsumerPhase(StrEnum):
    """Phase of a consumer group (``ConsumerGroupState``)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMember(vocabulary.MachineMember, frozen=True, gc=False):
    """Member of a consumer group: the state of its process, and its state at the coordinator."""

    current: CurrentAssignment = NO_ASSIGNMENT
    #: Time at which the member was requested to give up partitions.
    unrevoked_at: int = 0
    #: True if the member's next heartbeat is scheduled as an event; other heartbeats are only counted.
    due: bool = False

    @property
    def is_classic(self) -> bool:
        """True if the member uses JoinGroup and SyncGroup in a consumer group."""
        return self.client.group_protocol == "classic"


class ConsumerState(vocabulary.ProtocolState, frozen=True):
    """State of a consumer group: epochs, the target assignment of each member, and the members."""

    members: Mapping[str, ConsumerMember] = {}
    group_epoch: int = NEW_EPOCH
    target_epoch: int = 0
    targets: Mapping[str, TopicPartitions] = {}
    #: Time at which the target was computed; None before the first target.
    last_target_ms: int | None = None
    #: True if topics changed, so that the next heartbeat bumps the group epoch.
    outdated: bool = False
    #: ``(group epoch, reason of its bump)`` of every epoch that no round has announced yet.
    reasons: tuple[tuple[int, Reason], ...] = ()
    #: Each member's partitions after the last round.
    held: Mapping[str, TopicPartitions] = {}
    #: Assignment after the first round towards the current target, until all rounds of the target are announced; and
    #: True once the first round has been announced.
    first: Mapping[str, TopicPartitions] | None = None
    second: bool = False
    #: The contained classic group while all members are classic, else None.
    classic: ClassicState | None = None


class Heartbeat(MemberCalls, frozen=True):
    """ConsumerGroupHeartbeat requests reach the coordinator; ``is_full``: with subscription and owned partitions."""

    is_full: bool = False


class HeartbeatAnswered(MemberCalls, frozen=True):
    """Event: members receive their current assignments."""


class Goodbye(MemberCalls, frozen=True):
    """Heartbeats with epoch −1 (leave) or −2 (temporary stop of a static member) arrive at the coordinator."""


class Expired(MemberCalls, frozen=True):
    """Members' session timeouts, or their timeouts for revoking partitions, have passed."""


class MetadataChanged(vocabulary.GroupEvent, frozen=True):
    """The coordinator's metadata image now has the current state of these topics."""

    topics: tuple[str, ...]


#: Name of the heartbeat request of KIP-848.
HEARTBEAT = "ConsumerGroupHeartbeat"


class ConsumerStep(Step[ConsumerState, ConsumerMember]):
    """State of a group of the consumer protocol while one event is applied, and the outputs so far."""

    member = ConsumerMember
    leave_request = HEARTBEAT
    leave_event = Goodbye
    returns_with_join = True

    def __init__(self, group: ConsumerState, at: int, setup: vocabulary.Setup) -> None:
        super().__init__(group, at, setup)
        self._holders: dict[str, dict[int, str]] | None = None

    def add_to_coordinator(self, name: str, **changes: Any) -> None:
        """Add the member to the coordinator's list of members."""
        place = self.group.places + 1
        self.update(name, is_member=True, place=place, **changes)
        self.set_fields(places=place)

    def order(self, *, last: str | None) -> list[str]:
        """Return member names in the iteration order of the coordinator's hash table; ``last`` has just joined."""
        names = [name for name, member in self.members.items() if member.is_member and name != last]
        names.sort(key=lambda name: self.members[name].place)
        id_names = {self.members[name].member_id: name for name in names}
        ordered = [id_names[member_id] for member_id in in_timeline_order(list(id_names), most_strings=self.group.most)]
        return ordered if last is None else [*ordered, last]

    def held_by_others(self, name: str, target: TopicPartitions) -> TopicPartitions:
        """Return the partitions of ``target`` that other members own, or still have to give up."""
        blocked = {}
        for topic, partitions in subtract(target, self.members[name].current.assigned).items():
            owners = self.holders().get(topic, {})
            if taken := [p for p in partitions if owners.get(p, name) != name]:
                blocked[topic] = taken
        return blocked

    def holders(self) -> dict[str, dict[int, str]]:
        """Return the holder of each partition: its owner, or a member that still has to give it up."""
        if self._holders is None:
            self._holders = {}
            for name, member in self.members.items():
                if member.is_member:
                    self.update_holders(name, None, member.current)
        return self._holders

    def update_holders(self, name: str, before: CurrentAssignment | None, after: CurrentAssignment) -> None:
        """Update the holders of partitions after the current assignment of member ``name`` has changed."""
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

    def add_reason(self, kind: str, names: Iterable[str] = ()) -> None:
        """Add a reason for the next round and bump the group epoch; the new epoch includes changed metadata."""
        epoch = self.group.group_epoch + 1
        reasons = (*self.group.reasons, (epoch, Reason(kind, tuple(names))))
        self.set_fields(reasons=reasons, group_epoch=epoch, outdated=False)

    def heartbeat(self, member: ConsumerMember) -> tuple[str, int]:
        """Return the name of the member's heartbeat request, and the interval (ms) of its heartbeats."""
        if member.is_classic:
            return "Heartbeat", self.timing.heartbeat_ms
        return HEARTBEAT, self.timing.consumer_heartbeat_ms

    def send_heartbeats(self, names: Collection[str], ways: int = 1) -> None:
        """Let members send a full heartbeat, which arrives after ``ways`` times the network's delay."""
        self.later(Heartbeat(self.network(ways), self.calls(names), is_full=True))

    # Rounds.

    def settle(self) -> None:
        """Output each rebalance round that all affected members have received.

        A target has up to two rounds: members give up moving partitions in the first one and get them in the second
        one.
        """
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
                self.set_fields(first=None)
                return
            self.set_fields(second=True)
        if stable:
            self.announce(targets)
            self.set_fields(first=None, second=False)

    def announce(self, after: Mapping[str, TopicPartitions]) -> None:
        """Output a rebalance round with the reasons for which its epoch was raised."""
        number = self.group.target_epoch if after else self.group.group_epoch
        pending = self.group.reasons
        reasons = [reason for epoch, reason in pending if epoch <= number]
        reason = vocabulary.common_reason(reasons, self.group.reason)
        members = self.group_members()
        after = {name: share for name, share in after.items() if name in members}
        self.set_fields(reasons=tuple(bump for bump in pending if bump[0] > number), reason=reason, held=after)
        self.out.append(vocabulary.NewRound(number, bool(reasons), reason, after))

    # Process lifecycle.

    def send_first_requests(self, names: Collection[str]) -> None:
        """Send the first heartbeat of these members, with epoch 0."""
        self.send_heartbeats(names, 3)

    def renamed(self, before: str, after: str) -> None:
        """Rename a member in the group's state, including the targets and the last round."""
        targets, held = dict(self.group.targets), dict(self.group.held)
        for shares in (targets, held):
            if before in shares:
                shares[after] = shares.pop(before)
        self.set_fields(targets=targets, held=held)

    def interrupted(self, member: ConsumerMember) -> dict[str, Any]:
        """Return the fields of a member that change when its heartbeat request is lost."""
        return {**super().interrupted(member), "due": False}

    def watch(self, names: Collection[str]) -> None:
        """Schedule each member's session timeout or, while it must revoke, the rebalance timeout if that is earlier."""
        for name in names:
            member = self.members[name]
            if not member.is_member:
                continue
            end = self.last_contact(member) + self.timing.session_timeout_ms
            if member.current.state is Reconciliation.UNREVOKED:
                end = min(end, member.unrevoked_at + self.timing.rebalance_timeout_ms)
            self.later(Expired(max(end, self.at), self.calls([name])))

    def resume_member(self, name: str) -> None:
        """Resume a frozen member: it sends a heartbeat if its session is alive, else it rejoins with epoch 0."""
        member = self.members[name]
        call = member.call + 1
        if member.is_member:
            self.update(name, stage=Stage.STABLE, call=call, beat_from=self.at)
            self.consume({name: member.owned})
            self.send_heartbeats([name])
        else:
            self.send(HEARTBEAT)  # The member's heartbeat is answered with UNKNOWN_MEMBER_ID.
            # The member keeps its id, which its process generated.
            self.update(name, stage=Stage.STARTING, call=call, owned=NOTHING)
            self.send_first_requests([name])

    def resubscribed(self, names: Collection[str]) -> None:
        """Let members send a heartbeat with the new subscription at once."""
        for name in names:
            member = self.members[name]
            if member.is_member and member.stage is Stage.STABLE:
                self.quiet([name])
                self.update(name, beat_from=self.at)
                self.send_heartbeats([name])

    def away(self, name: str) -> None:
        """Handle the stop of a static member (epoch −2), which keeps its assignment until its session expires."""
        assigned = normalize(self.members[name].current.assigned)
        self.update(name, current=CurrentAssignment(Reconciliation.STABLE, AWAY_EPOCH, assigned), contact_at=self.at)
        self.watch([name])
