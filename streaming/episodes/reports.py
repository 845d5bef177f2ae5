"""Application of reports between rounds to episodes: rebalances in progress, samples of offsets, reset offsets."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET, structs

from streaming.episodes import cost, waiting
from streaming.episodes.fold import MOST_EVIDENCE, EpisodeStep, copied, open_episode, over, rests_at
from streaming.episodes.incidents import MOST_LISTED
from streaming.episodes.state import EpisodeState
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Rebalancing
from streaming.records.events import Evidence, GroupRebalancing


def take_rebalancing(
    last: EpisodeState, mark: str, data: GroupRebalancing, names: Mapping[str, MemberNames], quiet_ms: int
) -> EpisodeStep:
    """Apply a rebalance in progress, or its end. ``mark``: id of the note. ``names``: names of the group's members.

    A report from before the last note is ignored, unless that note is a step of a rebalance of a group with epochs.
    """
    closed, state, awaited = None, copied(last), data.awaited[:MOST_LISTED]
    now = None if data.ended else _rebalancing(data, awaited)
    is_between_steps = state.protocol != "classic" and bool(state.waiting or state.awaited)
    if state.rebalancing is not None:
        if data.timestamp < state.rebalancing_at or now == state.rebalancing:
            return EpisodeStep(last)
        if now is None:
            waiting.end_rebalance(state, data.timestamp)
    elif now is None or (data.since <= state.last_at and not is_between_steps):
        return EpisodeStep(last)
    elif not state.open:
        state = open_episode(state, data.since, len(names))
    elif data.since > rests_at(state, quiet_ms):
        closed = state
        state = open_episode(over(state), data.since, len(names))
    state.rebalancing, state.rebalancing_at = now, data.timestamp
    state.stuck = False
    state.last_at = max(state.last_at, data.since if now is not None else data.timestamp)
    state.mark = mark
    if now is not None:
        state.called = {**state.called, **{member_id: names[member_id] for member_id in awaited if member_id in names}}
    return EpisodeStep(state, closed)


def _rebalancing(data: GroupRebalancing, awaited: list[str]) -> Rebalancing:
    return Rebalancing(
        since=data.since,
        reason=data.reason,
        joined=data.joined[:MOST_LISTED],
        awaited=awaited,
        state=data.state,
        until={member_id: data.until[member_id] for member_id in awaited if member_id in data.until},
        commits_stopped=None if data.commits_stopped is UNSET else data.commits_stopped,
    )


def take_samples(state: EpisodeState, at: int, partitions: cost.Offsets) -> EpisodeState:
    """Return the state with samples of the group's offsets; ``state`` itself if they are out of date."""
    progress = cost.add_samples(state.progress, at, partitions)
    if progress is None:
        return state
    return structs.replace(state, progress=progress if state.open else cost.over(progress))


def take_reset(state: EpisodeState, mark: str, at: int, why: Evidence, quiet_ms: int) -> EpisodeStep:
    """Apply a reset of committed offsets in a group without members: open an episode, or add evidence to it."""
    closed = None
    if state.open and at > rests_at(state, quiet_ms):
        closed, state = state, over(state)
    if not state.open:
        state = open_episode(state, at, 0)
    evidence = state.evidence if len(state.evidence) >= MOST_EVIDENCE else (*state.evidence, why)
    return EpisodeStep(structs.replace(state, evidence=evidence, last_at=max(state.last_at, at), mark=mark), closed)
