"""Session timeouts of members that send heartbeats, as events in the log.

A member is tracked from its first heartbeat on, if it named its session timeout. Each sign of life moves its
deadline to *batch time + session timeout*; no clock of any client is read. A timer that finds a deadline in
the past changes nothing itself: it gives a ``member.fenced`` to write to the membership log, which is applied
when it is read back. A replay of the log therefore needs no timer.

Two guards keep a paused or late job, or skewed clocks, from fencing members that live:

* The fence says up to which event of the member it had read (``lastHeard``). If the log holds a later sign
  of life before the fence, as it does when the job was behind, the fence is stale and changes nothing.
* A timer that comes more than :data:`LATE_MS` after its deadline shows that no batch ran then, so nobody
  listened: the deadline starts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaming.monitor.bucket_state import Heard, Tracked
from streaming.records.events import (
    MAX_TIMESTAMP,
    AssignmentAcknowledged,
    Event,
    GroupDeleted,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    SubscriptionChanged,
)

#: Name of the timer in ``ce_source`` of what it writes.
SOURCE = "rebalance-monitor/timer"
REASON = "session timeout: no heartbeat"
#: A timer that is later than this (ms) is not trusted: batches run at least about once a second.
LATE_MS = 10_000
#: How long an empty group is remembered unless someone says otherwise, ms.
FORGET_AFTER_MS = 7 * 24 * 3600 * 1000

#: Events that show that a member is alive.
SignOfLife = MemberHeartbeat | AssignmentAcknowledged | MemberJoined | SubscriptionChanged
#: Events that may name another session timeout.
_NAMING_TIMEOUT: Final = (MemberJoined, SubscriptionChanged)


def hear(tracked: Tracked, data: SignOfLife, now_ms: int) -> None:
    """Take note of a heartbeat. A member that is unknown, or that named no session timeout, is not tracked."""
    heard = tracked.heard.get(data.member_id)
    if heard is None:
        member = None if tracked.state is None else tracked.state.member(data.member_id)
        timeout = (member.session_timeout_ms if member is not None else None) or 0
        if timeout <= 0:
            return
        tracked.heard[data.member_id] = Heard(data.timestamp, now_ms + timeout, timeout)
    else:
        heard.timestamp = data.timestamp
        heard.deadline = now_ms + heard.timeout
    tracked.changed = True


def is_stale(heard: Mapping[str, Heard], fence: MemberFenced) -> bool:
    """Whether a fence by the timer is older than what the log says of its member."""
    if fence.last_heard is None:
        return False
    member = heard.get(fence.member_id)
    return member is None or member.timestamp != fence.last_heard


def follow(tracked: Tracked, event: Event, now_ms: int, forget_after_ms: int) -> None:
    """Move the deadlines of a group that an event has changed."""
    data = event.data
    if isinstance(data, _NAMING_TIMEOUT) and data.member_id in tracked.heard:
        # Perhaps with another timeout.
        del tracked.heard[data.member_id]
        hear(tracked, data, now_ms)
    state = tracked.state
    members = state.members if state is not None else ()
    if tracked.heard:
        present = {member.member_id for member in members}
        if not tracked.heard.keys() <= present:
            for member_id in [one for one in tracked.heard if one not in present]:
                del tracked.heard[member_id]
    is_empty = state is not None and not members
    tracked.forget_at = (tracked.forget_at or now_ms + forget_after_ms) if is_empty else 0


def due(group_id: str, tracked: Tracked, now_ms: int, forget_after_ms: int = FORGET_AFTER_MS) -> list[Event]:
    """The events that the timer writes for one group, ids a function of what it had read; deadlines move on.

    An event that is lost between here and the log is written again one session timeout later, with the same id.
    """
    events: list[Event] = []
    for member_id, heard in tracked.heard.items():
        if heard.deadline > now_ms:
            continue
        late = now_ms - heard.deadline > LATE_MS
        heard.deadline = now_ms + max(heard.timeout, 1000)
        if late:
            continue
        events.append(
            Event(
                SOURCE,
                f"{group_id}/{member_id}/{heard.timestamp}",
                MemberFenced(
                    group_id=group_id,
                    # A function of the log as well: when the session would have ended on the member's own clock.
                    timestamp=min(heard.timestamp + heard.timeout, MAX_TIMESTAMP),
                    member_id=member_id,
                    reason=REASON,
                    last_heard=heard.timestamp,
                ),
            )
        )
    if tracked.forget_at and tracked.forget_at <= now_ms and tracked.state is not None:
        tracked.forget_at = now_ms + forget_after_ms
        events.append(
            Event(
                SOURCE,
                f"{group_id}/forget/{tracked.state.generation}/{tracked.state.timestamp}",
                GroupDeleted(
                    group_id=group_id, timestamp=tracked.state.timestamp, reason="empty for long", forget=True
                ),
            )
        )
    return events
