"""The messages of Kafka's group coordinators, from 2.0 to 4.3: text to event.

Read from the sources of each release. The classes:

- ``GroupCoordinator.scala``, ``GroupMetadata.scala``, ``GroupMetadataManager.scala`` (kafka.coordinator.group):
  classic groups up to 3.9.
- ``GroupMetadataManager.java`` (org.apache.kafka.coordinator.group): all groups from 4.0 on; from 3.6 to 3.9 where
  KIP-848 was enabled.

docs/reference/broker-log.md is this table for people (scripts/reference.py writes it). Messages that name no group are left
out: nothing can be told of them. The order counts: where two wordings fit a text, the first is it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from streaming.collect.broker_log.events import NO_REASON, CoordinatorEvent, Kind, Moment, Protocol
from streaming.collect.broker_log.rebalance_reasons import read_reason
from streaming.collect.broker_log.templates import (
    compile_template,
    instance_id,
    needle,
    opening,
    split_members,
)


class Message(NamedTuple):
    """One wording: the first and the last release that has it, its class, and the notation of ``templates``."""

    kind: Kind
    since: str
    until: str
    source: str
    template: str
    protocol: Protocol | None = None
    late: bool = False


#: The newest release that was read.
NEWEST: Final = "4.3"
_GC, _GM, _GMM = "GroupCoordinator.scala", "GroupMetadata.scala", "GroupMetadataManager.scala"
_JAVA = "GroupMetadataManager.java"
_BOTH = f"{_GC}, {_JAVA}"
#: ``MemberMetadata.toString`` (MemberMetadata.scala); 2.x has a comma before the closing parenthesis.
_METADATA = (
    "MemberMetadata(memberId={member}, groupInstanceId={instance}, clientId={client}, clientHost={host}, "
    "sessionTimeoutMs={count}, rebalanceTimeoutMs={count}, supportedProtocols={any})"
)

# A message is one line, as in the log.
# fmt: off
MESSAGES: Final = (
    Message(Kind.PREPARING, "2.1", "3.9", _GC, "Preparing to rebalance group {group} in state {state} with old generation {number} {partition} (reason: {reason})"),
    Message(Kind.PREPARING, "3.6", NEWEST, _JAVA, "Preparing to rebalance group {group} in state {state} with old generation {number} (reason: {reason})."),
    Message(Kind.PREPARING, "2.0", "2.0", _GC, "Preparing to rebalance group {group} with old generation {number} {partition}"),
    Message(Kind.STABILIZED, "2.0", "2.7", _GC, "Stabilized group {group} generation {number} {partition}"),
    Message(Kind.STABILIZED, "2.8", "3.9", _GC, "Stabilized group {group} generation {number} {partition} with {count} members"),
    Message(Kind.STABILIZED, "3.6", NEWEST, _JAVA, "Stabilized group {group} generation {number} with {count} members."),
    Message(Kind.ASSIGNMENT_RECEIVED, "2.0", "2.8", _GC, "Assignment received from leader for group {group} for generation {number}<. The group has {count} members, {count} of which are static.>"),
    Message(Kind.ASSIGNMENT_RECEIVED, "3.0", NEWEST, _BOTH, "Assignment received from leader {member} for group {group} for generation {number}<. The group has {count} members, {count} of which are static.>"),
    Message(Kind.GROUP_EMPTY, "2.0", "3.9", _GC, "Group {group} with generation {number} is now empty {partition}"),
    Message(Kind.GROUP_EMPTY, "3.6", NEWEST, _JAVA, "Group {group} with generation {number} is now empty."),
    Message(Kind.GROUP_DEAD, "2.0", "3.9", _GMM, "Group {group} transitioned to Dead in generation {number}"),
    Message(Kind.GROUP_DEAD, "2.3", NEWEST, _BOTH, "Group {group} is dead, skipping rebalance stage."),
    Message(Kind.REBALANCE_STALLED, "2.3", NEWEST, _BOTH, "Group {group} could not complete rebalance because no members rejoined."),
    Message(Kind.GROUP_LOADED, "2.0", "3.9", _GC, "Loading group metadata for {group} with generation {number}"),
    Message(Kind.MEMBER_LOADED, "2.8", "3.9", _GM, f"Loaded member {_METADATA} in group {{group}} with generation {{number}}."),
    Message(Kind.GROUP_LOADED, "3.6", "3.6", _JAVA, "Loaded generic group {group} with {count} members.", "classic"),
    Message(Kind.GROUP_LOADED, "3.7", NEWEST, _JAVA, "Loaded classic group {group} with {count} members.", "classic"),
    Message(Kind.GROUP_LOADED, "3.6", NEWEST, _JAVA, "Loaded consumer group {group} with {count} members.", "consumer"),
    Message(Kind.GROUP_LOADED, "4.1", NEWEST, _JAVA, "Loaded share group {group} with {count} members.", "share"),
    Message(Kind.GROUP_LOADED, "4.1", NEWEST, _JAVA, "Loaded streams group {group} with {count} members.", "streams"),
    Message(Kind.GROUP_UNLOADED, "2.0", "3.9", _GC, "Unloading group metadata for {group} with generation {number}"),
    Message(Kind.GROUP_UNLOADED, "3.6", NEWEST, _JAVA, "[GroupId={group}] Unloading group metadata for generation {number}.", "classic"),
    Message(Kind.GROUP_UNLOADED, "3.6", NEWEST, _JAVA, "[GroupId={group}] Unloaded group metadata for group epoch {number}."),
    # Members of classic groups.
    Message(Kind.MEMBER_LEFT, "2.2", "2.3", _GC, "Member {member} in group {group} ^has left, removing it from the group"),
    Message(Kind.MEMBER_LEFT, "2.4", "2.8", _GC, "Member[group.instance.id {instance}, member.id {member}] in group {group} ^has left, removing it from the group"),
    Message(Kind.MEMBER_LEFT, "3.0", "3.1", _GC, f"Member {_METADATA} has left group {{group}} through ^explicit `LeaveGroup` request", late=True),
    Message(Kind.MEMBER_LEFT, "3.2", "3.9", _GC, f"Member {_METADATA} has left group {{group}} through ^explicit `LeaveGroup`; client reason: {{client_reason}}", late=True),
    Message(Kind.MEMBER_LEFT, "3.7", NEWEST, _JAVA, "[Group {group}] Member {member} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}"),
    Message(Kind.MEMBER_FENCED, "2.0", NEWEST, _BOTH, "Member {member} in group {group} ^has failed, removing it from the group."),
    Message(Kind.MEMBER_FENCED, "2.7", "2.7", _GC, "Group {group} remove dynamic members who haven't joined: {set}"),
    Message(Kind.MEMBER_FENCED, "2.8", NEWEST, _BOTH, "Group {group} removed dynamic members who haven't joined: {set}"),
    Message(Kind.MEMBER_JOINING, "2.5", "3.9", _GC, "Dynamic Member with unknown member id joins group {group} in {state} state. Created a new member id {member} for this member and add to the group."),
    Message(Kind.MEMBER_JOINING, "2.5", "2.8", _GC, "Static Member with unknown member id joins group {group} in {state} state. Created a new member id {member} for this member and add to the group."),
    Message(Kind.MEMBER_JOINING, "3.0", NEWEST, _BOTH, "Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state. Created a new member id {member} for this member and add<ed> to the group."),
    Message(Kind.MEMBER_JOINING, "3.0", NEWEST, _BOTH, "Dynamic member with unknown member id joins group {group} in {state} state. Created a new member id {member} and request<ing> the member to rejoin with this id."),
    Message(Kind.MEMBER_JOINING, "3.6", NEWEST, _JAVA, "Dynamic member with unknown member id joins group {group} in state {state}. Created a new member id {member} and added the member to the group."),
    Message(Kind.MEMBER_JOINING, "4.0", NEWEST, _JAVA, "Pending dynamic member with id {member} joins group {group} in {state} state. Adding to the group now."),
    Message(Kind.STATIC_REPLACED, "2.5", "2.8", _GC, "Static member {instance} of group {group} with unknown member id rejoins, assigning new member id {member}, while old member id {other} will be removed."),
    Message(Kind.STATIC_REPLACED, "3.0", NEWEST, _BOTH, "Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state. Replacing previously mapped member {other} with this groupInstanceId."),
    Message(Kind.PENDING_GONE, "2.2", "2.8", _GC, "Pending member {member} is leaving group {group}."),
    Message(Kind.PENDING_GONE, "3.0", "3.9", _GC, "Pending member with memberId={member} has left group {group} through explicit `LeaveGroup` request"),
    Message(Kind.PENDING_GONE, "3.7", NEWEST, _JAVA, "[Group {group}] Pending member {member} has left group through explicit `LeaveGroup` request; client reason: {client_reason}"),
    Message(Kind.PENDING_GONE, "2.2", NEWEST, _BOTH, "Pending member {member} in group {group} has been removed after session timeout expiration."),
    # Members of groups with epochs, and migrations.
    Message(Kind.EPOCH_BUMPED, "3.6", NEWEST, _JAVA, "[GroupId {group}] Bumped group epoch to {number}{any}"),
    Message(Kind.EPOCH_BUMPED, "4.1", NEWEST, _JAVA, "[GroupId {group}][MemberId {member}] Bumped streams group epoch to {number}{any}", "streams"),
    Message(Kind.TARGET_COMPUTED, "3.6", NEWEST, _JAVA, "[GroupId {group}] Computed a new target assignment for epoch {number}{any}"),
    Message(Kind.MEMBER_JOINED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^joins the consumer group using the {protocol} protocol."),
    Message(Kind.MEMBER_JOINED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^joins the consumer group using the {protocol} protocol."),
    Message(Kind.MEMBER_JOINED, "3.6", "3.8", _JAVA, "[GroupId {group}] Member {member} ^joins the consumer group."),
    Message(Kind.MEMBER_JOINED, "3.7", "3.8", _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^joins the consumer group."),
    Message(Kind.MEMBER_JOINED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^joins the share group using the share protocol.", "share"),
    Message(Kind.MEMBER_JOINED, "4.1", NEWEST, _JAVA, "[GroupId {group}][MemberId {member}] ^Member joins the streams group.", "streams"),
    Message(Kind.MEMBER_JOINING, "3.8", NEWEST, _JAVA, "[GroupId {group}] Dynamic member with unknown member id joins the consumer group. Created a new member id {member} and requesting the member to rejoin with this id.", "classic"),
    Message(Kind.STATIC_REPLACED, "3.7", "3.8", _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} re-joins the consumer group."),
    Message(Kind.STATIC_REPLACED, "3.8", "3.8", _JAVA, "[GroupId {group}] Static member with unknown member id and instance id {instance} re-joins the consumer group. Created a new member {member} to replace the existing member {other}."),
    Message(Kind.STATIC_REPLACED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Static member with instance id {instance} re-joins the consumer group using the {protocol} protocol. Created a new member {member} to replace the existing member {other}."),
    Message(Kind.MEMBER_LEFT, "3.6", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^left the consumer group."),
    Message(Kind.STATIC_AWAY, "3.7", "3.9", _JAVA, "[GroupId {group}] Static Member {member} with instance id {instance} ^temporarily left the consumer group."),
    Message(Kind.STATIC_AWAY, "4.0", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^temporarily left the consumer group."),
    Message(Kind.MEMBER_LEFT, "3.7", "3.9", _JAVA, "[GroupId {group}] Static Member {member} with instance id {instance} ^left the consumer group."),
    Message(Kind.MEMBER_LEFT, "4.0", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^left the consumer group."),
    Message(Kind.MEMBER_LEFT, "3.9", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^left the share group.", "share"),
    Message(Kind.MEMBER_LEFT, "4.1", NEWEST, _JAVA, "[GroupId {group}][MemberId {other}] Member {member} ^left the streams group.", "streams"),
    Message(Kind.MEMBER_LEFT, "3.8", "3.9", _JAVA, "[Group {group}] Dynamic Member {member} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(Kind.MEMBER_LEFT, "3.8", "3.9", _JAVA, "[Group {group}] Static Member {member} with instance id {instance} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(Kind.MEMBER_LEFT, "4.0", NEWEST, _JAVA, "[GroupId {group}] Dynamic member {member} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(Kind.MEMBER_LEFT, "4.0", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(Kind.MEMBER_FENCED, "3.6", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^fenced from the group because {sentence}"),
    Message(Kind.MEMBER_FENCED, "4.1", NEWEST, _JAVA, "[GroupId {group}] Streams member {member} ^fenced from the group because {sentence}", "streams"),
    Message(Kind.INSTANCE_REFUSED, "3.7", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^cannot join the group because the instance id is <is >owned by member {other}."),
    Message(Kind.INSTANCE_REFUSED, "3.7", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^is fenced by existing member {other}."),
    Message(Kind.UPGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the classic group to a consumer group.", "consumer"),
    Message(Kind.UPGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty classic group to a consumer group.", "consumer"),
    Message(Kind.UPGRADED, "4.2", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty classic group to a streams group.", "streams"),
    Message(Kind.DOWNGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the consumer group to a classic group.", "classic"),
    Message(Kind.DOWNGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty consumer group to a classic group.", "classic"),
    Message(Kind.DOWNGRADED, "4.2", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty streams group to a classic group.", "classic"),
    Message(Kind.MIGRATION_REFUSED, "3.8", NEWEST, _JAVA, "Cannot upgrade <the >classic group {group} to consumer group ^because {any}."),
    Message(Kind.MIGRATION_REFUSED, "3.8", NEWEST, _JAVA, "Cannot downgrade consumer group {group} to classic group ^because {any}."),
    Message(Kind.MIGRATION_REFUSED, "4.3", NEWEST, _JAVA, "Cannot join the consumer group {group} with the classic protocol ^because the group migration is disabled."),
)
# fmt: on

_PROTOCOLS: Final[dict[str | None, Protocol]] = {"classic": "classic", "consumer": "consumer"}


class _Compiled(NamedTuple):
    message: Message
    needle: str
    pattern: re.Pattern[str]


_COMPILED: Final = tuple(
    _Compiled(message, needle(message.template), compile_template(message.template)) for message in MESSAGES
)
#: The words that messages begin with.
OPENINGS: Final = tuple(dict.fromkeys(opening(message.template) for message in MESSAGES))


def read_message(text: str, moment: Moment | None, *, is_exact: bool) -> CoordinatorEvent | None:
    """Return what a message reports; None: it is not one of :data:`MESSAGES`.

    Args:
        text: the message, from its first word on.
        moment: its timestamp.
        is_exact: whether it is known to end where the text does; else something may follow it.
    """
    for message, literal, pattern in _COMPILED:
        if literal in text and (match := pattern.fullmatch(text)) is not None:
            return _event(message, match, moment, is_exact=is_exact)
    return None


def read_beginning(text: str, moment: Moment | None) -> CoordinatorEvent | None:
    """Return what the message at the beginning of a text reports; None: no message begins there."""
    for message, literal, pattern in _COMPILED:
        if literal in text and (match := pattern.match(text)) is not None:
            return _event(message, match, moment, is_exact=False)
    return None


def _event(
    message: Message, match: re.Match[str], moment: Moment | None, *, is_exact: bool
) -> CoordinatorEvent:
    part = match.groupdict()
    reason = (part.get("reason") or "").strip()
    member_ids = tuple(part[name] for name in ("member", "other") if part.get(name) is not None)
    if message.kind is Kind.MEMBER_LEFT:
        member_ids = member_ids[:1]
    if part.get("members") is not None:
        opened = match.string[match.start("members") - 1]
        members = part["members"] if is_exact else _closed(part["members"], "[]" if opened == "[" else "()")
        member_ids, reason = split_members(members), "did not join again in time"
    client_reason, reason_kind, instance = part.get("client_reason"), None, instance_id(part.get("instance"))
    if message.kind is Kind.PREPARING and reason:
        reason = reason if is_exact else _closed(reason, "()")
        reason_kind, member_ids, instance, client_reason = read_reason(reason)
    return CoordinatorEvent(
        kind=message.kind,
        group_id=part["group"],
        number=None if part.get("number") is None else int(part["number"]),
        member_ids=member_ids,
        instance_id=instance,
        client_id=part.get("client"),
        host=part.get("host"),
        protocol=_PROTOCOLS.get(part.get("protocol"), message.protocol),
        reason=reason,
        reason_kind=reason_kind,
        client_reason=None if client_reason in (None, "", NO_REASON) else client_reason,
        late=message.late,
        moment=moment,
    )


def _closed(text: str, brackets: str) -> str:
    """Return what stands before the bracket that closes one opened before the text."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == brackets[0]) - (character == brackets[1])
        if depth < 0:
            return text[:at]
    return text
