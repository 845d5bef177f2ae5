"""Base classes of the protocols' state machines (``StateMachine``), and of a group's state during one event (``Step``).

There are two transition tables: one by the :class:`~streaming.protocols.vocabulary.Stage` of a process, and one by the
phase of the group. Events about processes are looked up by each process's stage, all other events by the phase.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Generic

from msgspec import structs

from assignors import registry
from assignors.model import Member as AssignorMember
from assignors.model import Topic, TopicPartitions
from streaming.protocols import vocabulary
from streaming.protocols.vocabulary import GONE_STAGES, LIVE, Handler, M, S, Stage, Table, look_up_transition, rows


class Step(ABC, Generic[S, M]):
    """State of a group while one event is applied to it, and the outputs of this event so far."""

    def __init__(self, group: S, at: int, setup: vocabulary.Setup) -> None:
        self.at = at
        self.setup = setup
        self.timing = setup.timing
        #: The group with the changes so far; its members are in ``members``.
        self.group = group
        self.members: dict[str, M] = dict(group.members)
        self.out: list[vocabulary.MachineOutput] = []

    def set_fields(self, **changes: Any) -> None:
        """Replace fields of the group's state, which is immutable."""
        self.group = structs.replace(self.group, **changes)

    def update(self, name: str, **changes: Any) -> M:
        """Set these fields of a member's state, and return the member."""
        member = structs.replace(self.members[name], **changes)
        self.members[name] = member
        return member

    def done(self) -> tuple[S, tuple[vocabulary.MachineOutput, ...]]:
        """Return the group's state after the event of this step, and the outputs."""
        return structs.replace(self.group, members=self.members), tuple(self.out)

    def group_members(self) -> dict[str, M]:
        """Return those simulated processes that are members of the group, by name."""
        return {name: member for name, member in self.members.items() if member.is_member}

    def send(self, kind: str, times: int = 1) -> None:
        """Output the number of requests or notifications of one kind that were sent."""
        if times:
            self.out.append(vocabulary.RequestCount(kind, times))

    def later(self, event: vocabulary.GroupEvent) -> None:
        """Schedule an event for the time that the event contains."""
        self.out.append(vocabulary.EventScheduled(event))

    def network(self, times: int = 1) -> int:
        """Return the arrival time of a message that is sent now and crosses the network ``times`` times."""
        return self.at + times * self.timing.network_ms

    def calls(self, names: Iterable[str]) -> vocabulary.NumberedMembers:
        """Return each of these members with the number of its current request."""
        members = self.members
        return tuple([(name, members[name].call) for name in names])

    def waiting(self, event: vocabulary.MemberCalls, stages: Collection[Stage]) -> list[str]:
        """Return the members of an event whose processes are in one of these stages and sent no later request."""
        members = self.members
        return [
            name
            for name, call in event.calls
            if (member := members.get(name)) is not None and member.call == call and member.stage in stages
        ]

    def consume(self, shares: Mapping[str, TopicPartitions]) -> None:
        """Let the simulated members consume these partitions from now on."""
        if shares:
            self.out.append(vocabulary.OwnedNow(shares))

    def schedule_each(self, event: type[vocabulary.MemberCalls], times: Mapping[str, int], *more: Any) -> None:
        """Schedule an event for each member at its time; members with the same time share one event."""
        due: dict[int, list[str]] = {}
        for name, at in times.items():
            due.setdefault(at, []).append(name)
        for at, names in due.items():
            self.later(event(at, self.calls(names), *more))

    def subscriptions(self) -> None:
        """Output the topics to which live members subscribe, if they differ from the last output."""
        subscribed = self.subscribed([member for member in self.members.values() if member.stage in LIVE])
        if subscribed != self.group.subscribed:
            self.set_fields(subscribed=subscribed)
            self.out.append(vocabulary.SubscribedTopics(subscribed))

    def subscribed(self, live: Collection[M]) -> frozenset[str]:
        """Return the topics to which these members subscribe."""
        return frozenset(topic for member in live for topic in member.client.topics)

    # Steps that differ by protocol when a process starts, ends or stops sending.

    #: The type of the group's members.
    member: type[M]
    #: Names of the requests by which a process finds its group's coordinator and leaves, and the events of the requests
    #: by which it joins and leaves.
    first_request = "FindCoordinator"
    leave_request: str
    join_event: type[vocabulary.MemberCalls]
    leave_event: type[vocabulary.MemberCalls]
    #: True if a static member announces a temporary shutdown.
    returns_with_join = False

    def incarnation(self, name: str) -> int:
        """Count and return how many times a process has begun to join, including this time."""
        number = self.group.incarnations.get(name, 0) + 1
        self.set_fields(incarnations={**self.group.incarnations, name: number})
        return number

    def unused_member_id(self, name: str, incarnation: int, taken: Container[str]) -> str:
        """Return an unused id for a member; its usual id may be in ``taken`` as that of a crashed process."""
        member_id = self.setup.member_id(name, incarnation)
        return vocabulary.ghost_name(member_id, incarnation) if member_id in taken else member_id

    def shares(self, protocol: str, assignor: str, members: Mapping[str, AssignorMember]) -> dict[str, TopicPartitions]:
        """Return the partitions of each member, by name, that the assignor of :mod:`assignors.registry` assigns."""
        names = {member.member_id: name for name, member in members.items()}
        assignment = registry.find(protocol, assignor).assign(self.group.topics, list(members.values()))
        return {names[member_id]: share for member_id, share in assignment.items()}

    def send_first_requests(self, names: Collection[str]) -> None:
        """Send join requests of processes that have started and found their coordinator."""
        self.later(self.join_event(self.network(3), self.calls(names)))

    def send_leave_requests(self, names: Collection[str]) -> None:
        """Send the leave requests of these members."""
        if names:
            self.later(self.leave_event(self.network(), self.calls(names)))

    def static(self, member: M) -> bool:
        """True if the group keeps the member's place while it is shut down (``group.instance.id``, KIP-345)."""
        return member.client.instance_id is not None

    def heartbeat(self, member: M) -> tuple[str, int]:
        """Return the name of a member's heartbeat request, and its interval (ms)."""
        del member
        return "Heartbeat", self.timing.heartbeat_ms

    def quiet(self, names: Collection[str]) -> None:
        """Output the number of heartbeats that these members have sent until now."""
        members = self.members
        since = Counter([(members[name].beat_from, *self.heartbeat(members[name])) for name in names])
        sent: Counter[str] = Counter()
        for (begun, kind, interval_ms), batch in since.items():
            sent[kind] += vocabulary.count_heartbeats(begun, self.at, interval_ms) * batch
        for kind in sorted(sent):
            self.send(kind, sent[kind])

    def last_contact(self, member: M) -> int:
        """Return the arrival time of a member's last request; times of heartbeats are computed from their interval."""
        if member.beat_from is None:
            return member.contact_at
        return max(member.contact_at, vocabulary.last_heartbeat(member.beat_from, self.at, self.heartbeat(member)[1]))

    def interrupted(self, member: M) -> dict[str, Any]:
        """Return the fields of a member that change when its process ends or freezes and its session runs out."""
        return {"beat_from": None, "contact_at": self.last_contact(member)}

    def settle(self) -> None:
        """Output the rebalance round if it is complete without the members that no longer send requests."""

    @abstractmethod
    def renamed(self, before: str, after: str) -> None:
        """Rename a member everywhere in the simulated group's state."""

    @abstractmethod
    def watch(self, names: Collection[str]) -> None:
        """Schedule the end of the sessions of these members, which no longer send requests."""

    @abstractmethod
    def resume_member(self, name: str) -> None:
        """Resume a frozen process of the simulation."""

    @abstractmethod
    def resubscribed(self, names: Collection[str]) -> None:
        """Update the group after these members have changed their subscriptions."""


AnyStep = Step[Any, Any]


def _start(step: AnyStep, event: vocabulary.Start) -> None:
    """Start processes, which find their coordinator and then join after all earlier members.

    If a process ran before, the group may still have its earlier incarnation as a member, under the old member id.
    That earlier incarnation remains in the group as a ghost until its session ends.
    """
    names = [client.name for client in event.clients]
    for client in event.clients:
        name = client.name
        before = step.members.pop(name, None)
        incarnation = step.incarnation(name)
        if before is not None and before.counted:
            former_id = vocabulary.ghost_name(name, before.incarnation)
            step.members[former_id] = before
            step.renamed(name, former_id)
            if before.is_member:
                step.out.append(vocabulary.Handover(name, former_id))
            if before.stage is Stage.LEAVING:
                step.send_leave_requests([former_id])
            else:
                step.watch([former_id])
        call = 0 if before is None else before.call + 1
        step.members[name] = step.member(client, call=call, incarnation=incarnation)
    step.send(step.first_request, len(names))
    step.send_first_requests(names)
    step.subscriptions()


def _stop(step: AnyStep, event: vocabulary.ShutDown) -> None:
    """Shut processes down temporarily: static members keep their places in the group, all other members leave."""
    static = [name for name in event.names if step.static(step.members[name])]
    _end_processes(step, [name for name in event.names if name not in static], Stage.LEAVING, is_announced=True)
    _end_processes(step, static, Stage.AWAY, is_announced=step.returns_with_join)


def _thaw_processes(step: AnyStep, event: vocabulary.Thaw) -> None:
    """Resume frozen processes: those with a live session continue, others have lost all partitions and rejoin."""
    for name in event.names:
        step.resume_member(name)
    step.subscriptions()


def _subscribe(step: AnyStep, event: vocabulary.Subscribe) -> None:
    for name in event.names:
        step.update(name, client=replace(step.members[name].client, topics=event.topics))
    step.resubscribed(event.names)
    step.subscriptions()


def _end_processes(step: AnyStep, names: Collection[str], stage: Stage, *, is_announced: bool = False) -> None:
    """End processes: each member sends a leave request, or its session expires if the end is not announced."""
    step.quiet(names)
    step.consume(dict.fromkeys(names, vocabulary.NOTHING))
    counted = []
    for name in names:
        member = step.members[name]
        if stage is not Stage.FROZEN and not member.counted:
            del step.members[name]
            continue
        owned = member.owned if stage is Stage.FROZEN else vocabulary.NOTHING
        step.update(name, stage=stage, call=member.call + 1, owned=owned, **step.interrupted(member))
        counted.append(name)
    if not is_announced:
        step.watch(counted)
        step.settle()
    elif counted:
        step.send(step.leave_request, len(counted))
        step.send_leave_requests(counted)
    step.subscriptions()


def _ends(stage: Stage, *, is_announced: bool = False) -> Handler:
    """Return the handler of an event that ends processes; ``stage``: the state of these processes afterwards."""
    return lambda step, event: _end_processes(step, event.names, stage, is_announced=is_announced)


#: Transitions of processes by stage. ``Start`` is also defined for an unknown process.
PROCESS_TRANSITIONS: Table = {
    **rows(GONE_STAGES, vocabulary.Start, _start, (Stage.STARTING,)),
    **rows(LIVE, vocabulary.Leave, _ends(Stage.LEAVING, is_announced=True), (Stage.LEAVING,)),
    **rows(LIVE, vocabulary.ShutDown, _stop, (Stage.LEAVING, Stage.AWAY), "static: away"),
    **rows((*LIVE, Stage.FROZEN), vocabulary.Crash, _ends(Stage.CRASHED), (Stage.CRASHED,)),
    **rows(LIVE, vocabulary.Freeze, _ends(Stage.FROZEN), (Stage.FROZEN,)),
    **rows((Stage.FROZEN,), vocabulary.Thaw, _thaw_processes, (Stage.STABLE, Stage.JOINING, Stage.STARTING)),
    **rows((Stage.STABLE,), vocabulary.Subscribe, _subscribe, (Stage.JOINING, Stage.STABLE)),
    **rows((Stage.STARTING, Stage.JOINING, Stage.SYNCING), vocabulary.Subscribe, _subscribe),
}
#: Handlers of events that are handled in the same way in every stage.
PROCESS_HANDLERS = {event: row.handler for (_, event), row in PROCESS_TRANSITIONS.items()}


class StateMachine(ABC, Generic[S, M]):
    """State machine of a rebalance protocol: applies events to a group, and outputs rounds and requests."""

    #: Type of the group's state.
    group: type[S]

    def __init__(self, name: str, setup: vocabulary.Setup, table: Table) -> None:
        self.name = name
        self.setup = setup
        #: The group's transitions by its phase.
        self.table = table

    def initial(self, topics: Mapping[str, Topic]) -> S:
        """Return the initial state of a group, which has no members."""
        return self.group(topics=topics)

    def resume(self, topics: Mapping[str, Topic], held: Sequence[vocabulary.Owner], number: int) -> S:
        """Return a stable group at 0 ms whose members own ``held``; ``number``: its generation or epoch."""
        del topics, held, number
        raise vocabulary.UnsupportedPair(f"members: {self.name} can't start with members that own partitions")

    def state_at_rest(self, held: Sequence[vocabulary.Owner]) -> dict[str, dict[str, Any]]:
        """Return each member's state fields in a stable group, by member name."""
        return {
            client.name: {
                "client": client,
                "owned": share,
                "subscription": client.topics,
                "place": place,
                "beat_from": 0,
                "stage": Stage.STABLE,
                "incarnation": 1,
                "is_member": True,
                "member_id": self.setup.member_id(client.name, 1),
            }
            for place, (client, share, _) in enumerate(held, 1)
        }

    def group_at_rest(self, members: Mapping[str, M], topics: Mapping[str, Topic], **fields: Any) -> S:
        """Return a stable group that consists of these members."""
        fields |= {"subscribed": frozenset(topic for member in members.values() for topic in member.subscription)}
        fields |= {"incarnations": dict.fromkeys(members, 1), "places": len(members), "most": len(members)}
        return self.group(members=members, topics=topics, **fields)

    @abstractmethod
    def phase_of(self, group: S) -> StrEnum:
        """Return the phase of the group, such as stable or rebalancing."""

    @abstractmethod
    def step(self, group: S, at: int) -> Step[S, M]:
        """Return a new step, in which one event is applied to the group at the time ``at`` (ms)."""

    def apply(self, group: S, event: vocabulary.GroupEvent) -> tuple[S, tuple[vocabulary.MachineOutput, ...]]:
        """Return the group after ``event``, and the outputs of applying it.

        Raises:
            UndefinedTransition: the protocol defines nothing for this event in this state; nothing changed.
            InconsistentGroupProtocol: the members have no assignor in common.
            InvalidGroup: an assignor refuses the group.
            AssertionError: the event led to a phase that the table of transitions forbids: table or handler is wrong.
        """
        if isinstance(event, (vocabulary.MemberEvent, vocabulary.Start)):
            return self._process(group, event)
        phase = self.phase_of(group)
        handler, allowed, _ = look_up_transition(self.table, self.name, phase, event)
        step = self.step(group, event.at)
        handler(step, event)
        after, outputs = step.done()
        if self.phase_of(after) not in allowed:
            raise AssertionError(f"{self.name}: {event}: phase {phase} must not become {self.phase_of(after)}")
        return after, outputs

    def _process(
        self, group: S, event: vocabulary.MemberEvent | vocabulary.Start
    ) -> tuple[S, tuple[vocabulary.MachineOutput, ...]]:
        """Apply an event about processes; raise UndefinedTransition if a process's state does not allow the event."""
        names = event.names if isinstance(event, vocabulary.MemberEvent) else [client.name for client in event.clients]
        allowed = {}
        for name in names:
            member = group.members.get(name)
            if member is not None:
                allowed[name] = look_up_transition(PROCESS_TRANSITIONS, f"{self.name}: {name}", member.stage, event).to
            elif not isinstance(event, vocabulary.Start):
                where = f"{self.name}: {type(event).__name__} at {event.at} ms"
                raise vocabulary.UndefinedTransition(f"{where}: no member {name!r}")
        step = self.step(group, event.at)
        PROCESS_HANDLERS[type(event)](step, event)
        for name, stages in allowed.items():
            member = step.members.get(name)
            if member is not None and member.stage not in stages:
                raise AssertionError(f"{self.name}: {event}: member {name} must not be {member.stage}")
        return step.done()

    def owned(self, group: S) -> dict[str, TopicPartitions]:
        """Return the partitions that each process consumes now."""
        live = {name: member for name, member in group.members.items() if member.stage is not Stage.FROZEN}
        return {name: member.owned for name, member in live.items() if member.owned}

    def heartbeats(self, group: S, until: int) -> list[vocabulary.RequestCount]:
        """Return the heartbeats that members sent up to ``until`` since the last event, as counts of requests."""
        step = self.step(group, until)
        step.quiet(step.members)
        return [output for output in step.out if isinstance(output, vocabulary.RequestCount)]
