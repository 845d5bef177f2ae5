"""A view that is read with the one before at hand is what it is when it is read alone, or is left to that."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from assignors.errors import BadInput
from streaming.wire.codec import Record, encode, read
from streaming.wire.events import GroupObserved, ObservedMember
from streaming.wire.repeated import read_repeated, told

pytest.importorskip("rebalance_kernel", reason="built where there is cargo; views are read whole then")

NAMES = ("m", "ä", '"', "]},{", "\\", "members", "")


def view(seed: int, count: int) -> GroupObserved:
    """Some members by chance."""
    chance = Random(seed)
    members = [
        ObservedMember(
            member_id=f"{number}{chance.choice(NAMES)}",
            topics=["t", chance.choice(NAMES)],
            assigned={"t": [chance.randrange(9)], chance.choice(NAMES): [1]},
            client_id=chance.choice((None, *NAMES)),
        )
        for number in range(count)
    ]
    return GroupObserved(group_id="g", timestamp=5, members=members, generation=seed % 7, protocol="range")


def after(data: GroupObserved, chance: Random) -> GroupObserved:
    """The next view: members come, go, change and change places."""
    members = [*data.members]
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(members) + 1)
        match chance.randrange(4):
            case 0:
                members.insert(place, view(chance.randrange(9), 1).members[0])
            case 1:
                del members[place : place + chance.randrange(3)]
            case 2 if place < len(members):
                members[place] = structs.replace(members[place], assigned={"t": [chance.randrange(9)]})
            case _:
                members = members[place:] + members[:place]
    return structs.replace(data, members=members, generation=chance.randrange(9))


def record(value: bytes) -> Record:
    return Record(0, 0, b"g", value, b"group.observed", b"i", b"s", None, None)


def compare(before: bytes, now: bytes) -> bool:
    """Whether the view was read with the one before."""
    data = read(record(before)).data
    assert isinstance(data, GroupObserved)
    known = told(before, data)
    found = None if known is None else read_repeated(record(now), known)
    if found is None:
        return False
    assert found.event == read(record(now))
    for place, one in zip(found.places, found.data.members, strict=True):
        assert place < 0 or data.members[place] is one
    starts, ends = found.told.spans[::2], found.told.spans[1::2]
    each = [now[start:end] for start, end in zip(starts, ends, strict=True)]
    assert b",".join(each) == now[starts[0] : ends[-1]] if each else True
    return True


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 40))
def test_the_next_view(seed: int, count: int) -> None:
    data = view(seed, count)
    now = after(data, Random(seed))
    assert compare(encode(data), encode(now))


PIECES = (
    b"",
    b"0",
    b"-",
    b" ",
    b",",
    b"}",
    b"]",
    b"[",
    b'"',
    b"\\",
    b"\\u006d",
    b"\xff",
    b'"members":[],',
    b"null",
)
USUAL = encode(view(1, 3))


@settings(max_examples=500)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 6),
    start=st.floats(0, 1),
    length=st.integers(0, 12),
    piece=st.sampled_from(PIECES),
)
def test_what_anyone_may_write(seed: int, count: int, start: float, length: int, piece: bytes) -> None:
    data = view(seed, count)
    value = encode(after(data, Random(seed)))
    place = int(start * len(value))
    compare(encode(data), value[:place] + piece + value[place + length :])


@given(st.sampled_from((b"", b" ", b"null", b'{"members":[]}', USUAL[:-1], USUAL + b" ")))
@example(USUAL[:-1] + b',"members":[]}')
@example(USUAL[:-1] + b',"m\\u0065mbers":[]}')
@example(USUAL.replace(b'"members":[', b'"members":[,'))
@example(USUAL.replace(b'"members":[', b'"members":[null,'))
@example(USUAL[:-1] + b',"kind":"connect"}')
@example(USUAL[:-1] + b',"behind":null}')
def test_what_is_left_to_be_read_alone(value: bytes) -> None:
    if value != USUAL + b" ":
        assert not compare(USUAL, value)


def test_a_view_that_is_not_as_the_library_writes_it_is_no_view_before() -> None:
    value = USUAL.replace(b'"members":[', b'"members": [')
    assert not compare(value, USUAL)


def test_other_kinds_are_read_alone() -> None:
    data = structs.replace(view(1, 3), kind="connect")
    assert told(encode(data), data) is None
    assert told(None, structs.replace(data, kind=UNSET)) is None


def test_what_can_not_be_read_says_where_alone() -> None:
    data = view(1, 3)
    value = encode(data).replace(b'"2', b'2,"', 1)
    with pytest.raises(BadInput, match=r"members\[2\]|memberId|JSON"):
        compare(encode(data), value) or read(record(value))
