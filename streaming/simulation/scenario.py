"""Scenarios: types, validation of events, and conversion into events of the protocols' state machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from msgspec import structs

from assignors.errors import BadInput
from assignors.model import Topic
from streaming.protocols import vocabulary

Kind = Literal["join", "bounce", "crash", "leave", "subscribe", "pause", "partitions", "coordinator_fails"]


class InvalidScenario(BadInput):
    """The scenario can't be simulated; the message names the event and the field."""


@dataclass(frozen=True, slots=True)
class ScenarioEvent:
    """One event of a scenario; ``number`` counts from 1, times are in ms since the scenario's start."""

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
class Scenario:
    """A scenario: topics and members at the start, timeouts of all members, and events in order of time.

    ``generation``: generation or epoch at the start. If ``heartbeat_ms`` or ``processing_ms`` is None, the default of
    the timing model applies.
    """

    topics: Mapping[str, Topic]
    events: tuple[ScenarioEvent, ...]
    members: tuple[vocabulary.Owner, ...] = ()
    generation: int = 1
    heartbeat_ms: int | None = None
    consumer_heartbeat_ms: int | None = None
    processing_ms: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_delay_ms: int = 300_000
    metadata_max_age_ms: int = 0

    @property
    def member_ids(self) -> dict[str, str]:
        """Return the id that each member has at the start of the scenario, by member name."""
        return {held.client.name: held.member_id or held.client.name for held in self.members}


class PlannedEvent(NamedTuple):
    """An event for a protocol's state machine, and the scenario event from which it is derived."""

    event: vocabulary.GroupEvent
    trigger: ScenarioEvent


def plan_events(scenario: Scenario) -> list[PlannedEvent]:
    """Return a scenario's events as events of the state machines, in order of time.

    Equal events of several members at the same instant are combined into one event. An event that is earlier than
    the event before it, or impossible for its member at that time, raises InvalidScenario.
    """
    planner = _EventPlanner(scenario)
    for event in scenario.events:
        planner.add(event)
    for name in list(planner.due_returns):
        planner.restart(name)
    merged: list[PlannedEvent] = []
    for planned in sorted(planner.planned, key=lambda planned: planned.event.at):  # stable
        if merged and (combined_event := _combine_events(merged[-1].event, planned.event)) is not None:
            merged[-1] = PlannedEvent(combined_event, merged[-1].trigger)
        else:
            merged.append(planned)
    return merged


class _EventPlanner:
    """Converts a scenario's events into planned events; tracks each process's state and configuration."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.planned: list[PlannedEvent] = []
        self.topics: dict[str, Topic] = dict(scenario.topics)
        self.clients = {held.client.name: held.client for held in scenario.members}
        #: State of each process (``up``, ``left`` or ``crashed``), and the time since which it has that state.
        self.states = dict.fromkeys(self.clients, ("up", 0))
        self.due_returns: dict[str, tuple[int, ScenarioEvent, type[vocabulary.Start | vocabulary.Thaw]]] = {}
        self.now = 0

    def add(self, event: ScenarioEvent) -> None:
        if event.at < self.now:
            problem = f"{event.at} is earlier than {self.now} of the event above it; sort events by time"
            raise InvalidScenario(f"{event}: at: {problem}")
        self.now = event.at
        if event.member:
            self._check_event(event)
        if event.member in self.due_returns and self.due_returns[event.member][0] <= event.at:
            self.restart(event.member)
        getattr(self, event.kind)(event)

    def _check_event(self, event: ScenarioEvent) -> None:
        name, kind = event.member, event.kind
        state, since = self.states.get(name, ("", 0))
        if kind == "join":
            if state == "up":
                problem = f"is a member since {since} ms; let it leave or crash first"
                raise InvalidScenario(f"{event}: join: {name!r} {problem}")
        elif not state:
            raise InvalidScenario(f"{event}: {kind}: {name!r} has not joined; add a join at the same time or earlier")
        elif state != "up" and (kind, state) != ("subscribe", "left"):
            raise InvalidScenario(f"{event}: {kind}: {name!r} {state} at {since} ms; let it join again first")
        elif kind in ("bounce", "pause") and name in self.due_returns and event.at < self.due_returns[name][0]:
            raise InvalidScenario(f"{event}: {kind}: {name!r} is down until {self.due_returns[name][0]} ms")

    def restart(self, name: str) -> None:
        at, trigger, kind = self.due_returns.pop(name)
        is_start = kind is vocabulary.Start
        self._plan_event(
            vocabulary.Start(at, (self.clients[name],)) if is_start else vocabulary.Thaw(at, (name,)), trigger
        )

    def _plan_event(self, event: vocabulary.GroupEvent, trigger: ScenarioEvent) -> None:
        self.planned.append(PlannedEvent(event, trigger))

    def join(self, event: ScenarioEvent) -> None:
        self.states[event.member] = ("up", event.at)
        client = _configured(event, vocabulary.Client(event.member, tuple(self.scenario.topics)))
        self.clients[event.member] = client
        self._plan_event(vocabulary.Start(event.at, (client,)), event)

    def bounce(self, event: ScenarioEvent) -> None:
        name = event.member
        self.clients[name] = _configured(event, self.clients[name])
        is_pause = event.kind == "pause"
        self.due_returns[name] = (event.at + event.down_ms, event, vocabulary.Thaw if is_pause else vocabulary.Start)
        self._plan_event((vocabulary.Freeze if is_pause else vocabulary.ShutDown)(event.at, (name,)), event)

    pause = bounce

    def crash(self, event: ScenarioEvent) -> None:
        is_crash = event.kind == "crash"
        self.states[event.member] = ("crashed" if is_crash else "left", event.at)
        down = self.due_returns.pop(event.member, None)
        if down is None:
            kind = vocabulary.Crash if is_crash else vocabulary.Leave
            self._plan_event(kind(event.at, (event.member,)), event)
        elif down[2] is vocabulary.Thaw:  # A frozen process can't send LeaveGroup.
            self._plan_event(vocabulary.Crash(event.at, (event.member,)), event)

    leave = crash

    def subscribe(self, event: ScenarioEvent) -> None:
        name = event.member
        self.clients[name] = client = _configured(event, self.clients[name])
        if self.states[name][0] == "left":
            # A consumer that unsubscribes leaves the group, and joins again with its next subscription.
            self.states[name] = ("up", event.at)
            self._plan_event(vocabulary.Start(event.at, (client,)), event)
        elif name not in self.due_returns:
            self._plan_event(vocabulary.Subscribe(event.at, (name,), client.topics), event)
        elif self.due_returns[name][2] is vocabulary.Thaw:
            # A frozen process changes its subscription when it resumes.
            self._plan_event(vocabulary.Subscribe(self.due_returns[name][0], (name,), client.topics), event)

    def partitions(self, event: ScenarioEvent) -> None:
        changed = {}
        for name, count in event.partitions.items():
            if count < (current := self.topics[name].partitions):
                problem = f"{count} is fewer than its {current}; Kafka can't remove partitions"
                raise InvalidScenario(f"{event}: partitions.{name}: {problem}")
            changed[name] = replace(self.topics[name], partitions=count, racks=None)
        self.topics.update(changed)
        self._plan_event(vocabulary.TopicsChanged(event.at, changed), event)

    def coordinator_fails(self, event: ScenarioEvent) -> None:
        self._plan_event(vocabulary.CoordinatorFails(event.at), event)


def _configured(event: ScenarioEvent, client: vocabulary.Client) -> vocabulary.Client:
    """Return the configuration of a process after this event; fields that the event does not set stay the same."""
    return replace(
        client,
        topics=client.topics if event.topics is None else event.topics,
        instance_id=event.instance_id or client.instance_id,
        rack_id=event.rack_id or client.rack_id,
        assignors=event.assignors or client.assignors,
        group_protocol=event.group_protocol or client.group_protocol,
    )


def _combine_events(first: vocabulary.GroupEvent, second: vocabulary.GroupEvent) -> vocabulary.GroupEvent | None:
    if first.at != second.at or type(first) is not type(second):
        return None
    if isinstance(first, vocabulary.Start) and isinstance(second, vocabulary.Start):
        names = {client.name for client in first.clients}
        protocols = {client.group_protocol for client in (*first.clients, *second.clients)}
        if len(protocols) == 1 and not names.intersection(client.name for client in second.clients):
            return vocabulary.Start(first.at, first.clients + second.clients)
    elif (
        isinstance(first, vocabulary.MemberEvent)
        and isinstance(second, vocabulary.MemberEvent)
        and not isinstance(first, vocabulary.Subscribe)
    ) and not set(first.names).intersection(second.names):
        return structs.replace(first, names=first.names + second.names)
    return None
