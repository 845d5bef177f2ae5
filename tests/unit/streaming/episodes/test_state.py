from __future__ import annotations

import msgspec

from streaming.episodes.fold import over, rests_at
from streaming.episodes.state import EpisodeState
from streaming.records.episodes import Waiting
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import GroupReader, advance
from tests.unit.streaming.episodes.test_kinds import started, storm


def test_state_is_unchanged_after_writing_and_reading() -> None:
    reader, state = GroupReader(), None
    for step in storm(started()).round("group.observed", unassigned={"t": [1]}).diffs:
        state = advance(state, reader.read(*step)).state
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=EpisodeState) == state


def test_finished_episodes_keep_little() -> None:
    reader = GroupReader()
    state = advance(None, reader.read(*DiffBuilder().join("a").diffs[0])).state
    assert state is not None
    assert over(state) == EpisodeState(1, last_at=state.last_at, mark="d1", assignor="range", after=1)
    assert len(msgspec.msgpack.encode(over(state))) < 100


def test_quiet_time_counts_from_the_last_note_or_wait() -> None:
    state = EpisodeState(1, last_at=1000)
    assert rests_at(state, 50) == 1050
    waiting = (Waiting(since=0, reason="", until=3000), Waiting(since=0, reason=""))
    assert rests_at(EpisodeState(1, last_at=1000, waiting=waiting), 50) == 3050
