"""Events that explain reads from logs: messages of coordinators, messages of clients, and listings of members."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.records.diffs import MemberNames
from streaming.records.events import Evidence, Holding


class ClientKind(StrEnum):
    """Report in a client's log message."""

    JOINING = "joining"
    #: The coordinator gave out a member id: the client was in no generation with this id before.
    NEW_ID = "new-id"
    JOINED = "joined"
    #: The member has its assignment of a generation or epoch.
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    #: The leader computed the assignment of every member.
    COMPUTED = "computed"
    LEAVING = "leaving"
    #: The client exceeded max.poll.interval.ms.
    OVERRAN = "overran"
    #: The coordinator does not know the member any more: its session ended.
    EXPIRED = "expired"
    INSTANCE_FENCED = "instance-fenced"
    #: The client ended its session of a generation.
    RELEASED = "released"
    #: The client has a coordinator: the message shows its group.
    COORDINATOR_FOUND = "coordinator-found"
    COORDINATOR_LOST = "coordinator-lost"
    GROWTH = "growth"


class ClientEvent(Struct, frozen=True, kw_only=True):
    """One message of a client.

    Attributes:
        actor: the client: its file and its client id.
        number: the generation or epoch.
        protocol: ``classic`` or ``consumer``.
        reason: the client's own words.
        size: number of members, where the client is the leader.
        shares: partitions of every member (``computed``).
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
    group_kind: str = "consumer"


class MemberListing(Struct, frozen=True, kw_only=True):
    """The members of a group by member id, as a tool lists them.

    Attributes:
        shares: what each owns; empty where the tool does not list it.
        number: the generation or epoch; None: the listing has no number, so it is no round.
        evidence: reports about departed members.
    """

    members: dict[str, MemberNames]
    shares: dict[str, Holding] = field(default_factory=dict)
    number: int | None = None
    protocol: str = "classic"
    assignor: str | None = None
    group_kind: str = "consumer"
    evidence: list[Evidence] = field(default_factory=list)


class LogEvent(Struct, frozen=True, kw_only=True):
    """One event of a group in a log: of a coordinator, of a client, or a listing.

    Attributes:
        at: ms since the epoch; -1: the log has no time that can be read.
        precision_ms: 1, or 1000 where the log has no fraction of a second.
        place: file and line, for the order of events of one moment.
        size: number of members in a coordinator's line.
        is_empty: the line reports that the group was empty before.
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
