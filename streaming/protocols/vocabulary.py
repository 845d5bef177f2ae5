"""What all protocols talk about: clients, the clock, events from outside, and what a machine answers.

Times are milliseconds on the machine's own clock, which an event carries and nothing else advances. Members go
by the *name* of their process, which outlives the member ids that a coordinator gives it. Events and outputs
name several members at once when the same thing happens to them at the same instant: after a rebalance the
members of a group beat in step, and a thousand of them would else be a thousand events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from assignors.errors import BadInput
from assignors.model import Share, Topic

NOTHING: Share = {}
Names = tuple[str, ...]


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
    #: ``partition.assignment.strategy`` in order; empty: what the group runs by default.
    assignors: tuple[str, ...] = ()
    #: ``group.protocol``; None: what the machine speaks.
    group_protocol: Literal["classic", "consumer"] | None = None


def dynamic_id(name: str, incarnation: int) -> str:
    """The member id of a process: its name, so that forecasts read like the scenario."""
    del incarnation
    return name


@lru_cache(maxsize=1 << 14)
def _step(name: str) -> int:
    return sum(name.encode()) % 4


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing model. Everything takes exactly as long as it says here, so that forecasts are reproducible.

    A request and its answer take ``network_ms`` each. Members beat every ``heartbeat_ms`` (classic) or
    ``consumer_heartbeat_ms`` (told by the coordinator, KIP-848), counted from their last assignment, and
    learn of a rebalance with the next beat. They act on it when they are done with the records at hand:
    members are in four steps, after 0, ¼, ½ and ¾ of ``processing_ms``, by their names. Callbacks and assignors
    take no time of their own.
    """

    network_ms: int = 1
    heartbeat_ms: int = 3000
    #: How long a member works on what one poll returned.
    processing_ms: int = 1000
    consumer_heartbeat_ms: int = 5000
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_delay_ms: int = 300_000
    #: ``group.initial.rebalance.delay.ms`` of the broker.
    initial_rebalance_delay_ms: int = 3000
    #: ``group.consumer.assignment.interval.ms`` of the broker (4.3): target assignments are no closer.
    assignment_interval_ms: int = 1000
    #: How long clients take to see new partitions; up to ``metadata.max.age.ms`` (5 min) in production.
    metadata_age_ms: int = 0
    #: ``rebalance.backoff.ms`` of the ZooKeeper consumer.
    zookeeper_backoff_ms: int = 2000

    def busy_ms(self, name: str) -> int:
        """How long a member is busy before it acts on what it was told."""
        return self.processing_ms * _step(name) // 4


@dataclass(frozen=True, slots=True)
class Setup:
    """What a machine is made with: the timing model, the assignor, and how members and topics are identified."""

    timing: Timing = field(default_factory=Timing)
    assignor: str = "range"
    member_id: Callable[[str, int], str] = dynamic_id
    #: ``(consumer, number of the change) → ms`` that a ZooKeeper view lags.
    view_lag: Callable[[str, int], int] = lambda _name, _change: 0


class Cause(NamedTuple):
    """Why a round happened, in the words of the membership events (``member.joined``, …)."""

    kind: str
    members: Names = ()


# Events from outside: what happens to processes and topics. Machines add events of their own, which they
# schedule for themselves.


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at ``at``."""

    at: int


@dataclass(frozen=True, slots=True)
class Start(Event):
    """Processes start (or start again) and want to be members."""

    clients: tuple[Client, ...]


@dataclass(frozen=True, slots=True)
class MemberEvent(Event):
    """Something that happens to these processes."""

    names: Names


@dataclass(frozen=True, slots=True)
class Leave(MemberEvent):
    """Processes leave for good: they send LeaveGroup, static or not."""


@dataclass(frozen=True, slots=True)
class Stop(MemberEvent):
    """Processes shut down to come back: a static member sends no LeaveGroup (KIP-345; epoch −2 in KIP-848)."""


@dataclass(frozen=True, slots=True)
class Crash(MemberEvent):
    """Processes end without a word."""


@dataclass(frozen=True, slots=True)
class Freeze(MemberEvent):
    """Processes stop for a while (a long GC): no heartbeats, no progress; what they own stays theirs."""


@dataclass(frozen=True, slots=True)
class Thaw(MemberEvent):
    """Frozen processes go on, and find out what happened meanwhile."""


@dataclass(frozen=True, slots=True)
class Subscribe(MemberEvent):
    """A process subscribes to other topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicsChanged(Event):
    """Topics have this many partitions now; those not named stay as they are."""

    topics: Mapping[str, Topic]


@dataclass(frozen=True, slots=True)
class CoordinatorFails(Event):
    """The group's coordinator dies; members find the next one with FindCoordinator."""


# Outputs.


class After(NamedTuple):
    """Hand ``event`` back when its time has come."""

    event: Event


class Sent(NamedTuple):
    """So many requests (or watch notifications) of this kind went over the wire."""

    kind: str
    times: int


class Owns(NamedTuple):
    """From now on these members consume exactly these partitions."""

    shares: Mapping[str, Share]


class Wants(NamedTuple):
    """Live members subscribe to these topics from now on, in all."""

    topics: frozenset[str]


class Round(NamedTuple):
    """A round whose assignment the members know now. ``after`` holds every member of the group.

    ``number`` is the generation or group epoch; ``first`` says whether a rebalance begins with it or it
    follows from the one before.
    """

    number: int
    first: bool
    cause: Cause
    after: Mapping[str, Share]


class Handover(NamedTuple):
    """A member's place, its partitions included, is another's now (a duplicate instance id fenced it)."""

    before: str
    after: str


class Ended(NamedTuple):
    """These processes met an error that their client does not survive (a duplicate instance id)."""

    names: Names


Output = After | Sent | Owns | Wants | Round | Handover | Ended


def beats(since: int | None, until: int, every: int) -> int:
    """How many heartbeats a member sends in ``(since, until]``: counted, not simulated."""
    return 0 if since is None or until <= since else (until - since) // every


def next_beat(since: int, now: int, every: int) -> int:
    """When the first heartbeat at or after ``now`` leaves the member."""
    return since + max(1, -((since - now) // every)) * every


def last_beat(since: int, now: int, every: int) -> int:
    """When the last heartbeat before or at ``now`` left the member; its last request when it sent none."""
    return since + max(0, (now - since) // every) * every
