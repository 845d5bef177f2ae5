"""Parses the reasons of ``Preparing to rebalance group … (reason: …)``, Kafka 2.1 to 4.3, and clients' reasons."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from streaming.collect.broker_log.events import NO_REASON, ReasonKind
from streaming.collect.broker_log.templates import compile_template, instance_id, split_members


class RebalanceReason(NamedTuple):
    """A parsed reason."""

    kind: ReasonKind
    member_ids: tuple[str, ...] = ()
    instance_id: str | None = None
    client_reason: str | None = None


_CLIENT: Final = "<; client reason: {client_reason}>"
#: Kind, first and last release, template. Clients' reasons are part of it from 3.2 on (KIP-800).
# fmt: off
REASONS: Final = (
    (ReasonKind.JOINED, "2.5", "4.3", f"Adding new member {{member}} with group instance id {{instance}}{_CLIENT}"),
    (ReasonKind.JOINED, "2.3", "2.4", "Adding new member {member} with group instanceid {instance}"),
    (ReasonKind.JOINED, "2.1", "2.2", "Adding new member {member}"),
    (ReasonKind.LEFT, "3.0", "3.9", f"Removing member {{member}} on LeaveGroup{_CLIENT}"),
    (ReasonKind.LEFT, "2.1", "2.8", "removing member {member} on LeaveGroup"),
    (ReasonKind.LEFT, "3.6", "4.3", "explicit `LeaveGroup` request for ({members}) members."),
    (ReasonKind.FENCED, "2.1", "4.3", "removing member {member} on heartbeat expiration."),
    (ReasonKind.FENCED, "3.0", "4.3", "Removing {set} on pending sync request expiration"),
    (ReasonKind.LEADER_REJOINED, "3.0", "4.3", f"Leader {{member}} re-joining group during {{state}}{_CLIENT}"),
    (ReasonKind.LEADER_REJOINED, "2.7", "2.8", "leader {member} re-joining group during {state}"),
    (ReasonKind.STATIC_REJOINED, "2.5", "4.3", f"Updating metadata for static member {{member}} with instance id {{instance}}{_CLIENT}"),
    (ReasonKind.STATIC_REJOINED, "2.7", "4.3", f"Group's selectedProtocol will change because static member {{member}} with instance id {{instance}} joined with change of protocol{_CLIENT}"),
    (ReasonKind.REJOINED, "2.7", "4.3", f"Updating metadata for member {{member}} during {{state}}{_CLIENT}"),
    (ReasonKind.REJOINED, "2.1", "2.6", "Updating metadata for member {member}"),
    (ReasonKind.REJOINED, "2.7", "4.3", f"Member {{member}} joining group during {{state}}{_CLIENT}"),
    (ReasonKind.STORE_FAILED, "3.0", "4.3", "Error< {word}> when storing group assignment< >during SyncGroup (member: {member})."),
    (ReasonKind.STORE_FAILED, "2.1", "2.8", "error when storing group assignment during SyncGroup (member: {member})"),
    (ReasonKind.OVER_CAPACITY, "2.2", "4.3", "Freshly-loaded group {any}"),
    (ReasonKind.DOWNGRADE, "3.8", "4.3", "Downgrade group {any}"),
)
# fmt: on
_PATTERNS: Final = tuple(
    (kind, re.compile(compile_template(text).pattern + r"\Z", re.DOTALL)) for kind, _, _, text in REASONS
)


def read_reason(text: str) -> RebalanceReason:
    """Parse a reason; an unknown wording is of kind ``other``."""
    for kind, pattern in _PATTERNS:
        match = pattern.match(text)
        if match is not None:
            part = match.groupdict()
            members = split_members(part["members"]) if "members" in part else (part.get("member", ""),)
            return RebalanceReason(
                kind,
                tuple(filter(None, members)),
                instance_id(part.get("instance")),
                None if part.get("client_reason") in (None, "", NO_REASON) else part["client_reason"],
            )
    return RebalanceReason(ReasonKind.OTHER)


#: Java's consumer rejoins because its last JoinGroup or SyncGroup got no answer.
_UNANSWERED: Final = re.compile(
    r"rebalance failed due to "
    r"(?:NotCoordinator|CoordinatorNotAvailable|CoordinatorLoadInProgress|Disconnect)Exception"
)


def is_unanswered(client_reason: str | None) -> bool:
    """True if a client rejoins because the coordinator did not answer."""
    return client_reason is not None and _UNANSWERED.match(client_reason) is not None


def is_metadata_change(client_reason: str | None) -> bool:
    """True if a leader rejoins because partitions or racks of its topics changed."""
    return client_reason is not None and client_reason.startswith("cached metadata has changed")


def is_subscription_change(client_reason: str | None) -> bool:
    """True if a client rejoins because its subscription changed."""
    return client_reason is not None and client_reason.startswith("subscription has changed")
