"""Groups written as in the ``assign`` command, and answers as plain lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assignors.model import Member, Topic


def group_of(case: Mapping[str, Any]) -> tuple[dict[str, Topic], list[Member]]:
    """The topics and members of a case; what is left out takes the command's defaults."""
    topics = {
        name: Topic(name, topic["partitions"], topic.get("racks"), topic.get("topicId"))
        for name, topic in case["topics"].items()
    }
    return topics, [member_of(member) for member in case["members"]]


def member_of(line: Mapping[str, Any]) -> Member:
    return Member(
        line["memberId"],
        line.get("topics", ()),
        line.get("instanceId"),
        line.get("rackId"),
        line.get("owned", {}),
        line.get("generation", -1),
        line.get("streams"),
    )


def readable(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, dict[str, list[int]]]:
    """The same answer with every share a list."""
    return {member: {topic: list(p) for topic, p in share.items()} for member, share in assignment.items()}
