import msgspec

from streaming.episodes.fold import quiet_time_end, state_after_end
from streaming.episodes.state import EpisodeState
from streaming.records.episodes import Waiting
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import episode_state
from tests.unit.streaming.episodes.test_kinds import started, storm


def test_state_is_unchanged_after_writing_and_reading() -> None:
    state = episode_state(storm(started()).round("group.observed", unassigned={"t": [1]}))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=EpisodeState) == state


def test_ended_episodes_have_a_small_state() -> None:
    state = episode_state(DiffBuilder().join("a"))
    assert state_after_end(state) == EpisodeState(
        1, last_at=state.last_at, last_note_id="d1", assignor="range", after=1
    )
    assert len(msgspec.msgpack.encode(state_after_end(state))) < 100


def test_quiet_time_counts_from_the_last_note_or_wait() -> None:
    state = EpisodeState(1, last_at=1000)
    assert quiet_time_end(state, 50) == 1050
    waiting = (Waiting(since=0, reason="", until=3000), Waiting(since=0, reason=""))
    assert quiet_time_end(EpisodeState(1, last_at=1000, waiting=waiting), 50) == 3050
