"""Rebalances that a generation itself scheduled: Kafka Streams looks whether its warm-up tasks have caught up."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.records.events import PROBING, Evidence, GroupObserved

#: ``AssignmentInfo``, which the leader gives to each member of a generation.
SOURCE = "assignment-info"


def due(before: GroupObserved, now: GroupObserved) -> Iterator[Evidence]:
    """Evidence that a generation is the probing rebalance which the one before asked for."""
    for member in before.members:
        at = member.next_rebalance_ms
        if at and at <= now.timestamp:  # 0: at once, as tasks had to be given up first; that is no probing
            reason = f"probing rebalance: scheduled for {at} ms, when warm-up tasks may have caught up"
            yield Evidence(source=SOURCE, reason=reason, member_ids=[member.member_id], kind=PROBING)
