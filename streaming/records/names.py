"""What a person calls the members of a group: decided here alone, for every face.

The instance id; else the client id, with the host where several members have that client id; else the member id.
Under KIP-848 a member id is 22 letters by chance, which say nothing to anybody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

#: Kafka's clients put a UUID into ids of their own making: its beginning tells them apart.
_UUID = re.compile(r"\b([0-9a-f]{4})[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
#: Kafka's own ``Uuid``, as members of the consumer protocol have it.
_RANDOM = re.compile(r"[A-Za-z0-9_+/-]{22}")

#: So many members a line names one by one.
_FEW = 2


class Named(Protocol):
    """What is known of a member beside its id: in a diff, or in the names of a latest assignment."""

    @property
    def client_id(self) -> str | None:
        """As its configuration has it."""

    @property
    def client_host(self) -> str | None:
        """``/10.0.0.1``: where the broker sees it."""

    @property
    def group_instance_id(self) -> str | None:
        """Of a static member."""


def shortened(text: str) -> str:
    """An id, or a text with ids in it, where each UUID is only its beginning: ``c1-3f2a…``."""
    return _UUID.sub(r"\1…", text)


def called(members: Mapping[str, Named]) -> dict[str, str]:
    """How each member of a group is called, by member id; one that is known by its member id alone is left out.

    No two have one name: those that share client id and host too have the beginning of their member ids behind it.
    """
    first = {
        member_id: shortened(name)
        for member_id, member in members.items()
        if (name := member.group_instance_id or member.client_id)
    }
    details: dict[str, list[str]] = {member_id: [] for member_id in first}
    names = first
    for detail in (_host, _beginning):
        shared = Counter(names.values())
        for member_id, name in names.items():
            if shared[name] > 1:
                details[member_id] += detail(member_id, members[member_id])
        names = {
            member_id: f"{name} ({', '.join(details[member_id])})" if details[member_id] else name
            for member_id, name in first.items()
        }
    return names


def _host(_: str, member: Named) -> list[str]:
    return [member.client_host.lstrip("/")] if member.client_host else []


def _beginning(member_id: str, member: Named) -> list[str]:
    """What tells a member id from others: of one that begins with the client id, what follows."""
    own = member_id.removeprefix(f"{member.client_id}-")
    return [f"{own[:6]}…" if _RANDOM.fullmatch(own) else shortened(own)]


def who(member_ids: Sequence[str], names: Mapping[str, str]) -> str:
    """Some members in few words: one or two, else the first and how many others; empty where no name is known."""
    known = [names[member_id] for member_id in member_ids if member_id in names]
    if not known or len(known) == len(member_ids) <= _FEW:
        return ", ".join(known)
    return f"{known[0]} and {len(member_ids) - 1} more"


def worded(text: str, names: Mapping[str, str]) -> str:
    """A text for people, with names in place of member ids."""
    known = sorted((member_id for member_id in names if member_id in text), key=len, reverse=True)
    if not known:
        return text
    ids = "|".join(map(re.escape, known))
    return re.sub(rf"(?<![\w-])(?:{ids})(?![\w-])", lambda found: names[found[0]], text)
