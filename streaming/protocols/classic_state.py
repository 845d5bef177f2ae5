"""State and events of the JoinGroup protocols: a coordinator and its members in one value.

Sources: ``ClassicGroup``, ``ClassicGroupMember`` and ``GroupMetadataManager`` of Kafka 4.3.1 for the coordinator,
``AbstractCoordinator`` and ``ConsumerCoordinator`` for the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import Struct

from assignors.model import Share, Topic
from streaming.protocols.vocabulary import NOTHING, Cause, Client, Event

#: ``(name, call)``: an answer counts only while the member still waits for that call.
Calls = tuple[tuple[str, int], ...]


class Phase(StrEnum):
    """``ClassicGroupState``: where the group stands in its coordinator's eyes."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Stage(StrEnum):
    """Where a member stands in its own eyes."""

    STARTING = "Starting"
    JOINING = "Joining"
    SYNCING = "Syncing"
    STABLE = "Consuming"
    FROZEN = "Frozen"
    CRASHED = "Crashed"
    AWAY = "Away"
    LEAVING = "Leaving"


LIVE = (Stage.STARTING, Stage.JOINING, Stage.SYNCING, Stage.STABLE)


class Member(Struct, frozen=True, gc=False):
    """A member: what its process does, and what the coordinator knows of it.

    No cycles go through it, and there are millions: the garbage collector need not look (a third of the time).
    """

    client: Client
    stage: Stage = Stage.STARTING
    #: Counts what the process did; answers to earlier calls are void.
    call: int = 0
    incarnation: int = 0
    member_id: str = ""
    #: What it consumes, and from which generation.
    owned: Share = NOTHING
    generation: int = -1
    #: What it was told last; ``sticky`` writes it in its user data.
    last: Share = NOTHING
    #: When it last began to beat; None while it does not.
    beat_from: int | None = None
    #: The coordinator counts it in.
    known: bool = False
    #: It was told its member id and has to come back with it (MEMBER_ID_REQUIRED).
    pending: bool = False
    #: Its JoinGroup waits for an answer.
    joined: bool = False
    #: Its SyncGroup waits for an answer.
    synced: bool = False
    #: When the coordinator last heard of it, heartbeats aside.
    heard: int = 0
    #: What its last JoinGroup said.
    said: tuple[str, ...] = ()
    assignors: tuple[str, ...] = ()
    claim: Share = NOTHING
    claim_generation: int = -1
    #: What the coordinator has stored for it.
    assigned: Share = NOTHING
    #: The how-manieth the coordinator has counted in: its HashMap keeps those of one bin in this order.
    place: int = 0
    #: The last generation that it was assigned in.
    part: int = 0


class State(Struct, frozen=True):
    """A group. ``members`` go by name; those the coordinator does not know (yet, any more) are among them."""

    phase: Phase = Phase.EMPTY
    generation: int = 0
    members: Mapping[str, Member] = {}
    leader: str | None = None
    assignor: str | None = None
    topics: Mapping[str, Topic] = {}
    #: The topics that the last assignment was computed with.
    assigned_with: Mapping[str, Topic] = {}
    #: The topics in the leader's metadata when it assigned, and whose metadata these are; None: fresh ones.
    snapshot: frozenset[str] | None = None
    snapshot_of: tuple[str, int, tuple[str, ...]] = ("", 0, ())
    #: Counts rebalances begun; timers of earlier ones are void.
    attempt: int = 0
    #: In the initial delay of a group that was empty, how much of it is left, whether somebody came since.
    initial: bool = False
    remaining_ms: int = 0
    newcomer: bool = False
    #: What started this rebalance, and the one before.
    causes: tuple[Cause, ...] = ()
    cause: Cause = Cause("member.joined")
    #: The last generation whose assignment the members know.
    announced: int = 0
    wanted: frozenset[str] = frozenset()
    #: What the leader remembers between rounds (Connect).
    memory: Any = None
    #: How often each process has begun anew.
    incarnations: Mapping[str, int] = {}
    #: Members counted in so far, and how many there have been at once: Java's tables never shrink.
    places: int = 0
    most: int = 0


# Events that machines schedule for themselves.


@dataclass(frozen=True, slots=True)
class MemberCalls(Event):
    """Something about calls of several members."""

    calls: Calls


@dataclass(frozen=True, slots=True)
class JoinGroup(MemberCalls):
    """JoinGroup requests reach the coordinator."""


@dataclass(frozen=True, slots=True)
class SyncGroup(MemberCalls):
    """SyncGroup requests reach the coordinator, the leader's with every share."""


@dataclass(frozen=True, slots=True)
class LeaveGroup(MemberCalls):
    """LeaveGroup requests reach the coordinator."""


@dataclass(frozen=True, slots=True)
class Told(MemberCalls):
    """Members learn that the group rebalances, or decide to rejoin by themselves."""


@dataclass(frozen=True, slots=True)
class Assigned(MemberCalls):
    """Members learn their shares."""

    generation: int


@dataclass(frozen=True, slots=True)
class SessionExpired(MemberCalls):
    """The coordinator has not heard of members for the session timeout."""


@dataclass(frozen=True, slots=True)
class InitialDelayOver(Event):
    """``group.initial.rebalance.delay.ms`` has passed."""

    attempt: int


@dataclass(frozen=True, slots=True)
class JoinTimeout(Event):
    """The rebalance timeout has passed since the rebalance began."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SyncTimeout(Event):
    """The rebalance timeout has passed since the join phase ended."""

    attempt: int


@dataclass(frozen=True, slots=True)
class MetadataSeen(Event):
    """The leader's metadata show topics as they are now."""


@dataclass(frozen=True, slots=True)
class DelayOver(Event):
    """The scheduled rebalance of a Connect group is due."""

    generation: int
