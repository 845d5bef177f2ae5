"""What a round's result breaks, as lines for people: only what holds under every protocol and assignor."""

from __future__ import annotations

from streaming.monitor.state import GroupState


def found(state: GroupState) -> list[str]:
    """Partitions with two owners, owned without a subscription, or beyond the partition count."""
    lines: list[str] = []
    owned: dict[str, int] = {}
    distinct: dict[str, set[int]] = {}
    for member in state.members:
        for topic, partitions in member.owned.items():
            owned[topic] = owned.get(topic, 0) + len(partitions)
            distinct.setdefault(topic, set()).update(partitions)
            # A collector that could not decode a subscription gives none: nothing to hold against it.
            if topic not in member.topics and member.topics:
                lines.append(f"{member.member_id} owns {topic}, to which it does not subscribe")
            known = state.topics.get(topic)
            if known is not None and partitions[-1] >= known.partitions > 0:
                lines.append(
                    f"{member.member_id} owns {topic}-{partitions[-1]}, "
                    f"but {topic} has {known.partitions} partitions"
                )
    if any(count != len(distinct[topic]) for topic, count in owned.items()):
        lines += _twice(state)
    return lines


def _twice(state: GroupState) -> list[str]:
    owners: dict[tuple[str, int], str] = {}
    lines: list[str] = []
    for member in state.members:
        for topic, partitions in member.owned.items():
            for partition in partitions:
                first = owners.setdefault((topic, partition), member.member_id)
                if first != member.member_id:
                    lines.append(f"{topic}-{partition} is owned by {first} and by {member.member_id}")
    return lines
