"""Types that all machines share: clients, timing, events from outside, outputs, states, and transition tables.

Times are milliseconds. Members are identified by the *name* of their process, which outlives member ids. An event or
output lists several members if the same happens to all of them at the same time, such as a thousand heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

from assignors.errors import BadInput
from assignors.model import Topic, TopicPartitions

NOTHING: TopicPartitions = {}
Names = tuple[str, ...]
#: ``(name, call)``: an answer counts only while the member still waits for that call.
Calls = tuple[tuple[str, int], ...]


class UndefinedTransition(BadInput):
    """The protocol defines nothing for this event in this state."""


class InconsistentGroupProtocol(BadInput):
    """The members have no assignor in common; Kafka refuses such a JoinGroup (INCONSISTENT_GROUP_PROTOCOL)."""


class ImpossiblePair(BadInput):
    """The protocol does not support this assignor."""


@dataclass(frozen=True, slots=True)
class Client:
    """Configuration of a process. ``topics`` is its subscription, which ``Subscribe`` changes."""

    name: str
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    rack_id: str | None = None
    #: ``partition.assignment.strategy`` in order; when empty, the group's default assignor.
    assignors: tuple[str, ...] = ()
    #: ``group.protocol``; when None, the protocol of the machine.
    group_protocol: Literal["classic", "consumer"] | None = None


class Held(NamedTuple):
    """A member that is in the group from the start, and the partitions that it owns then; default id: its name."""

    client: Client
    share: TopicPartitions = NOTHING
    member_id: str | None = None


@cache
def _quarter(name: str) -> int:
    return sum(name.encode()) % 4


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing model. Every action takes exactly the time given here, so that forecasts are reproducible.

    A request and its answer take ``network_ms`` each. Members heartbeat every ``heartbeat_ms`` (classic) or
    ``consumer_heartbeat_ms`` (KIP-848, where the coordinator sets it), counted from their last assignment, and
    learn of a rebalance from the answer. They act on it once they have processed the records they hold, which
    takes 0, ¼, ½ or ¾ of ``processing_ms``, depending on the member's name. Callbacks and assignors take no time.
    """

    network_ms: int = 1
    heartbeat_ms: int = 3000
    #: How long a member processes the records of one poll.
    processing_ms: int = 1000
    consumer_heartbeat_ms: int = 5000
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_delay_ms: int = 300_000
    #: ``group.initial.rebalance.delay.ms`` of the broker.
    initial_rebalance_delay_ms: int = 3000
    #: ``group.consumer.assignment.interval.ms`` of the broker (4.3): the least time between two targets.
    assignment_interval_ms: int = 1000
    #: How long clients take to see new partitions; up to ``metadata.max.age.ms`` (5 min) in production.
    metadata_age_ms: int = 0
    #: ``rebalance.backoff.ms`` of the ZooKeeper consumer.
    zookeeper_backoff_ms: int = 2000

    def busy_ms(self, name: str) -> int:
        """Return how long a member is busy before it acts on an answer."""
        return self.processing_ms * _quarter(name) // 4


@dataclass(frozen=True, slots=True)
class Setup:
    """Parameters of a machine: the timing model, the assignor, and member ids."""

    timing: Timing = field(default_factory=Timing)
    assignor: str = "range"
    #: ``(process, incarnation) → member id``; by default the name of the process, as in the scenario.
    member_id: Callable[[str, int], str] = lambda name, _incarnation: name
    #: ``(consumer, number of the change) → ms`` by which a ZooKeeper view lags.
    view_lag: Callable[[str, int], int] = lambda _name, _change: 0


class Reason(NamedTuple):
    """Reason of a round, as a type of membership event (``member.joined``, …)."""

    kind: str
    members: Names = ()


def joint_reason(reasons: Iterable[Reason], otherwise: Reason) -> Reason:
    """Return the first reason's kind with the members of all reasons of that kind; ``otherwise`` if there is none."""
    reasons = tuple(reasons)
    if not reasons:
        return otherwise
    kind = reasons[0].kind
    names = dict.fromkeys(process_name(name) for reason in reasons if reason.kind == kind for name in reason.members)
    return Reason(kind, tuple(names))


def ghost_name(name: str, incarnation: int) -> str:
    """Return the name of a restarted process's earlier incarnation that is still in the group."""
    return f"{name}~{incarnation}"


def process_name(name: str) -> str:
    """Return the process of a name, which may be that of a ghost."""
    return name.partition("~")[0]


class MachineEvent(Struct, frozen=True):
    """Something that happens at ``at``: from outside, or an event that a machine scheduled for itself."""

    at: int


# Events from outside: what happens to processes and topics.


class Start(MachineEvent, frozen=True):
    """Processes start or restart, and join."""

    clients: tuple[Client, ...]


class MemberEvent(MachineEvent, frozen=True):
    """Something that happens to these processes."""

    names: Names


class Leave(MemberEvent, frozen=True):
    """Processes leave for good: they send LeaveGroup, static or not."""


class ShutDown(MemberEvent, frozen=True):
    """Processes shut down temporarily: a static member sends no LeaveGroup (KIP-345; epoch −2 in KIP-848)."""


class Crash(MemberEvent, frozen=True):
    """Processes end without LeaveGroup."""


class Freeze(MemberEvent, frozen=True):
    """Processes freeze, as in a long GC pause: they send no heartbeats and keep their partitions."""


class Thaw(MemberEvent, frozen=True):
    """Frozen processes resume, and learn what happened meanwhile."""


class Subscribe(MemberEvent, frozen=True):
    """A process subscribes to other topics."""

    topics: tuple[str, ...]


class TopicsChanged(MachineEvent, frozen=True):
    """Topics have these partition counts now; other topics do not change."""

    topics: Mapping[str, Topic]


class CoordinatorFails(MachineEvent, frozen=True):
    """The group's coordinator dies; members find the next one with FindCoordinator."""


class MemberCalls(MachineEvent, frozen=True):
    """An event that a machine scheduled, about these calls of members."""

    calls: Calls


# Outputs.


class After(NamedTuple):
    """Output: apply ``event`` at its time."""

    event: MachineEvent


class Sent(NamedTuple):
    """Output: this many requests (or watch notifications) of this kind were sent."""

    kind: str
    times: int


class Owns(NamedTuple):
    """Output: from now on these members consume exactly these partitions."""

    shares: Mapping[str, TopicPartitions]


class SubscribedTopics(NamedTuple):
    """Output: from now on live members together subscribe to these topics."""

    topics: frozenset[str]


class Announced(NamedTuple):
    """Output: a round whose assignment the members have received. ``after`` has every member of the group.

    ``number`` is the generation or group epoch. ``first``: the round begins a rebalance; else it continues the
    previous round.
    """

    number: int
    first: bool
    reason: Reason
    after: Mapping[str, TopicPartitions]


class Handover(NamedTuple):
    """Output: a member's partitions pass to another name, that of its own ghost or of its replacement."""

    before: str
    after: str


class Ended(NamedTuple):
    """Output: these processes ended with a fatal error of their client (a duplicate instance id)."""

    names: Names


MachineOutput = After | Sent | Owns | SubscribedTopics | Announced | Handover | Ended


# States of members and groups, as frozen values that steps replace, and transition tables.


class Stage(StrEnum):
    """Activity of a process."""

    STARTING = "Starting"
    JOINING = "Joining"
    SYNCING = "Syncing"
    STABLE = "Consuming"
    FROZEN = "Frozen"
    CRASHED = "Crashed"
    AWAY = "Away"
    LEAVING = "Leaving"


LIVE = (Stage.STARTING, Stage.JOINING, Stage.SYNCING, Stage.STABLE)
#: Stages of ended processes, whose remaining state in the group is removed with their session.
GONE = (Stage.CRASHED, Stage.AWAY, Stage.LEAVING)


class MachineMember(Struct, frozen=True, gc=False):
    """A member: state of its process, and its state in the group.

    A run creates millions of them, without reference cycles; without garbage collection it takes a third less time.
    """

    client: Client
    stage: Stage = Stage.STARTING
    #: Counts the calls of the process; answers to earlier calls are ignored.
    call: int = 0
    #: How many times the process has begun to join.
    incarnation: int = 0
    #: True if it is a member: its coordinator has it, or its node under ``ids`` exists.
    is_member: bool = False
    #: The subscription that it last sent.
    subscription: tuple[str, ...] = ()
    #: The partitions that it consumes.
    owned: TopicPartitions = NOTHING
    member_id: str = ""
    #: When it last began to send heartbeats; None while it sends none (ZooKeeper's sessions count no pings).
    beat_from: int | None = None
    #: When its last request other than heartbeats arrived.
    contact_at: int = 0
    #: How many members had joined before it: a HashMap keeps the members of one bin in this order.
    place: int = 0

    @property
    def counted(self) -> bool:
        """True if the group keeps state of the member when its process has ended."""
        return self.is_member


class MachineState(Struct, frozen=True):
    """State of a group. ``members``: by name, including processes that are not (or no longer) members.

    The order of a coordinator's members is that of a Java hash table.
    """

    members: Mapping[str, Any] = {}
    topics: Mapping[str, Topic] = {}
    #: Why the last round happened.
    reason: Reason = Reason("member.joined")
    #: The topics that live members subscribe to.
    subscribed: frozenset[str] = frozenset()
    #: How many times each process has begun to join.
    incarnations: Mapping[str, int] = {}
    #: How many members have joined so far, and the most at the same time: the table never shrinks.
    places: int = 0
    most: int = 0
    #: Counts the rebalances begun; timers of earlier ones are ignored.
    attempt: int = 0


M = TypeVar("M", bound=MachineMember)
S = TypeVar("S", bound=MachineState)

#: Handler of an event: changes a :class:`streaming.protocols.machine.Step` of its protocol in place.
Handler = Callable[[Any, Any], object]


class Transition(NamedTuple):
    """A handler of an event, and the phases that it may lead to (checked after every step)."""

    handler: Handler
    to: tuple[StrEnum, ...]
    #: Label of the arrow in the diagram, in addition to the event's name.
    label: str = ""


Table = Mapping[tuple[StrEnum, type[MachineEvent]], Transition]


def rows(
    phases: tuple[StrEnum, ...],
    event: type[MachineEvent],
    handler: Handler,
    to: tuple[StrEnum, ...] = (),
    label: str = "",
) -> dict[tuple[StrEnum, type[MachineEvent]], Transition]:
    """Return table rows with the same transition from several phases; without ``to`` the phase stays the same."""
    return {(phase, event): Transition(handler, to or (phase,), label) for phase in phases}


def look_up(table: Table, who: str, phase: StrEnum, event: MachineEvent) -> Transition:
    """Return the transition for an event in a phase; ``who``: the protocol, or a process under it, for the error.

    Raises:
        UndefinedTransition: there is none.
    """
    transition = table.get((phase, type(event)))
    if transition is None:
        raise UndefinedTransition(f"{who}: {type(event).__name__} at {event.at} ms is not defined in state {phase}")
    return transition


def beats(since: int | None, until: int, every: int) -> int:
    """Return the number of heartbeats that a member sends in ``(since, until]``, without simulating each."""
    return 0 if since is None or until <= since else (until - since) // every


def next_beat(since: int, now: int, every: int) -> int:
    """Return when the member sends its first heartbeat at or after ``now``."""
    return since + max(1, -((since - now) // every)) * every


def last_beat(since: int, now: int, every: int) -> int:
    """Return when the member sent its last heartbeat at or before ``now``, or else its last other request."""
    return since + max(0, (now - since) // every) * every
