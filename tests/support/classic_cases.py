"""Groups written as in the ``assign`` command, and answers as plain lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assignors.model import Member, Topic


def group_of(case: Mapping[str, Any]) -> tuple[dict[str, Topic], list[Member]]:
    """The topics and members of a case; what is left out takes the command's defaults."""
    topics = {}
    for name, topic in case["topics"].items():
        racks = topic.get("racks")
        topics[name] = Topic(
            name,
            topic["partitions"],
            None if racks is None else tuple(map(tuple, racks)),
            topic.get("topicId"),
        )
    members = [
        Member(
            member["memberId"],
            tuple(member.get("topics", ())),
            member.get("instanceId"),
            member.get("rackId"),
            member.get("owned", {}),
            member.get("generation", -1),
            member.get("streams"),
        )
        for member in case["members"]
    ]
    return topics, members


def readable(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, dict[str, list[int]]]:
    """The same answer with every share a list."""
    return {member: {topic: list(p) for topic, p in share.items()} for member, share in assignment.items()}
