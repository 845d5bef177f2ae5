"""Types that all machines share: clients, timing, events from outside, and outputs.

Times are milliseconds. Members go by the *name* of their process, which outlives member ids. Events and outputs name
several members when the same thing happens to all of them at one instant: one event stands for a thousand heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

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
    """The protocol can't carry this assignor."""


@dataclass(frozen=True, slots=True)
class Client:
    """A process as it is configured. ``topics`` is its subscription; it changes with ``Subscribe``."""

    name: str
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    rack_id: str | None = None
    #: ``partition.assignment.strategy`` in order; when empty, the group's default assignor.
    assignors: tuple[str, ...] = ()
    #: ``group.protocol``; when None, the protocol of the machine.
    group_protocol: Literal["classic", "consumer"] | None = None


class Held(NamedTuple):
    """A member that is in the group from the start, and what it owns then."""

    client: Client
    share: TopicPartitions


def dynamic_id(name: str, incarnation: int) -> str:
    """The member id of a process: its name, so that forecasts read like the scenario."""
    del incarnation
    return name


@cache
def _quarter(name: str) -> int:
    return sum(name.encode()) % 4


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing model. Everything takes exactly as long as it says here, so that forecasts are reproducible.

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
    member_id: Callable[[str, int], str] = dynamic_id
    #: ``(consumer, number of the change) → ms`` by which a ZooKeeper view lags.
    view_lag: Callable[[str, int], int] = lambda _name, _change: 0


class Reason(NamedTuple):
    """Why a round happened, in the words of the membership events (``member.joined``, …)."""

    kind: str
    members: Names = ()


def joint_reason(reasons: Iterable[Reason], otherwise: Reason) -> Reason:
    """The reason of a round: the first one's kind, and everyone it is true of; ``otherwise`` if there is none."""
    reasons = tuple(reasons)
    if not reasons:
        return otherwise
    kind = reasons[0].kind
    names = dict.fromkeys(process_name(name) for reason in reasons if reason.kind == kind for name in reason.members)
    return Reason(kind, tuple(names))


def ghost_name(name: str, incarnation: int) -> str:
    """The name of what a process left behind in the group when it started again."""
    return f"{name}~{incarnation}"


def process_name(name: str) -> str:
    """The process behind a name: the name itself, or whose ghost it is."""
    return name.partition("~")[0]


class MachineEvent(Struct, frozen=True):
    """Something that happens at ``at``: from outside, or an event that a machine scheduled for itself."""

    at: int


# Events from outside: what happens to processes and topics.


class Start(MachineEvent, frozen=True):
    """Processes start (or start again) and want to be members."""

    clients: tuple[Client, ...]


class MemberEvent(MachineEvent, frozen=True):
    """Something that happens to these processes."""

    names: Names


class Leave(MemberEvent, frozen=True):
    """Processes leave for good: they send LeaveGroup, static or not."""


class Stop(MemberEvent, frozen=True):
    """Processes shut down to come back: a static member sends no LeaveGroup (KIP-345; epoch −2 in KIP-848)."""


class Crash(MemberEvent, frozen=True):
    """Processes end without LeaveGroup."""


class Freeze(MemberEvent, frozen=True):
    """Processes stop for a while (a long GC): no heartbeats, no progress; what they own stays theirs."""


class Thaw(MemberEvent, frozen=True):
    """Frozen processes go on, and find out what happened meanwhile."""


class Subscribe(MemberEvent, frozen=True):
    """A process subscribes to other topics."""

    topics: tuple[str, ...]


class TopicsChanged(MachineEvent, frozen=True):
    """Topics have this many partitions now; those not named stay as they are."""

    topics: Mapping[str, Topic]


class CoordinatorFails(MachineEvent, frozen=True):
    """The group's coordinator dies; members find the next one with FindCoordinator."""


class MemberCalls(MachineEvent, frozen=True):
    """An event that a machine scheduled: something about these calls of several members."""

    calls: Calls


# Outputs.


class After(NamedTuple):
    """Hand ``event`` back when its time has come."""

    event: MachineEvent


class Sent(NamedTuple):
    """This many requests (or watch notifications) of this kind went over the wire."""

    kind: str
    times: int


class Owns(NamedTuple):
    """From now on these members consume exactly these partitions."""

    shares: Mapping[str, TopicPartitions]


class SubscribedTopics(NamedTuple):
    """From now on live members subscribe to these topics, taken together."""

    topics: frozenset[str]


class Announced(NamedTuple):
    """A round whose assignment the members know now. ``after`` holds every member of the group.

    ``number`` is the generation or group epoch. ``first`` says whether the round begins a rebalance or follows
    from the round before it.
    """

    number: int
    first: bool
    reason: Reason
    after: Mapping[str, TopicPartitions]


class Handover(NamedTuple):
    """A member's place and partitions pass to another name: its own ghost, or the process that replaces it."""

    before: str
    after: str


class Ended(NamedTuple):
    """These processes met an error that their client does not survive (a duplicate instance id)."""

    names: Names


MachineOutput = After | Sent | Owns | SubscribedTopics | Announced | Handover | Ended


def beats(since: int | None, until: int, every: int) -> int:
    """Return the number of heartbeats that a member sends in ``(since, until]``: counted, not simulated."""
    return 0 if since is None or until <= since else (until - since) // every


def next_beat(since: int, now: int, every: int) -> int:
    """When the first heartbeat at or after ``now`` leaves the member."""
    return since + max(1, -((since - now) // every)) * every


def last_beat(since: int, now: int, every: int) -> int:
    """When the last heartbeat at or before ``now`` left the member; its last request when it sent none."""
    return since + max(0, (now - since) // every) * every
