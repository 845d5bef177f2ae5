"""Parses the log messages of Kafka's group coordinators, from 2.0 to 4.3, into events.

``messages.csv`` has one line for each template of a message: its kind, its first and last release (empty: the newest
known release), the group's protocol if the message implies it, and the Kafka class that logs it. ``late``: the message
follows the rebalance that it explains. ``reasons.csv`` has the reasons in ``Preparing to rebalance … (reason: …)``;
clients' reasons are part of them from 3.2 on (KIP-800). Where two templates match a text, the first wins. The classes:

- ``GroupCoordinator.scala``, ``GroupMetadata.scala``, ``GroupMetadataManager.scala`` (kafka.coordinator.group):
  classic groups up to 3.9.
- ``GroupMetadataManager.java`` (org.apache.kafka.coordinator.group): all groups from 4.0 on; from 3.6 to 3.9 where
  KIP-848 was enabled.

From these tables, which omit messages without a group, scripts/reference.py writes docs/reference/broker-log.md.

A template is literal text with fields in braces. ``{group}`` is greedy, as a group id may contain a message's words.
``{member}`` ends at a UUID if there is one. ``^`` marks the beginning of the reason that is shown to users. ``<…>`` is
optional, and so is a full stop at the end. Ids have 500 characters at most: clients choose them, and an unbounded
pattern takes half a minute for a malicious line of 32 kB. Numbers have ten digits at most, as Kafka's INT32 has.
"""

import csv
import re
from importlib.resources import files
from typing import Any, Final, NamedTuple, cast

from msgspec import structs

from streaming.collect.broker_log.events import CoordinatorEvent, GroupProtocol, LogTimestamp, MessageKind, ReasonKind

UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID_PATTERN: Final = rf"(?:.{{0,500}}?{UUID}|.{{1,500}}?)"
_FIELD_PATTERNS: Final = {
    "group": r"(?P<group>.{1,500})",
    "member": rf"(?P<member>{_ID_PATTERN})",
    "other": rf"(?P<other>{_ID_PATTERN})",
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
_TEMPLATE_PART: Final = re.compile(r"\{(\w+)\}|([<>^])")


def compile_template(text: str) -> re.Pattern[str]:
    """Return the regular expression of a message template; it matches at the beginning of a message."""
    pattern, at, has_reason = "", 0, False
    for template_part in _TEMPLATE_PART.finditer(text):
        pattern += re.escape(text[at : template_part.start()])
        at = template_part.end()
        if template_part[1] is not None:
            pattern += _FIELD_PATTERNS[template_part[1]]
        elif template_part[2] == "^":
            pattern, has_reason = pattern + "(?P<reason>", True
        else:
            pattern += "(?:" if template_part[2] == "<" else ")?"
    pattern += re.escape(text[at:].removesuffix(".")) + (r"\.?" if text.endswith(".") else "")
    return re.compile(pattern + (")" if has_reason else ""), re.DOTALL)


def _rows(table: str) -> list[dict[str, Any]]:
    lines = (files("streaming.collect.broker_log") / table).read_text(encoding="utf-8").splitlines()
    return [row | {"until": row["until"] or "4.3"} for row in csv.DictReader(lines)]  # the newest known release


def _split_members(text: str) -> tuple[str, ...]:
    """Return the member ids in a comma-separated list; ids that end with a UUID may contain commas."""
    separator = rf"(?<={UUID}), " if re.search(rf"{UUID}(?:, |$)", text) else ", "
    return tuple(member for member in re.split(separator, text) if member)


def _instance_id(text: str | None) -> str | None:
    """Return the group.instance.id in Scala's ``Some(x)``/``None`` or Java's ``x``/``null``."""
    if text is None or text in ("None", "null", ""):
        return None
    return text[5:-1] if text.startswith("Some(") and text.endswith(")") else text


#: Tuples of kind, first release, last release and template.
KAFKA_REASONS: Final = tuple(
    (ReasonKind(row["kind"]), row["since"], row["until"], row["template"]) for row in _rows("reasons.csv")
)
_REASON_PATTERNS: Final = tuple(
    (kind, re.compile(compile_template(text).pattern + r"\Z", re.DOTALL)) for kind, _, _, text in KAFKA_REASONS
)


def _read_reason(text: str) -> dict[str, Any]:
    """Parse the reason of a rebalance into fields of an event; an unknown wording has the kind ``other``."""
    for kind, pattern in _REASON_PATTERNS:
        if (match := pattern.match(text)) is not None:
            part = match.groupdict()
            members = _split_members(part["members"]) if "members" in part else (part.get("member", ""),)
            return {
                "reason_kind": kind,
                "member_ids": tuple(filter(None, members)),
                "instance_id": _instance_id(part.get("instance")),
                "client_reason": _unquoted_client_reason(part.get("client_reason")),
            }
    return {"reason_kind": ReasonKind.OTHER, "member_ids": (), "instance_id": None, "client_reason": None}


def _unquoted_client_reason(client_reason: str | None) -> str | None:
    return None if client_reason in ("", "not provided") else client_reason  # KIP-800


#: The reason of a Java consumer that rejoins because the coordinator did not answer JoinGroup or SyncGroup.
_NO_ANSWER_REASON: Final = re.compile(
    r"rebalance failed due to "
    r"(?:NotCoordinator|CoordinatorNotAvailable|CoordinatorLoadInProgress|Disconnect)Exception"
)


def is_no_answer_reason(client_reason: str | None) -> bool:
    """True if a client rejoins because the coordinator did not answer."""
    return client_reason is not None and _NO_ANSWER_REASON.match(client_reason) is not None


#: The beginnings of client reasons for changed partitions or racks of topics, and for a changed subscription.
METADATA_CHANGED_REASON: Final = "cached metadata has changed"
SUBSCRIPTION_CHANGED: Final = "subscription has changed"


class Message(NamedTuple):
    """A template of a log message, with its kind, the first and last release that log it, and its class in Kafka."""

    kind: MessageKind
    since: str
    until: str
    source: str
    template: str
    protocol: GroupProtocol | None = None
    late: bool = False


MESSAGES: Final = tuple(
    Message(
        **row | {"kind": MessageKind(row["kind"]), "protocol": row["protocol"] or None, "late": row["late"] == "yes"}
    )
    for row in _rows("messages.csv")
)
#: The literal texts with which message templates begin.
OPENING_TEXTS: Final = tuple(dict.fromkeys(re.split(r"[{<^]", message.template, maxsplit=1)[0] for message in MESSAGES))


def _needle(template: str) -> str:
    """Return the longest literal text in a template, which every message of the template contains."""
    return max(re.split(r"\{\w*\}|\^", re.sub(r"<[^>]*>|\.$", "{}", template)), key=len)


_TEMPLATES: Final = tuple((entry, _needle(entry.template), compile_template(entry.template)) for entry in MESSAGES)


def read_message(
    text: str, timestamp: LogTimestamp | None, *, is_exact: bool, is_beginning: bool = False
) -> CoordinatorEvent | None:
    """Return the event of a message; None if no template in :data:`MESSAGES` matches.

    ``is_exact``: the text certainly ends with the message. ``is_beginning``: other text may follow the message.
    """
    for message, literal, pattern in _TEMPLATES:
        if literal in text and (match := (pattern.match if is_beginning else pattern.fullmatch)(text)) is not None:
            return _event(message, match, timestamp, is_exact=is_exact)
    return None


def _event(message: Message, match: re.Match[str], at: LogTimestamp | None, *, is_exact: bool) -> CoordinatorEvent:
    part = match.groupdict()
    reason = (part.get("reason") or "").strip()
    member_ids = tuple(part[name] for name in ("member", "other") if part.get(name) is not None)
    if message.kind is MessageKind.MEMBER_LEFT:
        member_ids = member_ids[:1]
    if part.get("members") is not None:
        opened = match.string[match.start("members") - 1]
        members = part["members"] if is_exact else _close_brackets(part["members"], "[]" if opened == "[" else "()")
        member_ids, reason = _split_members(members), "did not join again in time"
    event = CoordinatorEvent(
        kind=message.kind,
        group_id=part["group"],
        number=None if part.get("number") is None else int(part["number"]),
        member_ids=member_ids,
        instance_id=_instance_id(part.get("instance")),
        client_id=part.get("client"),
        host=part.get("host"),
        protocol=cast("GroupProtocol | None", part.get("protocol")) or message.protocol,
        reason=reason,
        client_reason=_unquoted_client_reason(part.get("client_reason")),
        late=message.late,
        timestamp=at,
    )
    if message.kind is not MessageKind.PREPARING or not reason:
        return event
    reason = reason if is_exact else _close_brackets(reason, "()")
    return structs.replace(event, reason=reason, **_read_reason(reason))


def _close_brackets(text: str, brackets: str) -> str:
    """Return the text up to the closing bracket of a list; the text begins after the opening bracket."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == brackets[0]) - (character == brackets[1])
        if depth < 0:
            return text[:at]
    return text
