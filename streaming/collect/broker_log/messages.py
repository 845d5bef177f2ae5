"""The messages of Kafka's group coordinators, from 2.0 to 4.3: text to event.

Taken from the sources of each release. The classes:

- ``GroupCoordinator.scala``, ``GroupMetadata.scala``, ``GroupMetadataManager.scala`` (kafka.coordinator.group):
  classic groups up to 3.9.
- ``GroupMetadataManager.java`` (org.apache.kafka.coordinator.group): all groups from 4.0 on; from 3.6 to 3.9 where
  KIP-848 was enabled.

scripts/reference.py writes docs/reference/broker-log.md from this table. It leaves out messages without a group. Where
two templates match a text, the first wins.

A template is literal text with fields in braces. ``{group}`` is greedy, as a group id may contain a message's words.
``{member}`` ends at a UUID if there is one. ``^`` marks the beginning of the reason that people read. ``<…>`` is
optional, and so is a full stop at the end. Ids have 500 characters at most: clients choose them, and an unbounded
pattern takes half a minute for a malicious line of 32 kB. Numbers have ten digits at most, as Kafka's INT32 has.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from streaming.collect.broker_log.events import (
    NO_REASON,
    CoordinatorEvent,
    LogTimestamp,
    MessageKind,
    Protocol,
    ReasonKind,
)

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID: Final = rf"(?:.{{0,500}}?{_UUID}|.{{1,500}}?)"
_FIELDS: Final = {
    "group": r"(?P<group>.{1,500})",
    "member": rf"(?P<member>{_ID})",
    "other": rf"(?P<other>{_ID})",
    "instance": r"(?P<instance>None|null|Some\(.{1,500}?\)|.{1,500}?)",
    "client": r"(?P<client>.{0,500}?)",
    "host": r"(?P<host>.{0,500}?)",
    "members": r"(?P<members>.*)",
    "set": r"\w*[\[(](?P<members>.*)[\])]",
    "number": r"(?P<number>-?[0-9]{1,10})(?![0-9])",
    "count": r"-?[0-9]{1,10}",
    "protocol": r"(?P<protocol>classic|consumer)",
    "state": r"\w+",
    "partition": r"\([\w.-]+-[0-9]+\)",
    "reason": r"(?P<reason>.*)",
    "client_reason": r"(?P<client_reason>.*)",
    "any": r".*",
    "sentence": r"[^.]*\.*",
    "word": r"[^\s,]{1,500}",
}
_PIECE: Final = re.compile(r"\{(\w+)\}|([<>^])")


def compile_template(text: str) -> re.Pattern[str]:
    """Return the pattern of a template; it matches at the beginning of a message."""
    pattern, at, has_reason = "", 0, False
    for piece in _PIECE.finditer(text):
        pattern += re.escape(text[at : piece.start()])
        at = piece.end()
        if piece[1] is not None:
            pattern += _FIELDS[piece[1]]
        elif piece[2] == "^":
            pattern, has_reason = pattern + "(?P<reason>", True
        else:
            pattern += "(?:" if piece[2] == "<" else ")?"
    pattern += re.escape(text[at:].removesuffix(".")) + (r"\.?" if text.endswith(".") else "")
    pattern += ")" if has_reason else ""
    return re.compile(pattern, re.DOTALL)


def needle(text: str) -> str:
    """Return the longest literal that every message of a template contains."""
    mandatory = re.sub(r"<[^>]*>|\.$", "{}", text)
    return max(re.split(r"\{\w*\}|\^", mandatory), key=len)


def opening(text: str) -> str:
    """Return the literal that a template begins with."""
    return re.split(r"[{<^]", text, maxsplit=1)[0]


def split_members(text: str) -> tuple[str, ...]:
    """Return the member ids of a list; ids with a UUID at the end may contain commas."""
    separator = rf"(?<={_UUID}), " if re.search(rf"{_UUID}(?:, |$)", text) else ", "
    return tuple(member for member in re.split(separator, text) if member)


def instance_id(text: str | None) -> str | None:
    """Return the instance id in Scala's ``Some(x)``/``None`` or Java's ``x``/``null``."""
    if text is None or text in ("None", "null", ""):
        return None
    return text[5:-1] if text.startswith("Some(") and text.endswith(")") else text


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


class Message(NamedTuple):
    """One template of a message, the first and the last release that has it, and its class."""

    kind: MessageKind
    since: str
    until: str
    source: str
    template: str
    protocol: Protocol | None = None
    late: bool = False


#: The newest known release.
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
    Message(MessageKind.PREPARING, "2.1", "3.9", _GC, "Preparing to rebalance group {group} in state {state} with old generation {number} {partition} (reason: {reason})"),
    Message(MessageKind.PREPARING, "3.6", NEWEST, _JAVA, "Preparing to rebalance group {group} in state {state} with old generation {number} (reason: {reason})."),
    Message(MessageKind.PREPARING, "2.0", "2.0", _GC, "Preparing to rebalance group {group} with old generation {number} {partition}"),
    Message(MessageKind.STABILIZED, "2.0", "2.7", _GC, "Stabilized group {group} generation {number} {partition}"),
    Message(MessageKind.STABILIZED, "2.8", "3.9", _GC, "Stabilized group {group} generation {number} {partition} with {count} members"),
    Message(MessageKind.STABILIZED, "3.6", NEWEST, _JAVA, "Stabilized group {group} generation {number} with {count} members."),
    Message(MessageKind.ASSIGNMENT_RECEIVED, "2.0", "2.8", _GC, "Assignment received from leader for group {group} for generation {number}<. The group has {count} members, {count} of which are static.>"),
    Message(MessageKind.ASSIGNMENT_RECEIVED, "3.0", NEWEST, _BOTH, "Assignment received from leader {member} for group {group} for generation {number}<. The group has {count} members, {count} of which are static.>"),
    Message(MessageKind.GROUP_EMPTY, "2.0", "3.9", _GC, "Group {group} with generation {number} is now empty {partition}"),
    Message(MessageKind.GROUP_EMPTY, "3.6", NEWEST, _JAVA, "Group {group} with generation {number} is now empty."),
    Message(MessageKind.GROUP_DEAD, "2.0", "3.9", _GMM, "Group {group} transitioned to Dead in generation {number}"),
    Message(MessageKind.GROUP_DEAD, "2.3", NEWEST, _BOTH, "Group {group} is dead, skipping rebalance stage."),
    Message(MessageKind.REBALANCE_STALLED, "2.3", NEWEST, _BOTH, "Group {group} could not complete rebalance because no members rejoined."),
    Message(MessageKind.GROUP_LOADED, "2.0", "3.9", _GC, "Loading group metadata for {group} with generation {number}"),
    Message(MessageKind.MEMBER_LOADED, "2.8", "3.9", _GM, f"Loaded member {_METADATA} in group {{group}} with generation {{number}}."),
    Message(MessageKind.GROUP_LOADED, "3.6", "3.6", _JAVA, "Loaded generic group {group} with {count} members.", "classic"),
    Message(MessageKind.GROUP_LOADED, "3.7", NEWEST, _JAVA, "Loaded classic group {group} with {count} members.", "classic"),
    Message(MessageKind.GROUP_LOADED, "3.6", NEWEST, _JAVA, "Loaded consumer group {group} with {count} members.", "consumer"),
    Message(MessageKind.GROUP_LOADED, "4.1", NEWEST, _JAVA, "Loaded share group {group} with {count} members.", "share"),
    Message(MessageKind.GROUP_LOADED, "4.1", NEWEST, _JAVA, "Loaded streams group {group} with {count} members.", "streams"),
    Message(MessageKind.GROUP_UNLOADED, "2.0", "3.9", _GC, "Unloading group metadata for {group} with generation {number}"),
    Message(MessageKind.GROUP_UNLOADED, "3.6", NEWEST, _JAVA, "[GroupId={group}] Unloading group metadata for generation {number}.", "classic"),
    Message(MessageKind.GROUP_UNLOADED, "3.6", NEWEST, _JAVA, "[GroupId={group}] Unloaded group metadata for group epoch {number}."),
    # Members of classic groups.
    Message(MessageKind.MEMBER_LEFT, "2.2", "2.3", _GC, "Member {member} in group {group} ^has left, removing it from the group"),
    Message(MessageKind.MEMBER_LEFT, "2.4", "2.8", _GC, "Member[group.instance.id {instance}, member.id {member}] in group {group} ^has left, removing it from the group"),
    Message(MessageKind.MEMBER_LEFT, "3.0", "3.1", _GC, f"Member {_METADATA} has left group {{group}} through ^explicit `LeaveGroup` request", late=True),
    Message(MessageKind.MEMBER_LEFT, "3.2", "3.9", _GC, f"Member {_METADATA} has left group {{group}} through ^explicit `LeaveGroup`; client reason: {{client_reason}}", late=True),
    Message(MessageKind.MEMBER_LEFT, "3.7", NEWEST, _JAVA, "[Group {group}] Member {member} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}"),
    Message(MessageKind.MEMBER_FENCED, "2.0", NEWEST, _BOTH, "Member {member} in group {group} ^has failed, removing it from the group."),
    Message(MessageKind.MEMBER_FENCED, "2.7", "2.7", _GC, "Group {group} remove dynamic members who haven't joined: {set}"),
    Message(MessageKind.MEMBER_FENCED, "2.8", NEWEST, _BOTH, "Group {group} removed dynamic members who haven't joined: {set}"),
    Message(MessageKind.MEMBER_JOINING, "2.5", "3.9", _GC, "Dynamic Member with unknown member id joins group {group} in {state} state. Created a new member id {member} for this member and add to the group."),
    Message(MessageKind.MEMBER_JOINING, "2.5", "2.8", _GC, "Static Member with unknown member id joins group {group} in {state} state. Created a new member id {member} for this member and add to the group."),
    Message(MessageKind.MEMBER_JOINING, "3.0", NEWEST, _BOTH, "Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state. Created a new member id {member} for this member and add<ed> to the group."),
    Message(MessageKind.MEMBER_JOINING, "3.0", NEWEST, _BOTH, "Dynamic member with unknown member id joins group {group} in {state} state. Created a new member id {member} and request<ing> the member to rejoin with this id."),
    Message(MessageKind.MEMBER_JOINING, "3.6", NEWEST, _JAVA, "Dynamic member with unknown member id joins group {group} in state {state}. Created a new member id {member} and added the member to the group."),
    Message(MessageKind.MEMBER_JOINING, "4.0", NEWEST, _JAVA, "Pending dynamic member with id {member} joins group {group} in {state} state. Adding to the group now."),
    Message(MessageKind.STATIC_REPLACED, "2.5", "2.8", _GC, "Static member {instance} of group {group} with unknown member id rejoins, assigning new member id {member}, while old member id {other} will be removed."),
    Message(MessageKind.STATIC_REPLACED, "3.0", NEWEST, _BOTH, "Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state. Replacing previously mapped member {other} with this groupInstanceId."),
    Message(MessageKind.PENDING_GONE, "2.2", "2.8", _GC, "Pending member {member} is leaving group {group}."),
    Message(MessageKind.PENDING_GONE, "3.0", "3.9", _GC, "Pending member with memberId={member} has left group {group} through explicit `LeaveGroup` request"),
    Message(MessageKind.PENDING_GONE, "3.7", NEWEST, _JAVA, "[Group {group}] Pending member {member} has left group through explicit `LeaveGroup` request; client reason: {client_reason}"),
    Message(MessageKind.PENDING_GONE, "2.2", NEWEST, _BOTH, "Pending member {member} in group {group} has been removed after session timeout expiration."),
    # Members of groups with epochs, and migrations.
    Message(MessageKind.EPOCH_BUMPED, "3.6", NEWEST, _JAVA, "[GroupId {group}] Bumped group epoch to {number}{any}"),
    Message(MessageKind.EPOCH_BUMPED, "4.1", NEWEST, _JAVA, "[GroupId {group}][MemberId {member}] Bumped streams group epoch to {number}{any}", "streams"),
    Message(MessageKind.TARGET_COMPUTED, "3.6", NEWEST, _JAVA, "[GroupId {group}] Computed a new target assignment for epoch {number}{any}"),
    Message(MessageKind.MEMBER_JOINED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^joins the consumer group using the {protocol} protocol."),
    Message(MessageKind.MEMBER_JOINED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^joins the consumer group using the {protocol} protocol."),
    Message(MessageKind.MEMBER_JOINED, "3.6", "3.8", _JAVA, "[GroupId {group}] Member {member} ^joins the consumer group."),
    Message(MessageKind.MEMBER_JOINED, "3.7", "3.8", _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^joins the consumer group."),
    Message(MessageKind.MEMBER_JOINED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^joins the share group using the share protocol.", "share"),
    Message(MessageKind.MEMBER_JOINED, "4.1", NEWEST, _JAVA, "[GroupId {group}][MemberId {member}] ^Member joins the streams group.", "streams"),
    Message(MessageKind.MEMBER_JOINING, "3.8", NEWEST, _JAVA, "[GroupId {group}] Dynamic member with unknown member id joins the consumer group. Created a new member id {member} and requesting the member to rejoin with this id.", "classic"),
    Message(MessageKind.STATIC_REPLACED, "3.7", "3.8", _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} re-joins the consumer group."),
    Message(MessageKind.STATIC_REPLACED, "3.8", "3.8", _JAVA, "[GroupId {group}] Static member with unknown member id and instance id {instance} re-joins the consumer group. Created a new member {member} to replace the existing member {other}."),
    Message(MessageKind.STATIC_REPLACED, "3.9", NEWEST, _JAVA, "[GroupId {group}] Static member with instance id {instance} re-joins the consumer group using the {protocol} protocol. Created a new member {member} to replace the existing member {other}."),
    Message(MessageKind.MEMBER_LEFT, "3.6", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^left the consumer group."),
    Message(MessageKind.STATIC_AWAY, "3.7", "3.9", _JAVA, "[GroupId {group}] Static Member {member} with instance id {instance} ^temporarily left the consumer group."),
    Message(MessageKind.STATIC_AWAY, "4.0", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^temporarily left the consumer group."),
    Message(MessageKind.MEMBER_LEFT, "3.7", "3.9", _JAVA, "[GroupId {group}] Static Member {member} with instance id {instance} ^left the consumer group."),
    Message(MessageKind.MEMBER_LEFT, "4.0", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^left the consumer group."),
    Message(MessageKind.MEMBER_LEFT, "3.9", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^left the share group.", "share"),
    Message(MessageKind.MEMBER_LEFT, "4.1", NEWEST, _JAVA, "[GroupId {group}][MemberId {other}] Member {member} ^left the streams group.", "streams"),
    Message(MessageKind.MEMBER_LEFT, "3.8", "3.9", _JAVA, "[Group {group}] Dynamic Member {member} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(MessageKind.MEMBER_LEFT, "3.8", "3.9", _JAVA, "[Group {group}] Static Member {member} with instance id {instance} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(MessageKind.MEMBER_LEFT, "4.0", NEWEST, _JAVA, "[GroupId {group}] Dynamic member {member} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(MessageKind.MEMBER_LEFT, "4.0", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} has left group through ^explicit `LeaveGroup` request; client reason: {client_reason}", "classic"),
    Message(MessageKind.MEMBER_FENCED, "3.6", NEWEST, _JAVA, "[GroupId {group}] Member {member} ^fenced from the group because {sentence}"),
    Message(MessageKind.MEMBER_FENCED, "4.1", NEWEST, _JAVA, "[GroupId {group}] Streams member {member} ^fenced from the group because {sentence}", "streams"),
    Message(MessageKind.INSTANCE_REFUSED, "3.7", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^cannot join the group because the instance id is <is >owned by member {other}."),
    Message(MessageKind.INSTANCE_REFUSED, "3.7", NEWEST, _JAVA, "[GroupId {group}] Static member {member} with instance id {instance} ^is fenced by existing member {other}."),
    Message(MessageKind.UPGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the classic group to a consumer group.", "consumer"),
    Message(MessageKind.UPGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty classic group to a consumer group.", "consumer"),
    Message(MessageKind.UPGRADED, "4.2", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty classic group to a streams group.", "streams"),
    Message(MessageKind.DOWNGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the consumer group to a classic group.", "classic"),
    Message(MessageKind.DOWNGRADED, "4.0", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty consumer group to a classic group.", "classic"),
    Message(MessageKind.DOWNGRADED, "4.2", NEWEST, _JAVA, "[GroupId {group}] ^Converted the empty streams group to a classic group.", "classic"),
    Message(MessageKind.MIGRATION_REFUSED, "3.8", NEWEST, _JAVA, "Cannot upgrade <the >classic group {group} to consumer group ^because {any}."),
    Message(MessageKind.MIGRATION_REFUSED, "3.8", NEWEST, _JAVA, "Cannot downgrade consumer group {group} to classic group ^because {any}."),
    Message(MessageKind.MIGRATION_REFUSED, "4.3", NEWEST, _JAVA, "Cannot join the consumer group {group} with the classic protocol ^because the group migration is disabled."),
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
#: The first words of messages.
OPENINGS: Final = tuple(dict.fromkeys(opening(message.template) for message in MESSAGES))


def read_message(text: str, timestamp: LogTimestamp | None, *, is_exact: bool) -> CoordinatorEvent | None:
    """Return the event of a message; None: it matches none of :data:`MESSAGES`.

    Args:
        text: the message, from its first word on.
        timestamp: its timestamp.
        is_exact: the message certainly ends with the text.
    """
    for message, literal, pattern in _COMPILED:
        if literal in text and (match := pattern.fullmatch(text)) is not None:
            return _event(message, match, timestamp, is_exact=is_exact)
    return None


def read_beginning(text: str, timestamp: LogTimestamp | None) -> CoordinatorEvent | None:
    """Return the event of the message that a text begins with; None: there is none."""
    for message, literal, pattern in _COMPILED:
        if literal in text and (match := pattern.match(text)) is not None:
            return _event(message, match, timestamp, is_exact=False)
    return None


def _event(
    message: Message, match: re.Match[str], timestamp: LogTimestamp | None, *, is_exact: bool
) -> CoordinatorEvent:
    part = match.groupdict()
    reason = (part.get("reason") or "").strip()
    member_ids = tuple(part[name] for name in ("member", "other") if part.get(name) is not None)
    if message.kind is MessageKind.MEMBER_LEFT:
        member_ids = member_ids[:1]
    if part.get("members") is not None:
        opened = match.string[match.start("members") - 1]
        members = part["members"] if is_exact else _closed(part["members"], "[]" if opened == "[" else "()")
        member_ids, reason = split_members(members), "did not join again in time"
    client_reason, reason_kind, instance = part.get("client_reason"), None, instance_id(part.get("instance"))
    if message.kind is MessageKind.PREPARING and reason:
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
        timestamp=timestamp,
    )


def _closed(text: str, brackets: str) -> str:
    """Return the text before the bracket that closes one opened before it."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == brackets[0]) - (character == brackets[1])
        if depth < 0:
            return text[:at]
    return text
