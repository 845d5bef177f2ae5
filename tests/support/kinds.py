"""Collectors' snapshots of Connect, Streams and share groups."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from streaming.records.events import Event, Evidence, GroupObserved, Holding, ObservedMember
from tests.support.histories import Log


def workers(
    log: Log,
    generation: int,
    runs: dict[str, Holding],
    *,
    revoked: dict[str, Holding] | None = None,
    delay_ms: int | None = None,
    protocol: str = "sessioned",
    evidence: list[Evidence] | None = None,
) -> Event:
    """Return a snapshot of a Connect group: the tasks of each worker after this generation."""
    return log.event(
        GroupObserved,
        members=[
            ObservedMember(member_id=name, topics=[], assigned=share, pending_revocation=(revoked or {}).get(name, {}))
            for name, share in runs.items()
        ],
        generation=generation,
        protocol_type="connect",
        protocol=protocol,
        kind="connect",
        delay_ms=UNSET if delay_ms is None else delay_ms,
        evidence=evidence or [],
    )


def streams(log: Log, epoch: int, members: dict[str, dict[str, Any]], state: str = "Stable") -> Event:
    """Return a snapshot of a streams group at this epoch."""
    return log.event(
        GroupObserved,
        members=[
            ObservedMember(member_id=name, topics=["in"], **{"standby": {}, "warmup": {}} | fields)
            for name, fields in members.items()
        ],
        group_epoch=epoch,
        group_protocol="streams",
        protocol_type="streams",
        state=state,
        kind="streams",
    )


def share(log: Log, epoch: int, members: dict[str, Holding]) -> Event:
    """Return a snapshot of a share group at this epoch."""
    return log.event(
        GroupObserved,
        members=[ObservedMember(member_id=name, topics=["t"], assigned=held) for name, held in members.items()],
        group_epoch=epoch,
        group_protocol="share",
        protocol_type="share",
        kind="share",
    )
