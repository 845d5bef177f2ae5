"""Compiles log message templates to patterns: literal text with fields in braces.

``{group}`` is greedy, as a group id may contain a message's words. ``{member}`` ends at a UUID if there is one.
``^`` marks the beginning of the reason that people read. ``<…>`` is optional, and so is a full stop at the end.

Ids have 500 characters at most: clients choose them, and an unbounded pattern takes half a minute for a malicious
line of 32 kB. Numbers have ten digits at most, as Kafka's INT32 has.
"""

from __future__ import annotations

import re
from typing import Final

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
