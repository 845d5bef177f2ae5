"""Types of the JoinGroup protocols: group, members, events, and the application of one event.

The coordinator follows ``ClassicGroup``, ``ClassicGroupMember`` and ``GroupMetadataManager`` of Kafka 4.3.1; members
follow ``AbstractCoordinator`` and ``ConsumerCoordinator``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import structs

from assignors.java import in_hash_order
from assignors.java_hash_table import DEFAULT_CAPACITY
from assignors.model import Topic, TopicPartitions
from streaming.protocols import vocabulary
from streaming.protocols.machine import Step
from streaming.protocols.vocabulary import NOTHING, MemberCalls, Reason, Setup, Stage


class ClassicPhase(StrEnum):
    """Phase of a classic group at its coordinator (``ClassicGroupState``)."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class ClassicMember(vocabulary.MachineMember, frozen=True, gc=False):
    """Member of a classic group: the state of its process, and its state at the coordinator."""

    #: The generation in which the member got its partitions.
    generation: int = -1
    #: The member's last assignment, which ``sticky`` sends in its user data.
    last: TopicPartitions = NOTHING
    #: True if the process has received its member id and must rejoin with that id (MEMBER_ID_REQUIRED).
    pending: bool = False
    #: True if the process froze while its JoinGroup was in flight, so that it must send the request again.
    rejoins: bool = False
    #: True if the member's JoinGroup waits for an answer.
    joined: bool = False
    #: True if the member's SyncGroup waits for an answer.
    is_synced: bool = False
    #: Contents of the member's last JoinGroup except topics.
    assignors: tuple[str, ...] = ()
    claim: TopicPartitions = NOTHING
    claim_generation: int = -1
    #: The member's assignment as stored by the coordinator.
    assigned: TopicPartitions = NOTHING
    #: The last generation in which the member had an assignment.
    part: int = 0

    @property
    def counted(self) -> bool:
        """True if the coordinator lists the process as a member, or waits for it to rejoin with its member id."""
        return self.is_member or self.pending


class ClassicState(vocabulary.ProtocolState, frozen=True):
    """State of a classic group, which combines the states of its coordinator, its leader and its members."""

    members: Mapping[str, ClassicMember] = {}
    phase: ClassicPhase = ClassicPhase.EMPTY
    generation: int = 0
    #: Name of the leader, and the assignor, while the group is not empty.
    leader: str = ""
    assignor: str = ""
    #: The topics from which the last assignment was computed.
    topics_at_assignment: Mapping[str, Topic] = {}
    #: The topics in the leader's metadata when the leader computed the assignment, None once metadata were refreshed;
    #: and the name, incarnation and subscription of that leader.
    snapshot: frozenset[str] | None = None
    snapshot_key: tuple[str, int, tuple[str, ...]] = ("", 0, ())
    #: True during the initial delay of a new group; the remaining delay; True if a member joined during the delay.
    initial: bool = False
    remaining_ms: int = 0
    newcomer: bool = False
    #: Reasons of the current rebalance.
    reasons: tuple[Reason, ...] = ()
    #: The last generation whose assignment the members have received.
    announced: int = 0
    #: The leader's memory between rounds (Connect).
    memory: Any = None


# Events that machines schedule for themselves.


class JoinGroup(MemberCalls, frozen=True):
    """Event: JoinGroup requests arrive at the coordinator."""


class SyncGroup(MemberCalls, frozen=True):
    """SyncGroup requests arrive at the coordinator; the leader's request has the whole assignment."""


class LeaveGroup(MemberCalls, frozen=True):
    """Event: LeaveGroup requests arrive at the coordinator."""


class RebalanceInProgress(MemberCalls, frozen=True):
    """Event: members receive REBALANCE_IN_PROGRESS in a response, or decide by themselves to rejoin."""


class Assigned(MemberCalls, frozen=True):
    """Event: members receive their assigned partitions."""

    generation: int


class SessionExpired(MemberCalls, frozen=True):
    """Event: members sent no request during the session timeout."""


class RebalanceTimer(vocabulary.GroupEvent, frozen=True):
    """A timer of one rebalance, ignored once the next rebalance has begun."""

    attempt: int


class InitialDelayOver(RebalanceTimer, frozen=True):
    """Event: ``group.initial.rebalance.delay.ms`` has passed."""


class JoinTimeout(RebalanceTimer, frozen=True):
    """Event at the coordinator: the rebalance timeout has passed since the rebalance began."""


class SyncTimeout(RebalanceTimer, frozen=True):
    """Event at the coordinator: the rebalance timeout has passed since the join phase ended."""


class MetadataSeen(vocabulary.GroupEvent, frozen=True):
    """The leader has refreshed its metadata, which now have the current topics."""


class DelayPassed(vocabulary.GroupEvent, frozen=True):
    """Event: the scheduled rebalance of a Connect group is due."""

    generation: int


class Rules:
    """Rules of the eager protocol: members do not consume between JoinGroup and the answer to SyncGroup."""

    #: True if the coordinator computes the assignment and answers JoinGroup with it, without SyncGroup.
    coordinator_assigns = False
    #: True if the protocol supports ``group.instance.id``.
    static = True
    #: True if a new dynamic member must first request its member id (JoinGroup v4).
    member_id_required = True
    #: True if members subscribe to topics; False for Connect, whose workers share all connectors.
    subscribes = True

    def __init__(self, setup: Setup) -> None:
        self.default = (setup.assignor,)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """Return the assignors in a member's JoinGroup: those that its client lists, or else the group's default."""
        return member.client.assignors or self.default

    def kept_partitions(self, member: ClassicMember) -> TopicPartitions:
        """Return the partitions that a member continues to consume while it joins."""
        del member
        return NOTHING

    def assign(self, step: "ClassicStep", order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """Return each member's assignment; ``order``: the members' names in the order of the JoinGroup response."""
        step.update_snapshot()
        return step.client_side_shares(order)

    def rejoins(self, step: "ClassicStep", member: ClassicMember, share: TopicPartitions) -> bool:
        """True if a member that received its assignment ``share`` first revokes partitions and then rejoins."""
        del step, member, share
        return False


class ClassicStep(Step[ClassicState, ClassicMember]):
    """State of a group of a JoinGroup protocol while one event is applied, and the outputs so far."""

    member = ClassicMember
    leave_request = "LeaveGroup"
    join_event = JoinGroup
    leave_event = LeaveGroup

    def __init__(self, group: ClassicState, at: int, setup: Setup, rules: Rules) -> None:
        super().__init__(group, at, setup)
        self.rules = rules

    def order(self, members: Mapping[str, ClassicMember]) -> list[str]:
        """Return the names of members in the iteration order of the broker's HashMap of members."""
        return in_hash_table_order(members, self.group.most)

    def add_to_coordinator(self, names: Sequence[str]) -> None:
        """Add these members to the coordinator's members."""
        for place, name in enumerate(names, self.group.places + 1):
            self.update(name, is_member=True, place=place)
        member_count = sum(member.is_member for member in self.members.values())
        self.set_fields(places=self.group.places + len(names), most=max(self.group.most, member_count))

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics to which members subscribe in their last JoinGroup."""
        return frozenset(topic for member in self.members.values() if member.is_member for topic in member.subscription)

    def leader_is_gone(self) -> bool:
        """True if the group's leader is no longer a known member."""
        leader = self.members.get(self.group.leader)
        return leader is None or not leader.is_member

    def add_reason(self, kind: str, names: Iterable[str] = ()) -> None:
        """Add a reason for the group's next rebalance, with the members that caused it."""
        self.set_fields(reasons=(*self.group.reasons, Reason(kind, tuple(names))))

    def subscribed(self, live: Collection[ClassicMember]) -> frozenset[str]:
        """Return the topics to which these live members subscribe; for Connect's workers, return all connectors."""
        return super().subscribed(live) if self.rules.subscribes or not live else frozenset(self.group.topics)

    def reply(self, names: Collection[str]) -> None:
        """Schedule the arrival of the responses with which members receive their assignments."""
        if names:
            self.later(Assigned(self.network(), self.calls(names), self.group.generation))

    def join(self, names: Iterable[str]) -> None:
        """Let members send JoinGroup; they stop heartbeats and, as far as their protocol requires, consumption."""
        names = list(names)
        self.quiet(names)
        stopped: dict[str, TopicPartitions] = {}
        members, kept_partitions = self.members, self.rules.kept_partitions
        for name in names:
            member = members[name]
            keep = kept_partitions(member)
            if keep is not member.owned:
                stopped[name] = keep
            members[name] = structs.replace(
                member,
                stage=Stage.JOINING,
                call=member.call + 1,
                beat_from=None,
                contact_at=self.last_contact(member),
                owned=keep,
                is_synced=False,
            )
        self.consume(stopped)
        if names:
            self.later(JoinGroup(self.network(), self.calls(names)))

    def restart_join(self, name: str) -> None:
        """Let a process that the coordinator has removed join as if it had just started."""
        member = self.members[name] = without_membership(self.members[name])
        times = self.incarnation(name)
        self.update(name, stage=Stage.STARTING, call=member.call + 1, beat_from=None, generation=-1, incarnation=times)

    def client_side_shares(self, order: Sequence[str]) -> dict[str, TopicPartitions]:
        """Return the assignment by member name that the assignor computes from the contents of JoinGroup requests."""
        # Every Subscription (v1+) contains owned partitions; ``sticky`` reads its own user data instead.
        assignor = self.group.assignor
        members = {}
        for name in order:
            member = self.members[name]
            owned = member.last if assignor == "sticky" else member.claim
            members[name] = member.as_assignor_input(owned, member.claim_generation, is_static=self.rules.static)
        return self.shares("classic", assignor, members)

    def update_snapshot(self) -> None:
        """Set the topics from which the leader computes the assignment: those in the leader's metadata.

        A leader requests fresh metadata only if the group subscribes to more topics than the leader does, or if the
        leader's own subscription changed (``ConsumerCoordinator.updateGroupSubscription``). Otherwise the metadata
        still contain topics without subscribers. The next refresh removes these topics, which the leader treats as a
        change of metadata, and rejoins.
        """
        leader = self.members[self.group.leader]
        leadership = (leader.client.name, leader.incarnation, leader.subscription)
        topics, stale = self.subscribed_topics(), self.group.snapshot
        fresh = stale is None or leadership != self.group.snapshot_key or not topics.issubset(leader.subscription)
        self.set_fields(snapshot=topics if fresh else stale, snapshot_key=leadership)

    # Process lifecycle.

    def renamed(self, before: str, after: str) -> None:
        """Rename a member in the group's state; the leader's name is updated, too."""
        if self.group.leader == before:
            self.set_fields(leader=after)

    def static(self, member: ClassicMember) -> bool:
        """True if the member has a ``group.instance.id`` and the protocol supports that."""
        return self.rules.static and super().static(member)

    def interrupted(self, member: ClassicMember) -> dict[str, Any]:
        """Return the fields of a member that change when its requests are lost."""
        return {**super().interrupted(member), "rejoins": member.stage is Stage.JOINING}

    def watch(self, names: Collection[str]) -> None:
        """Schedule the end of members' sessions, one session timeout after each member's last request.

        A member whose JoinGroup waits for an answer has no running session; its session begins when the join phase
        ends.
        """
        expiries = {}
        for name in names:
            member = self.members[name]
            if (member.is_member and not member.joined) or member.pending:
                expiries[name] = max(self.last_contact(member) + self.timing.session_timeout_ms, self.at)
        self.schedule_each(SessionExpired, expiries)

    def resume_member(self, name: str) -> None:
        """Resume a frozen member: it continues if its session is alive, else it has lost its partitions and rejoins."""
        member = self.members[name]
        if not member.is_member:
            self.send("Heartbeat" if member.generation >= 0 else self.first_request)
            self.restart_join(name)
            self.send_first_requests([name])
            return
        self.update(name, call=member.call + 1)
        if member.joined:
            self.update(name, stage=Stage.JOINING)
        elif (
            self.group.phase is ClassicPhase.STABLE
            and member.generation == self.group.generation
            and not member.rejoins
        ):
            self.update(name, stage=Stage.STABLE, beat_from=self.at, contact_at=self.at)
            self.consume({name: member.owned})
            self.later(MetadataSeen(self.network()))  # The member missed changes while it was frozen.
        else:
            self.join([name])

    def resubscribed(self, names: Collection[str]) -> None:
        """Let members rejoin with their new topics, at once or after the current rebalance."""
        if self.rules.subscribes:
            stable = {name: self.members[name] for name in names if self.members[name].stage is Stage.STABLE}
            self.join(name for name, member in stable.items() if member.subscription != member.client.topics)


def in_hash_table_order(members: Mapping[str, ClassicMember], most: int) -> list[str]:
    """Return members' names in the iteration order of a HashMap by member id that has held up to ``most`` members."""
    names = sorted(members, key=lambda name: members[name].place)
    name_by_id = {members[name].member_id: name for name in names}
    capacity = DEFAULT_CAPACITY
    while most * 4 > capacity * 3:
        capacity *= 2
    return [name_by_id[member_id] for member_id in in_hash_order(list(name_by_id), capacity=capacity)]


def without_membership(member: ClassicMember) -> ClassicMember:
    """Return the member without its membership and partitions, as after its removal by the coordinator."""
    gone = structs.replace(member, is_member=False, pending=False, joined=False, is_synced=False, member_id="")
    return structs.replace(gone, assigned=NOTHING, claim=NOTHING, owned=NOTHING)
