"""Offset commits read many at once: they are nearly all of the topic, and from most of them nothing follows."""

from __future__ import annotations

from typing import Any, TypeAlias

from streaming.collect.coordinator.records import committing, offset_and_time, place

#: A commit of a followed group: its message's place, the group, topic, partition, when (ms) and the offset; neither
#: of these two where an offset was removed.
Commit: TypeAlias = tuple[int, bytes, str, int, int | None, int | None]


def pass_over(
    messages: list[Any], at: int, partition: int, reached: int, followed: dict[bytes, Any]
) -> tuple[int, int, list[Commit]]:
    """How far these messages are commits of one partition.

    Args:
        messages: as the client gave them.
        at: the place of the first to look at.
        partition: the one that commits are of.
        reached: where it is read to; a record before that is no longer one of them, as it tells of lost ones.
        followed: has the ids of the groups whose commits count.

    Returns:
        The place of the first message that is another, where the partition is read to then, and the commits that
        count.
    """
    commits: list[Commit] = []
    for at_message in range(at, len(messages)):
        message = messages[at_message]
        if message.error() is not None or message.partition() != partition:
            return at_message, reached, commits
        offset, key, value = message.offset(), message.key(), message.value()
        group = committing(key, value)
        if group is None or offset < reached:
            return at_message, reached, commits
        reached = offset + 1
        if group in followed:
            committed, when = (None, None) if value is None else offset_and_time(value)
            commits.append((at_message, group, *place(key, group), when, committed))
    return len(messages), reached, commits
