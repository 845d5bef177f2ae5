"""Reports between rounds, applied to episodes: rebalances in progress, samples of offsets, reset offsets."""

from __future__ import annotations

from msgspec import structs

from streaming.episodes import cost, waiting
from streaming.episodes.fold import MOST_EVIDENCE, EpisodeStep, copied, open_episode, over, rests_at
from streaming.episodes.notes import RebalancingNote, ResetNote
from streaming.episodes.state import EpisodeState


def take_rebalancing(last: EpisodeState, note: RebalancingNote, quiet_ms: int) -> EpisodeStep:
    """Apply a rebalance in progress, or its end.

    A report from before the last note is late, unless that note is a step of a rebalance of a group with epochs.
    """
    closed, state = None, copied(last)
    is_between_steps = state.protocol != "classic" and bool(state.waiting or state.awaited)
    if state.rebalancing is not None:
        if note.timestamp < state.rebalancing_at or note.rebalancing == state.rebalancing:
            return EpisodeStep(last)
        if note.rebalancing is None:
            waiting.end_rebalance(state, note.timestamp)
    elif note.rebalancing is None or (note.since <= state.last_at and not is_between_steps):
        return EpisodeStep(last)
    elif not state.open:
        state = open_episode(state, note)
    elif note.since > rests_at(state, quiet_ms):
        closed = state
        state = open_episode(over(state), note)
    state.rebalancing, state.rebalancing_at = note.rebalancing, note.timestamp
    state.stuck = False
    state.last_at = max(state.last_at, note.since if note.rebalancing is not None else note.timestamp)
    state.mark = note.id
    if note.names:
        state.called = {**state.called, **note.names}
    return EpisodeStep(state, closed)


def take_samples(state: EpisodeState, at: int, partitions: cost.Offsets) -> EpisodeState:
    """Return the state with samples of the group's offsets; ``state`` itself if they are late."""
    progress = cost.add_samples(state.progress, at, partitions)
    if progress is None:
        return state
    return structs.replace(state, progress=progress if state.open else cost.over(progress))


def take_reset(state: EpisodeState, note: ResetNote, quiet_ms: int) -> EpisodeStep:
    """Apply committed offsets that went back: the group's next episode, or more evidence of the open one."""
    closed = None
    if state.open and note.timestamp > rests_at(state, quiet_ms):
        closed, state = state, over(state)
    if not state.open:
        state = open_episode(state, note)
    evidence = state.evidence if len(state.evidence) >= MOST_EVIDENCE else (*state.evidence, note.evidence)
    last_at = max(state.last_at, note.timestamp)
    return EpisodeStep(structs.replace(state, evidence=evidence, last_at=last_at, mark=note.id), closed)
