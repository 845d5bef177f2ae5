"""State and events of the consumer protocol (KIP-848): the coordinator computes targets, members reconcile.

Sources: ``ConsumerGroup``, ``ConsumerGroupMember`` and ``GroupMetadataManager`` of Kafka 4.3.1;
``ConsumerMembershipManager`` and ``ConsumerHeartbeatRequestManager`` for the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from assignors.model import Share
from streaming.protocols.classic.group import ClassicState
from streaming.protocols.consumer.reconcile import CurrentAssignment, Reconciliation
from streaming.protocols.group import CoordinatedMember, CoordinatedState
from streaming.protocols.vocabulary import NOTHING, MachineEvent, MemberCalls, Reason

#: ``LEAVE_GROUP_STATIC_MEMBER_EPOCH``: a static member is away and will be back.
AWAY_EPOCH = -2

#: A new group starts at 1 (``ModernGroup``), so that its first member makes it 2.
NEW_EPOCH = 1
_NEW = CurrentAssignment(Reconciliation.STABLE, 0, NOTHING)


class ConsumerPhase(StrEnum):
    """``ConsumerGroupState``."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMember(CoordinatedMember, frozen=True, gc=False):
    """A member: what its process does, and what the coordinator knows of it."""

    current: CurrentAssignment = _NEW
    #: Since when it has had to give up partitions.
    unrevoked_at: int = 0
    #: A heartbeat of it is scheduled (the others are only counted).
    due: bool = False

    @property
    def classic(self) -> bool:
        """Speaks JoinGroup and SyncGroup to a consumer group."""
        return self.client.group_protocol == "classic"


class ConsumerState(CoordinatedState, frozen=True):
    """A group: epochs, the target of each member, and the members."""

    members: Mapping[str, ConsumerMember] = {}
    group_epoch: int = NEW_EPOCH
    target_epoch: int = 0
    targets: Mapping[str, Share] = {}
    #: When the target was computed; None before the first.
    target_at: int | None = None
    #: Topics changed: the next heartbeat bumps the epoch.
    outdated: bool = False
    #: ``(group epoch, why it was bumped)``, until a round has told it.
    reasons: tuple[tuple[int, Reason], ...] = ()
    #: What everyone had after the last round.
    held: Mapping[str, Share] = {}
    #: The first round of the target under way, until all of its rounds are announced; and whether it is.
    first: Mapping[str, Share] | None = None
    second: bool = False
    #: The group while all its members are classic.
    classic: ClassicState | None = None


class Heartbeat(MemberCalls, frozen=True):
    """ConsumerGroupHeartbeat requests reach the coordinator. ``full``: with the subscription and what is owned."""

    full: bool = False


class HeartbeatAnswered(MemberCalls, frozen=True):
    """Members learn their current assignments."""


class Goodbye(MemberCalls, frozen=True):
    """Heartbeats with epoch −1 (leave) or −2 (static, back soon) reach the coordinator."""


class Expired(MemberCalls, frozen=True):
    """Sessions, or the time to give up partitions, ran out."""


class MetadataChanged(MachineEvent, frozen=True):
    """The coordinator's metadata image shows these topics as they are now."""

    topics: tuple[str, ...]
