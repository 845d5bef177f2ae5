"""What a round's result breaks, as lines for people: only what holds under every protocol and assignor."""

from __future__ import annotations

from streaming.monitor.state import GroupState


def found(state: GroupState) -> list[str]:
    """Partitions with two owners, owned without a subscription, or beyond the partition count."""
    lines: list[str] = []
    owners: dict[str, dict[int, str]] = {}
    for member in state.members:
        for topic, partitions in member.owned.items():
            known = owners.get(topic)
            if known is None:
                owners[topic] = dict.fromkeys(partitions, member.member_id)
            elif known.keys().isdisjoint(partitions):
                known.update(dict.fromkeys(partitions, member.member_id))
            else:
                lines.extend(
                    f"{topic}-{p} is owned by {known[p]} and by {member.member_id}"
                    for p in partitions
                    if p in known
                )
            # A collector that could not decode a subscription gives none: nothing to hold against it.
            if member.topics and topic not in member.topics:
                lines.append(f"{member.member_id} owns {topic}, to which it does not subscribe")
            count = state.topics[topic].partitions if topic in state.topics else 0
            if count and partitions and partitions[-1] >= count:
                lines.append(
                    f"{member.member_id} owns {topic}-{partitions[-1]}, but {topic} has {count} partitions"
                )
    return lines
