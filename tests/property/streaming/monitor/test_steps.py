"""Steps of some members of a large group give what the group played whole does, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.monitor import steps
from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import process
from streaming.monitor.envelope import Sinks, Write
from streaming.monitor.group import apply
from streaming.monitor.rendering import DiffOutput
from streaming.monitor.state import GroupState
from streaming.wire.codec import Record, encode_event
from streaming.wire.events import Event, GroupQuiet
from tests.support.epochs import Epochs, told
from tests.support.pure_stream import SINKS, by_key, in_batches

FEW = st.sampled_from((None, 0, 3))
MOST = SINKS._replace(expected_partitions=20)


def play(log: Iterable[Event], batches: Random, sinks: Sinks = MOST) -> tuple[Bucket, list[Write]]:
    """What a bucket makes of a log in batches by chance, packed after each; and quiet in the end."""
    bucket, writes = in_batches(log, batches, 0.3, sinks)
    episode = bucket.get("g").episode
    if episode is not None:
        data = GroupQuiet(group_id="g", timestamp=10**9, after=episode.mark)
        writes += process(bucket, [Record.of(0, 0, *encode_event(Event("timer", "quiet", data)))], 0, sinks)
    return Bucket(bucket.pack()), writes


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), members=st.integers(1, 70), rules=st.booleans(), few=FEW)
def test_steps_give_what_the_whole_group_does(seed: int, members: int, rules: bool, few: int | None) -> None:
    log = list(Epochs(members, seed, rules=rules).log(60))
    changes = list(told(iter(log), Random(seed), few))

    with patch.object(steps, "part", lambda *_: None):
        whole, expected = play(changes, Random(1))
    parted, found = play(changes, Random(1))

    assert by_key(found) == by_key(expected)
    assert parted.get("g") == whole.get("g")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), members=st.integers(1, 70))
def test_changes_give_what_full_views_do(seed: int, members: int) -> None:
    log = list(Epochs(members, seed).log(60))
    changes = list(told(iter(log), Random(seed)))

    whole, expected = play(log, Random(1))
    parted, found = play(changes, Random(2))

    assert by_key(found) == by_key(expected)
    assert parted.get("g") == whole.get("g")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), members=st.integers(1, 40))
def test_the_job_gives_what_apply_does(seed: int, members: int) -> None:
    log = list(told(Epochs(members, seed).log(60), Random(seed)))
    state: GroupState | None = None
    expected: list[bytes] = []
    for event in log:
        state, outputs = apply(state, event, most=20)
        expected += [one.value for one in outputs if isinstance(one, DiffOutput)]

    bucket, writes = play(log, Random(2))

    assert [one.value for one in writes if one.topic == "d"] == expected
    assert bucket.get("g").state is not None
    assert bucket.get("g").state.members == state.members


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), members=st.integers(1, 70))
def test_who_is_behind_decides_no_round(seed: int, members: int) -> None:
    log = list(Epochs(members, seed).log(60))
    sinks = SINKS._replace(
        expected_partitions=0
    )  # an assignor's start is the target that members had reached

    _, expected = play(log, Random(1), sinks)
    _, found = play(told(iter(log), Random(seed), 3), Random(2), sinks)

    assert by_key(found)["d", b"g"] == by_key(expected)["d", b"g"]


def test_most_steps_are_played_on_a_part() -> None:
    """Else the others compare a thing with itself."""
    with patch.object(steps, "play", wraps=steps.play) as played:
        play(told(Epochs(60, 3, rules=True).log(300), Random(3)), Random(3))

    assert played.call_count > 200


@pytest.mark.parametrize("seed", range(3))
def test_pages_follow_from_the_log_alone(seed: int) -> None:
    log = list(told(Epochs(100, seed, rules=True).log(200), Random(seed)))

    one, _ = play(log, Random(1))
    other, _ = play(log, Random(2))

    assert one.pack() == other.pack()
