"""Display names of a group's members, the same in every output of the monitor.

A member's name is its instance id. Without an instance id, the name is the client id, with the host if several members
have that client id. Without a client id, the name is the member id.
Under KIP-848 a member id is a random 22-character id.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from streaming.records.diffs import MemberDiff, MemberNames

#: A UUID in an id that Kafka's clients generate; its beginning is enough to distinguish ids.
_UUID = re.compile(r"\b([0-9a-f]{4})[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
#: Kafka's ``Uuid``, the member id under the consumer protocol.
_RANDOM_ID = re.compile(r"[A-Za-z0-9_+/-]{22}")
#: The most members that a line lists by name.
_MAX_NAMES_IN_TEXT = 2


def shorten_random_id(text: str) -> str:
    """Return a text with each UUID shortened to its beginning, such as ``c1-3f2a…``."""
    return _UUID.sub(r"\1…", text)


def display_names(members: Mapping[str, MemberNames | MemberDiff]) -> dict[str, str]:
    """Return the display name of each member, by member id; members without a name are left out.

    Names are unique: members that share client id and host have the beginning of their member ids appended.
    """
    full_names = {member_id: member.group_instance_id or member.client_id for member_id, member in members.items()}
    first = {member_id: shorten_random_id(name) for member_id, name in full_names.items() if name}
    details: dict[str, list[str]] = {member_id: [] for member_id in first}
    names = first
    for find_detail in (_host, _id_beginning):
        shared = Counter(names.values())
        for member_id, name in names.items():
            if shared[name] > 1:
                details[member_id] += find_detail(member_id, members[member_id])
        names = {
            member_id: f"{name} ({', '.join(details[member_id])})" if details[member_id] else name
            for member_id, name in first.items()
        }
    return names


def _host(_: str, member: MemberNames | MemberDiff) -> list[str]:
    return [member.client_host.lstrip("/")] if member.client_host else []


def _id_beginning(member_id: str, member: MemberNames | MemberDiff) -> list[str]:
    """Return the distinctive part of a member id: the part after the client id, shortened."""
    own = member_id.removeprefix(f"{member.client_id}-")
    return [f"{own[:6]}…" if _RANDOM_ID.fullmatch(own) else shorten_random_id(own)]


def names_text(member_ids: Sequence[str], names: Mapping[str, str]) -> str:
    """Return members' names as text, such as ``pay and ship`` or ``pay and 3 others``; empty if none is known."""
    listed = [names[member_id] for member_id in member_ids if member_id in names]
    if not listed or len(listed) == len(member_ids) <= _MAX_NAMES_IN_TEXT:
        return ", ".join(listed)
    return f"{listed[0]} and {len(member_ids) - 1} more"


def with_display_names(text: str, names: Mapping[str, str]) -> str:
    """Return a text with display names in place of member ids."""
    member_ids = sorted((member_id for member_id in names if member_id in text), key=len, reverse=True)
    if not member_ids:
        return text
    ids = "|".join(map(re.escape, member_ids))
    return re.sub(rf"(?<![\w-])(?:{ids})(?![\w-])", lambda match: names[match[0]], text)
