"""Offset commits that nothing follows from, passed over many at once: they are nearly all of the topic.

Where the package ``rebalance-kernel`` is installed it looks at the messages, as :func:`pass_over_slowly` does.
"""

from __future__ import annotations

from typing import Any

from streaming.collect.coordinator.records import committing


def pass_over_slowly(
    messages: list[Any], at: int, partition: int, reached: int, followed: dict[bytes, Any]
) -> tuple[int, int]:
    """How far these messages are commits of one partition that nothing follows from.

    Args:
        messages: as the client gave them.
        at: the place of the first to look at.
        partition: the one that commits are of.
        reached: where it is read to; a record before that is another, as it tells of lost ones.
        followed: has the ids of the groups whose commits count.

    Returns:
        The place of the first message that is another, and where the partition is read to then.
    """
    for place in range(at, len(messages)):
        message = messages[place]
        if message.error() is not None or message.partition() != partition:
            return place, reached
        offset, group = message.offset(), committing(message.key(), message.value())
        if group is None or group in followed or offset < reached:
            return place, reached
        reached = offset + 1
    return len(messages), reached


try:
    from rebalance_kernel import pass_over
except ImportError:  # it is not installed, or not of this release
    pass_over = pass_over_slowly

__all__ = ["pass_over", "pass_over_slowly"]
