"""Members and topics as an assignor sees them, made anew for every round."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from msgspec import Struct

from assignors.model import Member, Topic
from streaming.monitor import vote
from streaming.monitor.rounds import NOTHING, Ownership, existing
from streaming.monitor.state import GroupState, MemberState
from streaming.wire.events import Partitions


class Claim(NamedTuple):
    """What a member that joins says of itself: the assignor gets it as Kafka's would."""

    owned: Partitions
    generation: int


class _Joining(Struct, frozen=True):
    """:class:`assignors.model.Member` by attributes; a frozen dataclass takes eight times as long to make."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None
    rack_id: str | None
    owned: Partitions
    generation: int
    streams: None = None


def joining(
    state: GroupState,
    members: Sequence[MemberState],
    before: Ownership,
    claims: Mapping[str, Claim],
    generation: int,
    *,
    cooperative: bool,
) -> list[Member]:
    """The members as the JoinGroup response shows them to the assignor.

    ``sticky`` sends what was owned before the join; ``cooperative-sticky`` reads what is owned *at* the join,
    and a client that rebalances eagerly has given that up already. What a topic does not have any more, made
    again with fewer partitions, nobody brings to a join.

    ``generation`` is that of what they owned ``before``; ``cooperative``: the group runs ``cooperative-sticky``.
    """
    found: list[Any] = []
    known = state.topics
    listed: list[str] | None = None
    topics: tuple[str, ...] = ()
    for member in members:
        if member.topics != listed:  # members mostly share one subscription, and assignors look for that
            listed = member.topics
            topics = tuple(listed)
        claim = claims.get(member.member_id)
        owned, said = claim or (before.get(member.member_id, NOTHING), generation)
        if cooperative and owned and member.group_protocol == "classic" and not vote.cooperative(member):
            owned = NOTHING
        if owned:
            owned = existing(owned, known)
        found.append(_Joining(member.member_id, topics, member.instance_id, member.rack_id, owned, said))
    return found


def metadata(state: GroupState, *, ids: bool = False) -> dict[str, Topic]:
    """Cluster metadata for the assignor; a topic that was never announced has none.

    With ``ids`` every topic has one, made from its name where its events carry none: ``uniform`` orders by id.
    """
    return {
        name: Topic(
            name,
            topic.partitions,
            None if topic.racks is None else tuple(tuple(racks) for racks in topic.racks),
            (topic.topic_id or _stand_in_id(name)) if ids else topic.topic_id,
        )
        for name, topic in state.topics.items()
    }


def _stand_in_id(name: str) -> str:
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest()).decode().rstrip("=")
