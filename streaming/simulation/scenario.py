"""Scenarios: types, the check that each event is possible, and the machines' events that they turn into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from msgspec import structs

from assignors.errors import BadInput
from assignors.model import Topic
from streaming.protocols.vocabulary import (
    Client,
    CoordinatorFails,
    Crash,
    Freeze,
    Held,
    Leave,
    MachineEvent,
    MemberEvent,
    Start,
    Stop,
    Subscribe,
    Thaw,
    TopicsChanged,
)

Kind = Literal["join", "bounce", "crash", "leave", "subscribe", "pause", "partitions", "coordinator_fails"]


class InvalidScenario(BadInput):
    """The scenario can't be played; the message names the event and the field."""


@dataclass(frozen=True, slots=True)
class ScenarioEvent:
    """One event of a scenario, ``number`` counted from 1; times in ms since the scenario's start."""

    number: int
    at: int
    kind: Kind
    member: str = ""
    topics: tuple[str, ...] | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    assignors: tuple[str, ...] = ()
    group_protocol: Literal["classic", "consumer"] | None = None
    down_ms: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"event {self.number} ({self.kind}{' ' if self.member else ''}{self.member})"


@dataclass(frozen=True, slots=True)
class InitialMember:
    """A member that is in the group from the start; ``member_id`` None: its name."""

    member: str
    topics: tuple[str, ...] | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    assignors: tuple[str, ...] = ()
    group_protocol: Literal["classic", "consumer"] | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    member_id: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """Topics and members at the start, timeouts of every member, and events in order of time.

    ``generation``: that of the members at the start, or their epoch. ``heartbeat_ms`` and ``processing_ms`` None:
    as the timing model has them.
    """

    topics: Mapping[str, Topic]
    events: tuple[ScenarioEvent, ...]
    members: tuple[InitialMember, ...] = ()
    generation: int = 1
    heartbeat_ms: int | None = None
    consumer_heartbeat_ms: int | None = None
    processing_ms: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_delay_ms: int = 300_000
    metadata_max_age_ms: int = 0


@dataclass(slots=True)
class _ProcessState:
    """State of a process: ``up``, ``left`` or ``crashed``, and until when it is down."""

    state: str
    since: int
    back: int = 0


def check_events(events: Sequence[ScenarioEvent], topics: Mapping[str, Topic], there: Iterable[str] = ()) -> None:
    """Check that every event is possible; members of ``there`` are in the group from the start."""
    processes = {name: _ProcessState("up", 0) for name in there}
    counts = {name: topic.partitions for name, topic in topics.items()}
    now = 0
    for event in events:
        if event.at < now:
            raise InvalidScenario(f"{event}: at: {event.at} is before {now} of the event above it; sort them by time")
        now = event.at
        if event.kind == "partitions":
            for name, count in event.partitions.items():
                if count < counts[name]:
                    raise InvalidScenario(
                        f"{event}: partitions.{name}: {count} is fewer than its {counts[name]}; "
                        "Kafka takes no partition away"
                    )
                counts[name] = count
        elif event.member:
            _check_member_event(event, processes)


def _check_member_event(event: ScenarioEvent, processes: dict[str, _ProcessState]) -> None:
    name, kind = event.member, event.kind
    life = processes.get(name)
    if kind == "join":
        if life is not None and life.state == "up":
            raise InvalidScenario(
                f"{event}: join: {name!r} is a member since {life.since} ms; let it leave or crash first"
            )
        processes[name] = _ProcessState("up", event.at)
        return
    if life is None:
        raise InvalidScenario(f"{event}: {kind}: {name!r} has not joined; a join with an earlier or equal at is needed")
    if kind == "subscribe" and life.state == "left":
        processes[name] = _ProcessState("up", event.at)  # as a consumer that unsubscribed and subscribes again
        return
    if life.state != "up":
        raise InvalidScenario(f"{event}: {kind}: {name!r} {life.state} at {life.since} ms; let it join again first")
    if event.at < life.back and kind not in ("crash", "leave", "subscribe"):
        raise InvalidScenario(f"{event}: {kind}: {name!r} is down until {life.back} ms")
    if kind in ("bounce", "pause"):
        life.back = event.at + event.down_ms
    elif kind in ("crash", "leave"):
        processes[name] = _ProcessState("crashed" if kind == "crash" else "left", event.at)


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event of the machines, and the event of the scenario behind it."""

    event: MachineEvent
    because: ScenarioEvent


def plan_events(scenario: Scenario) -> list[PlannedEvent]:
    """Return the machines' events in order of time; events of one instant keep their order.

    The same thing that happens to several members at the same instant is one event.
    """
    drafts = list(_drafts(scenario))
    drafts.sort(key=lambda planned: planned.event.at)  # stable
    merged: list[PlannedEvent] = []
    for planned in drafts:
        if merged and (joint := _joint(merged[-1].event, planned.event)) is not None:
            merged[-1] = PlannedEvent(joint, merged[-1].because)
        else:
            merged.append(planned)
    return merged


def initial_holdings(scenario: Scenario) -> list[Held]:
    """Return the members at the start, and their partitions."""
    every = tuple(scenario.topics)
    return [
        Held(
            Client(
                member.member,
                every if member.topics is None else member.topics,
                member.instance_id,
                member.rack_id,
                member.assignors,
                member.group_protocol,
            ),
            {topic: list(partitions) for topic, partitions in member.owned.items()},
        )
        for member in scenario.members
    ]


def _drafts(scenario: Scenario) -> Iterator[PlannedEvent]:
    draft = _Draft(scenario)
    for happening in scenario.events:
        yield from draft.returned(happening)
        yield from getattr(draft, happening.kind)(happening)
    yield from draft.rest()


class _Draft:
    """Builds events, a method a kind, while it tracks each process's configuration, and who is down until when."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.topics: dict[str, Topic] = dict(scenario.topics)
        self.clients = {held.client.name: held.client for held in initial_holdings(scenario)}
        self.left: set[str] = set()
        self.returns: dict[str, tuple[int, ScenarioEvent, type[Start | Thaw]]] = {}

    def returned(self, happening: ScenarioEvent) -> Iterator[PlannedEvent]:
        name = happening.member
        if name in self.returns and self.returns[name][0] <= happening.at:
            yield self._back(name)

    def rest(self) -> Iterator[PlannedEvent]:
        for name in list(self.returns):
            yield self._back(name)

    def _back(self, name: str) -> PlannedEvent:
        at, because, kind = self.returns.pop(name)
        event: MachineEvent = Start(at, (self.clients[name],)) if kind is Start else Thaw(at, (name,))
        return PlannedEvent(event, because)

    def join(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        self.left.discard(event.member)
        self.clients[event.member] = _client(event, None, self.scenario)
        yield PlannedEvent(Start(event.at, (self.clients[event.member],)), event)

    def bounce(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        self.clients[event.member] = _client(event, self.clients[event.member], self.scenario)
        self.returns[event.member] = (event.at + event.down_ms, event, Start)
        yield PlannedEvent(Stop(event.at, (event.member,)), event)

    def pause(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        self.returns[event.member] = (event.at + event.down_ms, event, Thaw)
        yield PlannedEvent(Freeze(event.at, (event.member,)), event)

    def crash(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        down = self.returns.pop(event.member, None)
        if down is None or down[2] is Thaw:
            yield PlannedEvent(Crash(event.at, (event.member,)), event)

    def leave(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        self.left.add(event.member)
        down = self.returns.pop(event.member, None)
        if down is None:
            yield PlannedEvent(Leave(event.at, (event.member,)), event)
        elif down[2] is Thaw:
            yield PlannedEvent(Crash(event.at, (event.member,)), event)  # a frozen process can't say that it leaves

    def subscribe(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        name = event.member
        self.clients[name] = client = _client(event, self.clients[name], self.scenario)
        if name in self.left:
            # As a consumer that unsubscribed, which leaves the group, and subscribes again.
            self.left.discard(name)
            yield PlannedEvent(Start(event.at, (client,)), event)
        elif name not in self.returns:
            yield PlannedEvent(Subscribe(event.at, (name,), client.topics), event)
        elif self.returns[name][2] is Thaw:
            at = self.returns[name][0]  # a frozen process subscribes once it goes on
            yield PlannedEvent(Subscribe(at, (name,), client.topics), event)

    def partitions(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        grown = {
            topic: replace(self.topics[topic], partitions=count, racks=None)
            for topic, count in event.partitions.items()
        }
        self.topics.update(grown)
        yield PlannedEvent(TopicsChanged(event.at, grown), event)

    def coordinator_fails(self, event: ScenarioEvent) -> Iterator[PlannedEvent]:
        yield PlannedEvent(CoordinatorFails(event.at), event)


def _client(happening: ScenarioEvent, before: Client | None, scenario: Scenario) -> Client:
    """Return the process's configuration after this event; a bounce keeps what it does not set."""
    if happening.kind == "join" or before is None:
        before = Client(happening.member, tuple(scenario.topics))
    return replace(
        before,
        topics=before.topics if happening.topics is None else happening.topics,
        instance_id=happening.instance_id or before.instance_id,
        rack_id=happening.rack_id or before.rack_id,
        assignors=happening.assignors or before.assignors,
        group_protocol=happening.group_protocol or before.group_protocol,
    )


def _joint(first: MachineEvent, second: MachineEvent) -> MachineEvent | None:
    if first.at != second.at or type(first) is not type(second):
        return None
    if isinstance(first, Start) and isinstance(second, Start):
        names = {client.name for client in first.clients}
        protocols = {client.group_protocol for client in (*first.clients, *second.clients)}
        if len(protocols) == 1 and not names.intersection(client.name for client in second.clients):
            return Start(first.at, first.clients + second.clients)
    elif (
        isinstance(first, MemberEvent) and isinstance(second, MemberEvent) and not isinstance(first, Subscribe)
    ) and not set(first.names).intersection(second.names):
        return structs.replace(first, names=first.names + second.names)
    return None
