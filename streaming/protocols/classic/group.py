"""Group, members and events of the JoinGroup protocols: a coordinator and its members in one value.

Sources: ``ClassicGroup``, ``ClassicGroupMember`` and ``GroupMetadataManager`` of Kafka 4.3.1 for the coordinator,
``AbstractCoordinator`` and ``ConsumerCoordinator`` for the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from assignors.model import Share, Topic
from streaming.protocols.group import CoordinatedMember, CoordinatedState
from streaming.protocols.vocabulary import NOTHING, MachineEvent, MemberCalls, Reason


class ClassicPhase(StrEnum):
    """``ClassicGroupState``: where the group stands in its coordinator's eyes."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class ClassicMember(CoordinatedMember, frozen=True, gc=False):
    """A member: what its process does, and what the coordinator knows of it."""

    #: The generation that it owns its partitions from.
    generation: int = -1
    #: What it was told last; ``sticky`` writes it in its user data.
    last: Share = NOTHING
    #: It was told its member id and has to come back with it (MEMBER_ID_REQUIRED).
    pending: bool = False
    #: It froze while its JoinGroup was on its way: it has to send it again.
    rejoins: bool = False
    #: Its JoinGroup waits for an answer.
    joined: bool = False
    #: Its SyncGroup waits for an answer.
    synced: bool = False
    #: What its last JoinGroup said, topics aside.
    assignors: tuple[str, ...] = ()
    claim: Share = NOTHING
    claim_generation: int = -1
    #: What the coordinator has stored for it.
    assigned: Share = NOTHING
    #: The last generation that it was assigned in.
    part: int = 0

    @property
    def counted(self) -> bool:
        """The coordinator counts it in, or waits for it to come back with its member id."""
        return self.known or self.pending


class ClassicState(CoordinatedState, frozen=True):
    """A group in its coordinator's eyes, with what its leader and its members know."""

    members: Mapping[str, ClassicMember] = {}
    phase: ClassicPhase = ClassicPhase.EMPTY
    generation: int = 0
    #: Who they are while the group is not empty.
    leader: str = ""
    assignor: str = ""
    #: The topics that the last assignment was computed with.
    assigned_with: Mapping[str, Topic] = {}
    #: The topics in the leader's metadata when it assigned; None once they have been refreshed. And whose they are.
    snapshot: frozenset[str] | None = None
    snapshot_of: tuple[str, int, tuple[str, ...]] = ("", 0, ())
    #: In the initial delay of a group that was empty, how much of it is left, and whether anyone has come since.
    initial: bool = False
    remaining_ms: int = 0
    newcomer: bool = False
    #: What started this rebalance.
    reasons: tuple[Reason, ...] = ()
    #: The last generation whose assignment the members know.
    announced: int = 0
    #: What the leader remembers between rounds (Connect).
    memory: Any = None


# Events that machines schedule for themselves.


class JoinGroup(MemberCalls, frozen=True):
    """JoinGroup requests reach the coordinator."""


class SyncGroup(MemberCalls, frozen=True):
    """SyncGroup requests reach the coordinator, the leader's with every share."""


class LeaveGroup(MemberCalls, frozen=True):
    """LeaveGroup requests reach the coordinator."""


class RebalanceInProgress(MemberCalls, frozen=True):
    """Members learn that the group rebalances, or decide by themselves to join again."""


class Assigned(MemberCalls, frozen=True):
    """Members learn their shares."""

    generation: int


class SessionExpired(MemberCalls, frozen=True):
    """The coordinator has not heard from members for the session timeout."""


class RebalanceTimer(MachineEvent, frozen=True):
    """A timer of one rebalance; void once the next has begun."""

    attempt: int


class InitialDelayOver(RebalanceTimer, frozen=True):
    """``group.initial.rebalance.delay.ms`` has passed."""


class JoinTimeout(RebalanceTimer, frozen=True):
    """The rebalance timeout has passed since the rebalance began."""


class SyncTimeout(RebalanceTimer, frozen=True):
    """The rebalance timeout has passed since the join phase ended."""


class MetadataSeen(MachineEvent, frozen=True):
    """The leader's metadata show topics as they are now."""


class DelayOver(MachineEvent, frozen=True):
    """The scheduled rebalance of a Connect group is due."""

    generation: int
