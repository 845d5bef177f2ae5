"""Status of a group, derived from its latest assignment and its newest episode."""

from typing import Any, Literal, NamedTuple

#: Statuses, the worst first; a group has the worst status that applies.
StatusName = Literal["rebalancing", "stuck", "storming", "settling", "catching-up", "stable", "empty", "dead"]
#: A latest assignment, an episode, or a summary of either with the same fields.
Summary = Any


class GroupStatus(NamedTuple):
    """Status of a group, since when (ms), the reason as text, and the ids of awaited members."""

    status: StatusName
    since: int
    reason: str | None = None
    awaited: tuple[str, ...] = ()


def group_status(assignment: Summary | None, newest: Summary | None) -> GroupStatus:
    """Return the status of a group, by its latest assignment and its newest episode (None: the group has no episode).

    A group whose newest episode waits for nothing is stable, even before the quiet time has closed that episode.
    """
    at = assignment.timestamp if assignment is not None else 0
    if newest is not None:
        at = newest.updated_at if newest.closed_at is None else newest.closed_at
        status = _status_of_episode(newest, at)
        has_members = assignment is not None and bool(assignment.members)
        # A group without members can only be rebalancing or, while it exists, stuck or storming.
        episode_statuses = ("rebalancing", *(("stuck", "storming") if assignment is not None else ()))
        if status is not None and (has_members or status.status in episode_statuses):
            return status
    if assignment is None:
        return GroupStatus("dead", at)
    return GroupStatus("stable" if assignment.members else "empty", at)


def _status_of_episode(episode: Summary, at: int) -> GroupStatus | None:
    if episode.rebalancing is not None:
        now = episode.rebalancing
        return GroupStatus("rebalancing", now.since, now.reason, tuple(now.awaited))
    waits = episode.waiting_for
    if episode.status == "settled" or (episode.status == "settling" and not waits):
        return None
    if episode.status not in ("stuck", "settling") or not waits:
        since = at if episode.status in ("rebalancing", "catching-up") else episode.opened_at
        return GroupStatus(episode.status, since, episode.story if episode.status == "storming" else None)
    awaited = dict.fromkeys(wait.member_id for wait in waits if wait.member_id is not None)
    return GroupStatus(episode.status, min(wait.since for wait in waits), waits[0].reason, tuple(awaited))
