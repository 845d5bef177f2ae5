"""An incident as it stands in its topic, from what is kept of it."""

from __future__ import annotations

from typing import cast

from msgspec import structs

from streaming.episodes.wording import moment
from streaming.incidents.state import Condition
from streaming.records.codec import encode
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Incident, IncidentKind


def record(group_id: str, kind: str, known: Condition) -> Incident:
    """The record of a group's incident."""
    told = Incident(
        group_id=group_id,
        incident=known.number,
        kind=cast("IncidentKind", kind),
        status="open" if known.lasts else "closed",
        opened_at=known.opened_at,
        updated_at=known.updated_at,
        closed_at=known.closed_at or None,
        times=known.times,
        member_ids=list(known.member_ids),
        partitions=known.partitions,
        episode=known.episode or None,
        sure=known.sure,
        evidence=list(known.evidence),
        story="",
        names={
            one: MemberNames(
                client_id=who.client_id, client_host=who.client_host, group_instance_id=who.group_instance_id
            )
            for one, who in known.names.items()
        },
    )
    return structs.replace(told, story=_story(known))


def fitting(group_id: str, kind: str, known: Condition, limit: int) -> bytes:
    """The JSON of :func:`record`, without who and which where it would have more than ``limit`` bytes."""
    value = encode(record(group_id, kind, known))
    if len(value) <= limit:
        return value
    bare = structs.replace(known, what=known.what[:1000], member_ids=(), names={}, partitions={}, evidence=())
    return encode(record(group_id, kind, bare))


def _story(known: Condition) -> str:
    """What is wrong, since when, and whether it is over. Times are in UTC."""
    what = known.what
    if known.lasts:
        when = f"since {moment(known.opened_at)}"
    else:
        when = f"from {moment(known.opened_at)} to {moment(known.closed_at)}"
    often = f", it has come {known.times} times" if known.times > 1 else ""
    return f"{what} ({when} UTC{often}). {'It lasts.' if known.lasts else 'Over.'}"
