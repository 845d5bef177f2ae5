"""A machine: ``apply`` is pure, and all else reads a group. A step is a group while one event is applied.

Two tables: what a process may do by its :class:`~streaming.protocols.group.Stage`, and what the group does by its
phase. Events about processes are looked up for each of them; all others by the phase.
"""

from __future__ import annotations

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
from streaming.protocols.group import GONE, LIVE, M, S, Stage, Table, look_up, rows


class Step(ABC, Generic[S, M]):
    """A group while one event is applied, and the outputs so far."""

    def __init__(self, group: S, at: int, setup: vocabulary.Setup) -> None:
        self.at = at
        self.setup = setup
        self.timing = setup.timing
        #: The group as changed so far, but for its members.
        self.group = group
        self.members: dict[str, M] = dict(group.members)
        self.out: list[vocabulary.MachineOutput] = []

    def set(self, **changes: Any) -> None:
        """Change fields of the group."""
        self.group = structs.replace(self.group, **changes)

    def update(self, name: str, **changes: Any) -> M:
        """Change a member."""
        member = structs.replace(self.members[name], **changes)
        self.members[name] = member
        return member

    def done(self) -> tuple[S, tuple[vocabulary.MachineOutput, ...]]:
        """The new group, and what the step answers."""
        return structs.replace(self.group, members=self.members), tuple(self.out)

    def group_members(self) -> dict[str, M]:
        """The members that the group counts in."""
        return {name: member for name, member in self.members.items() if member.is_member}

    def send(self, kind: str, times: int = 1) -> None:
        """Requests (or notifications) went over the wire."""
        if times:
            self.out.append(vocabulary.Sent(kind, times))

    def later(self, event: vocabulary.MachineEvent) -> None:
        """Schedule an event."""
        self.out.append(vocabulary.After(event))

    def network(self, times: int = 1) -> int:
        """When a message that leaves now arrives, after it crossed the network this many times."""
        return self.at + times * self.timing.network_ms

    def calls(self, names: Iterable[str]) -> vocabulary.Calls:
        """Return these members' current calls."""
        members = self.members
        return tuple([(name, members[name].call) for name in names])

    def waiting(self, event: vocabulary.MemberCalls, stages: Collection[Stage]) -> list[str]:
        """The members of ``event`` that still wait for this call, in one of these stages."""
        members = self.members
        return [
            name
            for name, call in event.calls
            if (member := members.get(name)) is not None and member.call == call and member.stage in stages
        ]

    def consume(self, shares: Mapping[str, TopicPartitions]) -> None:
        """These members consume these shares from now on."""
        if shares:
            self.out.append(vocabulary.Owns(shares))

    def later_each(self, event: type[vocabulary.MemberCalls], times: Mapping[str, int], *more: Any) -> None:
        """Schedule an event for each member at its time: one event for members whose times are the same."""
        due: dict[int, list[str]] = {}
        for name, at in times.items():
            due.setdefault(at, []).append(name)
        for at, names in due.items():
            self.later(event(at, self.calls(names), *more))

    def subscriptions(self) -> None:
        """Says what live members subscribe to when that has changed."""
        wanted = self.subscribed([member for member in self.members.values() if member.stage in LIVE])
        if wanted != self.group.wanted:
            self.set(wanted=wanted)
            self.out.append(vocabulary.SubscribedTopics(wanted))

    def subscribed(self, live: Collection[M]) -> frozenset[str]:
        """The topics that these live members subscribe to."""
        return frozenset(topic for member in live for topic in member.client.topics)

    # What protocols do in their own way when a process starts, ends or falls silent.

    #: The type of the group's members.
    member: type[M]
    #: The requests by which a process finds its group, becomes a member and leaves, and the events of the last two.
    hello = "FindCoordinator"
    farewell: str
    knocks: type[vocabulary.MemberCalls]
    parts: type[vocabulary.MemberCalls]
    #: A static member that shuts down to come back says so.
    says_back_soon = False

    def incarnation(self, name: str) -> int:
        """Return the number of times that a process has begun to join."""
        number = self.group.incarnations.get(name, 0) + 1
        self.set(incarnations={**self.group.incarnations, name: number})
        return number

    def own_id(self, name: str, incarnation: int, taken: Container[str]) -> str:
        """A member id that nobody else in the group has; a crashed process may still be counted under its own."""
        member_id = self.setup.member_id(name, incarnation)
        return vocabulary.ghost_name(member_id, incarnation) if member_id in taken else member_id

    def shares(self, protocol: str, assignor: str, members: Mapping[str, AssignorMember]) -> dict[str, TopicPartitions]:
        """Shares by name, from the registry's assignor; ``members`` by name."""
        names = {member.member_id: name for name, member in members.items()}
        answer = registry.find(protocol, assignor).assign(self.group.topics, list(members.values()))
        return {names[member_id]: share for member_id, share in answer.items()}

    def knock(self, names: Collection[str]) -> None:
        """Processes that have started, and have found their group, ask to become members."""
        self.later(self.knocks(self.network(3), self.calls(names)))

    def goodbye(self, names: Collection[str]) -> None:
        """The requests by which these members leave are on their way."""
        if names:
            self.later(self.parts(self.network(), self.calls(names)))

    def static(self, member: M) -> bool:
        """True if the member's place waits for it when it shuts down (``group.instance.id``, KIP-345)."""
        return member.client.instance_id is not None

    def heartbeat(self, member: M) -> tuple[str, int]:
        """The request that a member's heartbeat is, and how often it sends one (ms)."""
        del member
        return "Heartbeat", self.timing.heartbeat_ms

    def quiet(self, names: Collection[str]) -> None:
        """Counts the heartbeats that these members have sent until now."""
        members = self.members
        since = Counter([(members[name].beat_from, *self.heartbeat(members[name])) for name in names])
        sent: Counter[str] = Counter()
        for (begun, kind, every), many in since.items():
            sent[kind] += vocabulary.beats(begun, self.at, every) * many
        for kind in sorted(sent):
            self.send(kind, sent[kind])

    def last_contact(self, member: M) -> int:
        """Return when the last request of a member arrived, its counted heartbeats included."""
        if member.beat_from is None:
            return member.contact_at
        return max(member.contact_at, vocabulary.last_beat(member.beat_from, self.at, self.heartbeat(member)[1]))

    def interrupted(self, member: M) -> dict[str, Any]:
        """Fields of a member that change when its process ends or freezes: its session counts from its last request."""
        return {"beat_from": None, "contact_at": self.last_contact(member)}

    def settle(self) -> None:
        """Announces the round that is complete now that members have fallen silent, if there is one."""

    @abstractmethod
    def renamed(self, before: str, after: str) -> None:
        """Rename a member in all that the group stores."""

    @abstractmethod
    def watch(self, names: Collection[str]) -> None:
        """These members have fallen silent: their sessions run out."""

    @abstractmethod
    def thawed(self, name: str) -> None:
        """A frozen process goes on."""

    @abstractmethod
    def resubscribed(self, names: Collection[str]) -> None:
        """These members' subscriptions have changed."""


AnyStep = Step[Any, Any]


def _start(step: AnyStep, event: vocabulary.Start) -> None:
    """Processes find their group and ask to become members, last in the order of joining.

    Of one that ran before, the group may still count the member that it was, under its old member id: this
    remains as a ghost until its session ends.
    """
    names = [client.name for client in event.clients]
    for client in event.clients:
        name = client.name
        before = step.members.pop(name, None)
        incarnation = step.incarnation(name)
        if before is not None and before.counted:
            left = vocabulary.ghost_name(name, before.incarnation)
            step.members[left] = before
            step.renamed(name, left)
            if before.is_member:
                step.out.append(vocabulary.Handover(name, left))
            if before.stage is Stage.LEAVING:
                step.goodbye([left])
            else:
                step.watch([left])
        call = 0 if before is None else before.call + 1
        step.members[name] = step.member(client, call=call, incarnation=incarnation)
    step.send(step.hello, len(names))
    step.knock(names)
    step.subscriptions()


def _leave(step: AnyStep, event: vocabulary.Leave) -> None:
    _end(step, event.names, Stage.LEAVING, is_announced=True)


def _stop(step: AnyStep, event: vocabulary.Stop) -> None:
    """Processes shut down to come back: the places of static members wait for them, all others leave."""
    static = [name for name in event.names if step.static(step.members[name])]
    dynamic = [name for name in event.names if name not in static]
    _end(step, dynamic, Stage.LEAVING, is_announced=True)
    _end(step, static, Stage.AWAY, is_announced=step.says_back_soon)


def _crash(step: AnyStep, event: vocabulary.Crash) -> None:
    _end(step, event.names, Stage.CRASHED)


def _freeze(step: AnyStep, event: vocabulary.Freeze) -> None:
    _end(step, event.names, Stage.FROZEN)


def _thaw(step: AnyStep, event: vocabulary.Thaw) -> None:
    """Processes go on: in time, as if nothing had happened; too late, they have lost everything and join anew."""
    for name in event.names:
        step.thawed(name)
    step.subscriptions()


def _subscribe(step: AnyStep, event: vocabulary.Subscribe) -> None:
    for name in event.names:
        step.update(name, client=replace(step.members[name].client, topics=event.topics))
    step.resubscribed(event.names)
    step.subscriptions()


def _end(step: AnyStep, names: Collection[str], stage: Stage, *, is_announced: bool = False) -> None:
    """Members stop what they do. One that the group does not know just ends; the others say so, or are watched."""
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
        step.send(step.farewell, len(counted))
        step.goodbye(counted)
    step.subscriptions()


#: What a process may do in which stage. ``Start`` is also defined for one that is not there.
LIFE: Table = {
    **rows(GONE, vocabulary.Start, _start, (Stage.STARTING,)),
    **rows(LIVE, vocabulary.Leave, _leave, (Stage.LEAVING,)),
    **rows(LIVE, vocabulary.Stop, _stop, (Stage.LEAVING, Stage.AWAY), "static: away"),
    **rows((*LIVE, Stage.FROZEN), vocabulary.Crash, _crash, (Stage.CRASHED,)),
    **rows(LIVE, vocabulary.Freeze, _freeze, (Stage.FROZEN,)),
    **rows((Stage.FROZEN,), vocabulary.Thaw, _thaw, (Stage.STABLE, Stage.JOINING, Stage.STARTING)),
    **rows((Stage.STABLE,), vocabulary.Subscribe, _subscribe, (Stage.JOINING, Stage.STABLE)),
    **rows((Stage.STARTING, Stage.JOINING, Stage.SYNCING), vocabulary.Subscribe, _subscribe),
}

#: The handler of each of these events, whatever the stage.
HANDLERS = {event: row.handler for (_, event), row in LIFE.items()}


class Machine(ABC, Generic[S, M]):
    """One protocol."""

    #: The type of its groups.
    group: type[S]

    def __init__(self, name: str, setup: vocabulary.Setup, table: Table) -> None:
        self.name = name
        self.setup = setup
        #: The group's transitions by its phase.
        self.table = table

    def initial(self, topics: Mapping[str, Topic]) -> S:
        """A group that nobody has joined yet."""
        return self.group(topics=topics)

    def resume(self, topics: Mapping[str, Topic], held: Sequence[vocabulary.Held], number: int) -> S:
        """A group at rest at 0 ms: these members consume these shares since this generation, or epoch."""
        del topics, held, number
        raise vocabulary.ImpossiblePair(f"members: {self.name} can't begin with members that own something already")

    def at_rest(self, held: Sequence[vocabulary.Held]) -> dict[str, dict[str, Any]]:
        """Fields of members that have been in the group for a while, by name."""
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
            for place, (client, share) in enumerate(held, 1)
        }

    def group_at_rest(self, members: Mapping[str, M], topics: Mapping[str, Topic], **fields: Any) -> S:
        """The group of these members."""
        count, wanted = len(members), frozenset(topic for member in members.values() for topic in member.subscription)
        incarnations = dict.fromkeys(members, 1)
        return self.group(
            members=members, topics=topics, incarnations=incarnations, places=count, most=count, wanted=wanted, **fields
        )

    @abstractmethod
    def phase_of(self, group: S) -> StrEnum:
        """Return the phase of the group."""

    @abstractmethod
    def step(self, group: S, at: int) -> Step[S, M]:
        """A step that begins with this group."""

    def apply(self, group: S, event: vocabulary.MachineEvent) -> tuple[S, tuple[vocabulary.MachineOutput, ...]]:
        """The group after ``event``, and what follows from it.

        Raises:
            UndefinedTransition: the protocol defines nothing for this event in this state; nothing changed.
            InconsistentGroupProtocol: the members have no assignor in common.
            InvalidGroup: an assignor refuses the group.
            AssertionError: the step led where the table does not: the table or the handler is wrong.
        """
        if isinstance(event, (vocabulary.MemberEvent, vocabulary.Start)):
            return self._process(group, event)
        phase = self.phase_of(group)
        handler, allowed, _ = look_up(self.table, self.name, phase, event)
        step = self.step(group, event.at)
        handler(step, event)
        after, outputs = step.done()
        if self.phase_of(after) not in allowed:
            raise AssertionError(f"{self.name}: {event} led from {phase} to {self.phase_of(after)}")
        return after, outputs

    def _process(
        self, group: S, event: vocabulary.MemberEvent | vocabulary.Start
    ) -> tuple[S, tuple[vocabulary.MachineOutput, ...]]:
        """The same for processes. Each must be in a stage that defines the event; one may start unknown."""
        names = event.names if isinstance(event, vocabulary.MemberEvent) else [client.name for client in event.clients]
        allowed = {}
        for name in names:
            member = group.members.get(name)
            if member is not None:
                allowed[name] = look_up(LIFE, f"{self.name}: {name}", member.stage, event).to
            elif not isinstance(event, vocabulary.Start):
                raise vocabulary.UndefinedTransition(
                    f"{self.name}: {type(event).__name__} at {event.at} ms: no member {name!r}"
                )
        step = self.step(group, event.at)
        HANDLERS[type(event)](step, event)
        for name, stages in allowed.items():
            member = step.members.get(name)
            if member is not None and member.stage not in stages:
                raise AssertionError(f"{self.name}: {event} led {name} to {member.stage}")
        return step.done()

    @abstractmethod
    def stable(self, group: S) -> bool:
        """True if nothing is under way."""

    def owned(self, group: S) -> dict[str, TopicPartitions]:
        """Return the partitions that each process consumes now."""
        return {
            name: member.owned
            for name, member in group.members.items()
            if member.owned and member.stage is not Stage.FROZEN
        }

    def heartbeats(self, group: S, until: int) -> list[vocabulary.Sent]:
        """Heartbeats that members have sent until ``until``: those that no step has counted yet."""
        step = self.step(group, until)
        step.quiet(step.members)
        return [output for output in step.out if isinstance(output, vocabulary.Sent)]
