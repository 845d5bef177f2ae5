"""State and events of the consumer protocol (KIP-848): the coordinator computes targets, members reconcile.

Sources: ``ConsumerGroup``, ``ConsumerGroupMember`` and ``GroupMetadataManager`` of Kafka 4.3.1;
``ConsumerMembershipManager`` and ``ConsumerHeartbeatRequestManager`` for the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from assignors.model import Share, Topic
from streaming.protocols.classic_state import MemberCalls, Stage
from streaming.protocols.classic_state import State as ClassicState
from streaming.protocols.reconcile import Current, MemberState
from streaming.protocols.vocabulary import NOTHING, Cause, Client, Event

#: ``LEAVE_GROUP_STATIC_MEMBER_EPOCH``: a static member is away and will be back.
AWAY_EPOCH = -2

#: A new group starts at 1 (``ModernGroup``), so that its first member makes it 2.
NEW_EPOCH = 1
_NEW = Current(MemberState.STABLE, 0, NOTHING)


class Phase(StrEnum):
    """``ConsumerGroupState``; ``CLASSIC`` while only classic members are there (online migration)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    CLASSIC = "Classic"


class Member(Struct, frozen=True, gc=False):
    """A member: what its process does, and what the coordinator knows of it."""

    client: Client
    stage: Stage = Stage.STARTING
    call: int = 0
    incarnation: int = 0
    member_id: str = ""
    #: The how-manieth the coordinator has counted in.
    place: int = 0
    owned: Share = NOTHING
    beat_from: int | None = None
    known: bool = False
    heard: int = 0
    said: tuple[str, ...] = ()
    current: Current = _NEW
    #: Since when it has had to give up partitions.
    unrevoked_at: int = 0
    #: A heartbeat of it is scheduled (the others are only counted).
    due: bool = False

    @property
    def classic(self) -> bool:
        """Speaks JoinGroup and SyncGroup to a consumer group."""
        return self.client.group_protocol == "classic"


class State(Struct, frozen=True):
    """A group: epochs, the target of each member, and the members."""

    group_epoch: int = NEW_EPOCH
    target_epoch: int = 0
    targets: Mapping[str, Share] = {}
    #: When the target was computed; None before the first.
    target_at: int | None = None
    members: Mapping[str, Member] = {}
    topics: Mapping[str, Topic] = {}
    #: Topics changed: the next heartbeat bumps the epoch.
    outdated: bool = False
    #: ``(group epoch, why it was bumped)``, until a round has told it.
    causes: tuple[tuple[int, Cause], ...] = ()
    cause: Cause = Cause("member.joined")
    #: What everyone had after the last round, and what remains to be told of the target under way.
    held: Mapping[str, Share] = {}
    first: Mapping[str, Share] | None = None
    second: bool = False
    wanted: frozenset[str] = frozenset()
    #: How often each process has begun anew.
    incarnations: Mapping[str, int] = {}
    #: Members counted in so far, and how many there have been at once: Java's tables never shrink.
    places: int = 0
    most: int = 0
    #: Rebalances begun while the group was classic; timers of earlier ones are void.
    attempt: int = 0
    #: The group while all its members are classic.
    classic: ClassicState | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat(MemberCalls):
    """ConsumerGroupHeartbeat requests reach the coordinator. ``full``: with the subscription and what is owned."""

    full: bool = False


@dataclass(frozen=True, slots=True)
class Answer(MemberCalls):
    """Members learn their current assignments."""


@dataclass(frozen=True, slots=True)
class Goodbye(MemberCalls):
    """Heartbeats with epoch −1 (leave) or −2 (static, back soon) reach the coordinator."""


@dataclass(frozen=True, slots=True)
class Expired(MemberCalls):
    """Sessions, or the time to give up partitions, ran out."""


@dataclass(frozen=True, slots=True)
class MetadataChanged(Event):
    """The coordinator's metadata image shows these topics as they are now."""

    topics: tuple[str, ...]
