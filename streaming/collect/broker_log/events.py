"""The event that one line of a group coordinator's log reports."""

from enum import StrEnum
from typing import Literal, NamedTuple

from msgspec import Struct


class MessageKind(StrEnum):
    """The kind of a log message of the group coordinator."""

    PREPARING = "preparing"
    STABILIZED = "stabilized"
    ASSIGNMENT_RECEIVED = "assignment-received"
    EPOCH_BUMPED = "epoch-bumped"
    TARGET_COMPUTED = "target-computed"
    #: A member joined; see :attr:`CoordinatorEvent.protocol` for classic members of KIP-848 groups.
    MEMBER_JOINED = "member-joined"
    #: The coordinator answers a JoinGroup request. If the request starts a rebalance, a ``preparing`` line follows.
    MEMBER_JOINING = "member-joining"
    MEMBER_LEFT = "member-left"
    MEMBER_FENCED = "member-fenced"
    SUBSCRIPTION_CHANGED = "subscription-changed"
    #: A static member rejoined with a new member id. ``member_ids``: new (where the line names it), old.
    STATIC_REPLACED = "static-replaced"
    #: A static member of a KIP-848 group left and keeps its assignment for its session timeout.
    STATIC_MEMBER_AWAY = "static-away"
    #: A member requested a ``group.instance.id`` that another member owns. ``member_ids``: refused, owner.
    INSTANCE_REFUSED = "instance-refused"
    #: The coordinator assigned a member id, but no member joined with this id.
    PENDING_MEMBER_REMOVED = "pending-gone"
    MEMBER_LOADED = "member-loaded"
    GROUP_EMPTY = "group-empty"
    GROUP_DEAD = "group-dead"
    GROUP_LOADED = "group-loaded"
    GROUP_UNLOADED = "group-unloaded"
    REBALANCE_STALLED = "rebalance-stalled"
    UPGRADED = "upgraded"
    DOWNGRADED = "downgraded"
    MIGRATION_REFUSED = "migration-refused"


class ReasonKind(StrEnum):
    """The reason for which the coordinator of a classic group prepares a rebalance."""

    JOINED = "joined"
    LEFT = "left"
    FENCED = "fenced"
    REJOINED = "rejoined"
    LEADER_REJOINED = "leader-rejoined"
    STATIC_REJOINED = "static-rejoined"
    ASSIGNMENT_STORE_FAILED = "store-failed"
    OVER_CAPACITY = "over-capacity"
    DOWNGRADE = "downgrade"
    OTHER = "other"


#: The UTC offset of every time zone is a multiple of this time (ms).
_ZONE_STEP_MS = 900_000
GroupProtocol = Literal["classic", "consumer", "share", "streams"]


class LogTimestamp(NamedTuple):
    """The timestamp of a log line, in ms since the epoch (read as UTC if it has no time zone), and its precision."""

    ms: int
    precision_ms: int = 1

    def zone_offset_ms(self, near: int) -> int:
        """Return the UTC offset (ms) of the log, for a line written about the time ``near`` (ms since the epoch)."""
        return round((near - self.ms) / _ZONE_STEP_MS) * _ZONE_STEP_MS


class CoordinatorEvent(Struct, frozen=True, kw_only=True):
    """One log message of the group coordinator, as an event.

    Attributes:
        number: the generation (classic) or epoch; for ``preparing`` the generation that ends.
        client_id: the member's client id (Kafka 3.0 to 3.9).
        host: the member's host (Kafka 3.0 to 3.9).
        protocol: the protocol of a joining member, or the group's new protocol. A classic member of a KIP-848 group
            sends JoinGroup in each rebalance, and the coordinator logs each request as a join.
        client_reason: the client's own reason (KIP-800); None if the client sent no reason.
        late: the message follows the rebalance that it explains (GroupCoordinator.scala 3.0 to 3.9).
        timestamp: the line's timestamp; None if the line has no readable timestamp.
    """

    kind: MessageKind
    group_id: str
    number: int | None = None
    member_ids: tuple[str, ...] = ()
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    protocol: GroupProtocol | None = None
    reason: str = ""
    reason_kind: ReasonKind | None = None
    client_reason: str | None = None
    late: bool = False
    timestamp: LogTimestamp | None = None
