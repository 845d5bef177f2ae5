"""Session timeouts of members that send heartbeat events: an expired session becomes a ``member.fenced`` event.

A member with a known session timeout is tracked from its first heartbeat. Each heartbeat moves its deadline to
*batch time + session timeout*; no client's clock is read. The timer does not change a group, but writes a
``member.fenced`` to the membership log, which the stream then applies. So a replay of the log needs no timer.

Two guards keep a late job or wrong clocks from removing members that are alive:

* The fence has the timestamp of the member's last event that the timer had read (``lastHeard``). If the log has a
  later event of the member before the fence, the fence is stale and changes nothing.
* If the timer fires more than :data:`LATE_MS` after a deadline, no batch ran meanwhile, so the deadline starts again.
"""

from collections.abc import Mapping
from typing import Final

from streaming.monitor.bucket_state import LastHeartbeat, TrackedGroup
from streaming.records import events
from streaming.records.events import Event

#: ``ce_source`` of the timer's events.
SOURCE = "rebalance-monitor/timer"
FENCE_REASON = "session timeout: no heartbeat"
#: A timer that fires later than this (ms) is ignored: batches run about once a second.
LATE_FENCE_MS = 10_000
#: How long an empty group is remembered by default, ms.
FORGET_AFTER_MS = 7 * 24 * 3600 * 1000
#: Events that may change a member's session timeout.
_SESSION_STARTS: Final = (events.MemberJoined, events.SubscriptionChanged)


def track_heartbeat(group: TrackedGroup, data: events.MemberEventData, now_ms: int) -> None:
    """Move a member's deadline. Unknown members and members without a session timeout are not tracked."""
    last = group.heartbeats.get(data.member_id)
    if last is not None:
        last.timestamp, last.deadline = data.timestamp, now_ms + last.timeout
        return
    member = None if group.state is None else group.state.member(data.member_id)
    timeout = (member.session_timeout_ms if member is not None else None) or 0
    if timeout > 0:
        group.heartbeats[data.member_id] = LastHeartbeat(data.timestamp, now_ms + timeout, timeout)


def is_stale(heartbeats: Mapping[str, LastHeartbeat] | None, fence_event: events.MemberFenced) -> bool:
    """Return True if a ``member.fenced`` that the timer wrote is outdated, because the member has a later event."""
    if fence_event.last_heartbeat is None or heartbeats is None:
        return False
    last = heartbeats.get(fence_event.member_id)
    return last is None or last.timestamp != fence_event.last_heartbeat


def update_deadlines(group: TrackedGroup, event: Event, now_ms: int, forget_after_ms: int) -> None:
    """Update a group's deadlines, such as its members' session timeouts, after an event."""
    data, state, heartbeats = event.data, group.state, group.heartbeats
    if isinstance(data, _SESSION_STARTS) and data.member_id in heartbeats:
        del heartbeats[data.member_id]
        track_heartbeat(group, data, now_ms)
    members = () if state is None else state.members
    if heartbeats:
        present = {member.member_id for member in members}
        for member_id in heartbeats.keys() - present:
            del heartbeats[member_id]
    group.forget_at = (group.forget_at or now_ms + forget_after_ms) if state is not None and not members else 0


def due_fences(group_id: str, group: TrackedGroup, now_ms: int, forget_after_ms: int = FORGET_AFTER_MS) -> list[Event]:
    """Return a ``member.fenced`` event for each expired session of a group, and set the session's next deadline.

    An event that is lost before it reaches the log is written again one session timeout later, with the same id.
    """
    fence_events: list[Event] = []
    for member_id, last in group.heartbeats.items():
        if last.deadline > now_ms:
            continue
        is_late = now_ms - last.deadline > LATE_FENCE_MS
        last.deadline = now_ms + max(last.timeout, 1000)
        if is_late:
            continue
        fence_event = events.MemberFenced(
            group_id=group_id,
            # The end of the session by the member's clock: a function of the log.
            timestamp=min(last.timestamp + last.timeout, events.MAX_TIMESTAMP),
            member_id=member_id,
            reason=FENCE_REASON,
            last_heartbeat=last.timestamp,
        )
        fence_events.append(Event(SOURCE, f"{group_id}/{member_id}/{last.timestamp}", fence_event))
    state = group.state
    if group.forget_at and group.forget_at <= now_ms and state is not None:
        group.forget_at = now_ms + forget_after_ms
        data = events.GroupDeleted(group_id=group_id, timestamp=state.timestamp, reason="empty for long", forget=True)
        fence_events.append(Event(SOURCE, f"{group_id}/forget/{state.generation}/{state.timestamp}", data))
    return fence_events
