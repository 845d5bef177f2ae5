"""Heartbeats that are read at once, by native code or not, are those that are read one by one, or none."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.wire import heartbeats
from streaming.wire.codec import Record, encode, read_heartbeat
from streaming.wire.events import MAX_INT32, MAX_TIMESTAMP, MemberHeartbeat

KEY = b"g"
USUAL = encode(MemberHeartbeat(group_id="g", timestamp=5, member_id="m", generation=1))

texts = st.sampled_from(["g", "m", "", "a b", "ü", '"', "\\", "\n", "x" * 32_767, "x" * 32_768])
written = st.builds(
    lambda group, member, timestamp, generation: encode(
        MemberHeartbeat(group_id=group, timestamp=timestamp, member_id=member, generation=generation)
    ),
    st.one_of(st.just("g"), texts),
    texts,
    st.sampled_from([0, 7, MAX_TIMESTAMP, MAX_TIMESTAMP + 1, -1, 2**70]),
    st.sampled_from([0, -1, -7, MAX_INT32, MAX_INT32 + 1]),
)
#: As anyone may write it: a piece left out, doubled or replaced.
changed = st.builds(
    lambda value, start, length, piece: value[:start] + piece + value[start + length :],
    st.one_of(st.just(USUAL), written),
    st.integers(0, 80),
    st.integers(0, 12),
    st.sampled_from(
        [b"", b"0", b"-", b".5", b" ", b",", b"}", b'"', b"\\u0061", b"\xff", b'"x":[],', b"null"]
    ),
)


def one_by_one(values: list[bytes]) -> dict[str, int] | None:
    """Who was heard when."""
    heard: dict[str, int] = {}
    for value in values:
        data = read_heartbeat(Record(0, 0, KEY, value, b"member.heartbeat", b"i", b"s", None, None))
        if data is None:
            return None
        heard[data.member_id] = data.timestamp
    return heard


@given(st.lists(st.one_of(written, changed), max_size=4))
@example([USUAL])
@example([USUAL[:-1] + b',"generation":01}'])
@example([USUAL.replace(b"1}", b"01}")])
@example([USUAL + b" "])
def test_read_at_once_they_are_what_they_are_one_by_one(values: list[bytes]) -> None:
    wanted = one_by_one(values)
    for native in {heartbeats.native, None}:
        with patch.object(heartbeats, "native", native):
            found = heartbeats.read(KEY, values)
        assert (None if found is None else (found.group_id, list(found.heard.items()))) == (
            None if wanted is None else ("g", list(wanted.items()))
        )


@pytest.mark.skipif(heartbeats.native is None, reason="built where there is cargo")
@pytest.mark.parametrize("generation", [0, MAX_INT32])
def test_native_code_reads_what_the_library_writes(generation: int) -> None:
    beats = [
        MemberHeartbeat(group_id="g", timestamp=at, member_id=f"m {at}", generation=generation)
        for at in (0, 1, MAX_TIMESTAMP)
    ]
    native = heartbeats.native
    assert native is not None
    assert native(KEY, [encode(beat) for beat in beats]) == {beat.member_id: beat.timestamp for beat in beats}
