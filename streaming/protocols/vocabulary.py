"""Common types of the protocols' state machines: clients, timing, events, outputs, states, transition tables.

Times are in milliseconds. Members are identified by the *name* of their process, which outlives member ids. If the same
event happens to several members at the same time, such as a thousand heartbeats, one event or output lists all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

from assignors.errors import BadInput
from assignors.model import Member, Topic, TopicPartitions

NOTHING: TopicPartitions = {}
MemberIds = tuple[str, ...]
#: ``(name, call)``: a member's name and call number; an answer is ignored unless the member still waits for that call.
NumberedMembers = tuple[tuple[str, int], ...]


class UndefinedTransition(BadInput):
    """The protocol defines nothing for this event in this state."""


class InconsistentGroupProtocol(BadInput):
    """The members have no assignor in common; Kafka refuses such a JoinGroup (INCONSISTENT_GROUP_PROTOCOL)."""


class UnsupportedPair(BadInput):
    """The protocol does not support this assignor."""


@dataclass(frozen=True, slots=True)
class Client:
    """Configuration of a simulated process; ``topics`` is its subscription, which the event ``Subscribe`` changes."""

    name: str
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    rack_id: str | None = None
    #: ``partition.assignment.strategy`` in order; if empty, the group's default assignor is used.
    assignors: tuple[str, ...] = ()
    #: ``group.protocol``; if None, the protocol of the machine is used.
    group_protocol: Literal["classic", "consumer"] | None = None


class Owner(NamedTuple):
    """A member that is in the group at the start, with its partitions; its member id is by default its name."""

    client: Client
    share: TopicPartitions = NOTHING
    member_id: str | None = None


@cache
def _quarters_from_name(name: str) -> int:
    return sum(name.encode()) % 4


@dataclass(frozen=True, slots=True)
class TimingModel:
    """The timing model: every action takes exactly the time in this class, so that forecasts are reproducible.

    A request and its answer take ``network_ms`` each. Members send heartbeats every ``heartbeat_ms`` (classic) or
    ``consumer_heartbeat_ms`` (KIP-848, where the coordinator sets the interval), counted from their last assignment.
    The answer to a heartbeat informs members of a rebalance. Members act on the answer after they have processed the
    records of their last poll, which takes 0, ¼, ½ or ¾ of ``processing_ms``, depending on the member's name. Callbacks
    and assignors take no time.
    """

    network_ms: int = 1
    heartbeat_ms: int = 3000
    #: Time that a member needs to process the records of one poll.
    processing_ms: int = 1000
    consumer_heartbeat_ms: int = 5000
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_delay_ms: int = 300_000
    #: ``group.initial.rebalance.delay.ms`` of the broker.
    initial_rebalance_delay_ms: int = 3000
    #: ``group.consumer.assignment.interval.ms`` of the broker (4.3): the shortest time between two targets.
    assignment_interval_ms: int = 1000
    #: Time after which clients notice new partitions; up to ``metadata.max.age.ms`` (5 min) in production.
    metadata_age_ms: int = 0
    #: ``rebalance.backoff.ms`` of the ZooKeeper consumer.
    zookeeper_backoff_ms: int = 2000

    def busy_ms(self, name: str) -> int:
        """Return the time (ms) for which a member processes records before it acts on a response."""
        return self.processing_ms * _quarters_from_name(name) // 4


@dataclass(frozen=True, slots=True)
class Setup:
    """Parameters of a protocol's state machine: timing model, assignor, and functions for member ids and lags."""

    timing: TimingModel = field(default_factory=TimingModel)
    assignor: str = "range"
    #: Function ``(process, incarnation) → member id``; the default returns the name of the process, as in the scenario.
    member_id: Callable[[str, int], str] = lambda name, _incarnation: name
    #: Function ``(consumer, number of the change) → ms`` for the lag of a ZooKeeper view.
    view_lag: Callable[[str, int], int] = lambda _name, _change: 0


class Reason(NamedTuple):
    """Reason of a round: a type of membership event (``member.joined``, …) and the members that caused it."""

    kind: str
    members: MemberIds = ()


def common_reason(reasons: Iterable[Reason], default: Reason) -> Reason:
    """Return the first reason, with the members of all reasons of its kind; ``default`` if there are no reasons."""
    reasons = tuple(reasons)
    if not reasons:
        return default
    kind = reasons[0].kind
    names = dict.fromkeys(process_name(name) for reason in reasons if reason.kind == kind for name in reason.members)
    return Reason(kind, tuple(names))


def ghost_name(name: str, incarnation: int) -> str:
    """Return the name under which the earlier incarnation of a restarted process is still in the group."""
    return f"{name}~{incarnation}"


def process_name(name: str) -> str:
    """Return the process name of a member, which may be an earlier incarnation of the process (:func:`ghost_name`)."""
    return name.partition("~")[0]


class GroupEvent(Struct, frozen=True):
    """Event of a simulated protocol at the time ``at``: from outside, or scheduled by the state machine itself."""

    at: int


# Events from outside: what happens to processes and topics.


class Start(GroupEvent, frozen=True):
    """Processes start or restart, and join the group."""

    clients: tuple[Client, ...]


class MemberEvent(GroupEvent, frozen=True):
    """Event of a simulated protocol that concerns single processes, by name."""

    names: MemberIds


class Leave(MemberEvent, frozen=True):
    """Processes leave permanently: static and dynamic members send LeaveGroup."""


class ShutDown(MemberEvent, frozen=True):
    """Processes shut down temporarily: a static member sends no LeaveGroup (KIP-345; epoch −2 in KIP-848)."""


class Crash(MemberEvent, frozen=True):
    """Event: processes crash, that is, end without LeaveGroup."""


class Freeze(MemberEvent, frozen=True):
    """Processes freeze, as in a long GC pause: they send no heartbeats and keep their partitions."""


class Thaw(MemberEvent, frozen=True):
    """Frozen processes resume, and handle the timeouts and removals that happened meanwhile."""


class Subscribe(MemberEvent, frozen=True):
    """A process subscribes to other topics than before."""

    topics: tuple[str, ...]


class TopicsChanged(GroupEvent, frozen=True):
    """The partition counts of these topics changed."""

    topics: Mapping[str, Topic]


class CoordinatorFails(GroupEvent, frozen=True):
    """The group's coordinator fails; members find the next one with FindCoordinator."""


class MemberCalls(GroupEvent, frozen=True):
    """An event for members, each with a request number; a member that has sent a later request ignores the event."""

    calls: NumberedMembers


# Outputs.


class EventScheduled(NamedTuple):
    """Output of a state machine: an event that must be applied at the event's time."""

    event: GroupEvent


class RequestCount(NamedTuple):
    """Output of a simulated protocol: ``times`` requests (or watch notifications) of this kind were sent."""

    kind: str
    times: int


class OwnedNow(NamedTuple):
    """Output: from now on these members consume exactly these partitions."""

    shares: Mapping[str, TopicPartitions]


class SubscribedTopics(NamedTuple):
    """Output of a state machine: the topics to which at least one live member subscribes."""

    topics: frozenset[str]


class NewRound(NamedTuple):
    """Output: a round whose assignment the members have received; ``after`` has every member of the group.

    ``number`` is the generation or group epoch. ``first`` is True if the round begins a rebalance, and False if it
    continues the previous round.
    """

    number: int
    first: bool
    reason: Reason
    after: Mapping[str, TopicPartitions]


class Handover(NamedTuple):
    """Output: a member's partitions now belong to its replacement or its earlier incarnation, under another name."""

    before: str
    after: str


class FatalErrors(NamedTuple):
    """Output: these processes ended with a fatal error of their client (a duplicate instance id)."""

    names: MemberIds


MachineOutput = EventScheduled | RequestCount | OwnedNow | SubscribedTopics | NewRound | Handover | FatalErrors


# States of members and groups, as frozen values that steps replace, and transition tables.


class Stage(StrEnum):
    """Activity of a simulated consumer process."""

    STARTING = "Starting"
    JOINING = "Joining"
    SYNCING = "Syncing"
    STABLE = "Consuming"
    FROZEN = "Frozen"
    CRASHED = "Crashed"
    AWAY = "Away"
    LEAVING = "Leaving"


LIVE = (Stage.STARTING, Stage.JOINING, Stage.SYNCING, Stage.STABLE)
#: Stages of ended processes, whose remaining state in the group is removed when their session ends.
GONE_STAGES = (Stage.CRASHED, Stage.AWAY, Stage.LEAVING)


class MachineMember(Struct, frozen=True, gc=False):
    """Member of a group: the state of its process, and its state in the group.

    A run creates millions of these objects, without reference cycles; excluding them from garbage collection makes the
    run a third faster.
    """

    client: Client
    stage: Stage = Stage.STARTING
    #: Number of the process's current call; answers to earlier calls are ignored.
    call: int = 0
    #: Number of times that the process has begun to join.
    incarnation: int = 0
    #: True if the process is a member: the coordinator lists it or, under ZooKeeper, its node under ``ids`` exists.
    is_member: bool = False
    #: The subscription that the process sent last.
    subscription: tuple[str, ...] = ()
    #: The partitions that the process consumes.
    owned: TopicPartitions = NOTHING
    member_id: str = ""
    #: Time at which the process last began to send heartbeats; None while it sends no heartbeats (pings of ZooKeeper
    #: sessions are not counted).
    beat_from: int | None = None
    #: Arrival time of the process's last request other than heartbeats.
    contact_at: int = 0
    #: Number of the member in the order of joining, in which a HashMap keeps the members of one bin.
    place: int = 0

    @property
    def counted(self) -> bool:
        """True if the group keeps a member's state after the member's process has ended."""
        return self.is_member

    def as_assignor_input(self, owned: TopicPartitions, generation: int, *, is_static: bool = True) -> Member:
        """Return the member as input of an assignor, with these owned partitions and their generation or epoch."""
        client, instance_id = self.client, self.client.instance_id if is_static else None
        return Member(self.member_id, self.subscription, instance_id, client.rack_id, owned, generation)


class ProtocolState(Struct, frozen=True):
    """State of a group; ``members``: all processes by name, also those that are not members.

    A coordinator keeps its members in the order of a Java hash table.
    """

    members: Mapping[str, Any] = {}
    topics: Mapping[str, Topic] = {}
    #: Reason of the last round.
    reason: Reason = Reason("member.joined")
    #: The topics to which live members subscribe.
    subscribed: frozenset[str] = frozenset()
    #: Number of times that each process has begun to join, by name.
    incarnations: Mapping[str, int] = {}
    #: Number of members that have joined so far, and the largest number of members at the same time, which determines
    #: the size of the coordinator's hash table.
    places: int = 0
    most: int = 0
    #: Number of rebalances that have begun; timers of earlier rebalances are ignored.
    attempt: int = 0


M = TypeVar("M", bound=MachineMember)
S = TypeVar("S", bound=ProtocolState)
#: Handler of an event, which changes a :class:`streaming.protocols.machine.Step` of its protocol in place.
Handler = Callable[[Any, Any], object]


class Transition(NamedTuple):
    """Transition: the handler of an event, and the phases to which it may lead (checked after every step)."""

    handler: Handler
    to: tuple[StrEnum, ...]
    #: Label of the arrow in the diagram, in addition to the event's name.
    label: str = ""


Table = Mapping[tuple[StrEnum, type[GroupEvent]], Transition]


def rows(
    phases: tuple[StrEnum, ...],
    event: type[GroupEvent],
    handler: Handler,
    to: tuple[StrEnum, ...] = (),
    label: str = "",
) -> dict[tuple[StrEnum, type[GroupEvent]], Transition]:
    """Return rows of a transition table: one transition for several phases; without ``to`` the phase stays."""
    return {(phase, event): Transition(handler, to or (phase,), label) for phase in phases}


def look_up_transition(table: Table, who: str, phase: StrEnum, event: GroupEvent) -> Transition:
    """Return the transition of an event in a phase; raise UndefinedTransition, naming ``who``, if there is none."""
    transition = table.get((phase, type(event)))
    if transition is None:
        raise UndefinedTransition(f"{who}: {type(event).__name__} at {event.at} ms is not defined in state {phase}")
    return transition


def count_heartbeats(since: int | None, until: int, interval_ms: int) -> int:
    """Return the number of heartbeats that a member sends in ``(since, until]``, without simulating each heartbeat."""
    return 0 if since is None or until <= since else (until - since) // interval_ms


def next_heartbeat(since: int, now: int, interval_ms: int) -> int:
    """Return the time of a member's first heartbeat at or after ``now``."""
    return since + max(1, -((since - now) // interval_ms)) * interval_ms


def last_heartbeat(since: int, now: int, interval_ms: int) -> int:
    """Return the time of the last heartbeat that the member sent at or before ``now``, or else of its last request."""
    return since + max(0, (now - since) // interval_ms) * interval_ms
