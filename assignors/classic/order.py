"""Member order of the client assignors: static members by instance id, then dynamic ones by member id."""

from __future__ import annotations

from collections.abc import Sequence

from assignors.model import Member


def sorted_members(members: Sequence[Member]) -> list[Member]:
    """``AbstractPartitionAssignor.MemberInfo.compareTo``."""
    return sorted(members, key=lambda m: (m.instance_id is None, (m.instance_id or m.member_id).encode("utf-16-be")))
