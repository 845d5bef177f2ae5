"""Events that ``explain`` reads from logs: messages of coordinators and clients, and listings of members."""

from enum import StrEnum

from msgspec import Struct, field

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.records.diffs import MemberNames
from streaming.records.events import Evidence, Holding, Kind


class ClientKind(StrEnum):
    """Kind of event that a client's log message reports."""

    JOINING = "joining"
    #: The coordinator assigned a new member id, under which the client has not been in any generation yet.
    NEW_MEMBER_ID = "new-id"
    JOINED = "joined"
    #: The member has received its assignment of a generation or epoch.
    PARTITIONS_ASSIGNED = "assigned"
    REVOKED = "revoked"
    #: The leader computed the assignment of every member.
    COMPUTED = "computed"
    LEAVING = "leaving"
    POLL_TIMED_OUT = "overran"
    #: The coordinator has removed the member, as the member's session expired.
    HEARTBEAT_EXPIRED = "expired"
    #: The client ended its session of a generation.
    PARTITIONS_RELEASED = "released"
    GROWTH = "growth"
    #: Any other message that names the client's group.
    OTHER = "other"


class ClientEvent(Struct, frozen=True, kw_only=True):
    """One message of a client.

    Attributes:
        actor: identifies the client by its log file and its client id.
        number: the generation or epoch.
        protocol: ``classic`` or ``consumer``.
        reason: the reason in the client's own words.
        size: number of members, if the client is the leader.
        shares: partitions of every member, if the kind is ``computed``.
        partitions: number of partitions that the message lists.
        group_kind: ``consumer``, ``connect`` or ``streams``.
    """

    kind: ClientKind
    actor: str
    client_id: str | None = None
    instance_id: str | None = None
    number: int | None = None
    member_id: str | None = None
    protocol: str = "classic"
    assignor: str | None = None
    reason: str = ""
    size: int | None = None
    shares: dict[str, Holding] = field(default_factory=dict)
    partitions: int | None = None
    group_kind: Kind = "consumer"


class MemberListing(Struct, frozen=True, kw_only=True):
    """All members of a group by member id, as a tool of Kafka lists them.

    Attributes:
        shares: partitions of each member; empty if the tool does not list partitions.
        number: the generation or epoch; None if the listing does not contain it, and so does not show a round.
        evidence: reports about departed members.
    """

    members: dict[str, MemberNames]
    shares: dict[str, Holding] = field(default_factory=dict)
    number: int | None = None
    protocol: str = "classic"
    assignor: str | None = None
    group_kind: Kind = "consumer"
    evidence: list[Evidence] = field(default_factory=list)


class LogEvent(Struct, frozen=True, kw_only=True):
    """One event of a group in a log: a coordinator's message, a client's message, or a listing of members.

    Attributes:
        at: time of the event, ms since the epoch; -1 if the log does not contain a readable timestamp.
        precision_ms: 1, or 1000 if timestamps in the log have no fraction of a second.
        place: file and line, which order events with the same time.
        size: number of members that a coordinator's message contains.
        is_empty: True if the line reports that the group was empty before.
    """

    group_id: str
    at: int
    precision_ms: int = 1
    place: tuple[str, int] = ("", 0)
    coordinator: CoordinatorEvent | None = None
    client: ClientEvent | None = None
    listing: MemberListing | None = None
    size: int | None = None
    is_empty: bool = False
