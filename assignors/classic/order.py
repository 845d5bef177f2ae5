"""Member order of range and round-robin: static members by instance id, then dynamic ones by member id."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from assignors.classic.group import in_map_order
from assignors.java import string_key
from assignors.model import Member


def sorted_members(members: Sequence[Member]) -> list[Member]:
    """``AbstractPartitionAssignor.MemberInfo.compareTo``, stable over the map order as in Java."""
    instances = [member.instance_id for member in members if member.instance_id is not None]
    if len(set(instances)) != len(instances):  # no broker lets this happen, but the classes have an answer
        members = in_map_order(members)
    if not instances and "".join([member.member_id for member in members]).isascii():
        return sorted(members, key=attrgetter("member_id"))
    return sorted(members, key=_key)


def _key(member: Member) -> tuple[bool, bytes]:
    instance = member.instance_id
    return instance is None, string_key(member.member_id if instance is None else instance)
