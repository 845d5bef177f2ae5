"""Commits that are passed over give what reading each of them whole gives."""

from __future__ import annotations

from struct import pack

from confluent_kafka import KafkaError
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.collect import source
from streaming.collect.coordinator.records import OffsetCommit, committing, decode, offset_and_time, place
from streaming.collect.encoding import MalformedRecord
from streaming.collect.fold import Fold, Outcome, Row
from tests.support import offsets_topic as log
from tests.support.memory_kafka.log import Message

GROUPS, TOPICS = st.sampled_from(["g", "h", "ü", "other"]), st.sampled_from(["t", "u", "é"])
KEYS = st.builds(log.commit_key, GROUPS, TOPICS, st.sampled_from([0, 1, 2, 200, 70_000, -1]))
VALUES = st.one_of(
    st.none(),
    st.builds(
        lambda offset, at, metadata: pack(">hqi", 3, offset, 5) + log.string(metadata) + pack(">q", at),
        st.integers(0, 6),
        st.integers(-1, 50_000),
        st.sampled_from([None, "", "m", "µ"]),
    ),
    st.builds(log.commit_value, st.integers(0, 50_000), st.integers(0, 4)),
)


def generation(group: str, number: int, first: list[int]) -> tuple[bytes, bytes]:
    """Of two members, each with some of the partitions 0 to 2 of ``t``."""
    rest = [one for one in range(3) if one not in first]
    members = {
        member: (log.subscription(["t"]), log.assignment({"t": share} if share else {}))
        for member, share in (("a", sorted(first)), ("b", rest))
    }
    return log.group_key(group), log.group_value(number, members)


GENERATIONS = st.builds(
    generation, GROUPS, st.integers(1, 9), st.lists(st.integers(0, 2), unique=True, max_size=3)
)
GONE = st.builds(lambda group: (log.group_key(group), None), GROUPS)
BROKEN = st.tuples(
    st.one_of(
        st.none(), st.binary(max_size=12), st.builds(lambda key, cut: key[:-cut], KEYS, st.integers(1, 9))
    ),
    st.one_of(VALUES, st.binary(max_size=40)),
)
RECORDS = st.one_of(st.tuples(KEYS, VALUES), st.tuples(KEYS, VALUES), GENERATIONS, GONE, BROKEN)


def folded(rows: list[Row], *, quick: bool) -> list[Outcome]:
    fold, found = Fold("s", 0, {}.__getitem__), list[Outcome]()
    for row in rows:
        passed = fold.passed(row) if quick else None
        found += fold.add(row) if passed is None else passed
    return [_plain(one) for one in (*found, *fold.settle())]


def _plain(one: Outcome) -> Outcome:
    """Errors are compared by what they say."""
    return (one.row, str(one.error)) if hasattr(one, "error") else one  # type: ignore[return-value]


@given(st.lists(st.tuples(RECORDS, st.integers(0, 2)), max_size=40))
@example([((b"\x00\x01", None), 0), ((b"\x00\x01\x00", b""), 0)])
def test_the_outcomes_are_the_same(records: list[tuple[tuple[bytes | None, bytes | None], int]]) -> None:
    rows, at = [], 1000
    for offset, ((key, value), later) in enumerate(records):
        at += later
        rows.append(Row(0, offset, at, key, value))
    assert folded(rows, quick=True) == folded(rows, quick=False)


@given(st.one_of(KEYS, st.binary(max_size=30)), st.one_of(VALUES, st.binary(max_size=40)))
def test_what_is_read_quickly_is_what_is_read_whole(key: bytes, value: bytes | None) -> None:
    group = committing(key, value)
    try:
        whole = decode(key, value)
    except MalformedRecord:
        assert group is None
        return
    if group is None:
        return
    topic, partition = place(key, group)
    offset, at = (None, None) if value is None else offset_and_time(value)
    assert whole == OffsetCommit(group.decode(), topic, partition, at, offset)


ENDS = KafkaError(KafkaError._PARTITION_EOF)
PASSED = st.tuples(
    st.builds(log.commit_key, st.sampled_from(["g", "g", "other"]), st.just("t"), st.just(0)),
    st.builds(log.commit_value, st.integers(900, 1100), st.just(3), st.integers(0, 4)),
)
MOVED = st.builds(generation, st.just("g"), st.integers(1, 9), st.sampled_from([[0], [1, 2]]))
#: After these a commit that goes further shows that partition 0 is consumed again.
STOPPED = [
    (0, generation("g", 1, [0]), 2),
    (0, (log.commit_key("g", "t", 0), log.commit_value(1000, 3, 1)), 2),
    (0, generation("g", 2, [1, 2]), 2),
    (0, (log.commit_key("other", "t", 0), None), 2),
]
AGAIN = [(0, (log.commit_key("g", "t", 0), log.commit_value(1050, 3, offset)), 2) for offset in range(5)]
#: Records and ends of two partitions; how many offsets they are further, or before.
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1]),
        st.one_of(PASSED, PASSED, PASSED, MOVED, RECORDS, st.none()),
        st.sampled_from([1, 1, 1, 2, 2, 3, 0, -3]),
    ),
    max_size=30,
)


def said(records: list[tuple[int, tuple[bytes | None, bytes | None] | None, int]]) -> list[Message]:
    """As a client hands them out."""
    messages, offset, at = [], 10, 1000
    for partition, record, further in records:
        offset, at = offset + further, at + (further > 1)
        key, value = record or (None, None)
        error = None if record else ENDS
        messages.append(Message("t", partition, offset, key=key, value=value, timestamp=at, error=error))
    return messages


def taken(messages: list[Message], *, at_once: bool) -> tuple[object, ...]:
    """What follows from these messages of one partition, and where it is read to."""
    one, found, at = source._Partition(Fold("s", 0, {}.__getitem__), 12), list[Outcome](), 0
    one.at_end_since = 5.0
    while at < len(messages):
        begun, at = at, one.pass_over(messages, at, 0) if at_once else at
        if at == begun:
            found += one.take(messages[at], 0)
            at += 1
    state = one.place, one.following, one.reached, one.at_end_since
    return [_plain(outcome) for outcome in found], state, [_plain(outcome) for outcome in one.fold.settle()]


@given(st.sampled_from([[], STOPPED]), MESSAGES)
@example(STOPPED, AGAIN)
@example(STOPPED, AGAIN[:3])
def test_passed_over_at_once_they_are_what_they_are_one_by_one(
    before: list[tuple[int, tuple[bytes, bytes], int]],
    records: list[tuple[int, tuple[bytes | None, bytes | None] | None, int]],
) -> None:
    messages = said(
        [*before, *((0, record, further) for _, record, further in records if record is not None)]
    )
    wanted = taken(messages, at_once=False)
    assert taken(messages, at_once=True) == wanted
