"""The fast decoder of offset commits agrees with the decoder of all records."""

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from streaming.collect.coordinator.records import decode_slowly, read_plain_commit
from streaming.collect.coordinator.schema import MalformedRecord
from tests.support import offsets_topic as log

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


@given(st.one_of(KEYS, st.binary(max_size=30)), st.one_of(VALUES, st.binary(max_size=40)))
def test_both_decoders_read_the_same_commit(key: bytes, value: bytes | None) -> None:
    commit = read_plain_commit(key, value)
    try:
        record = decode_slowly(key, value, lambda _: True)
    except MalformedRecord:
        assert commit is None
    else:
        assert commit in (None, record)


@given(st.sampled_from(["", "m" * 300, None]), st.integers(0, 2**40), st.integers(-1, 2**31 - 1))
def test_commits_of_todays_brokers_are_read_quickly(metadata: str | None, at: int, partition: int) -> None:
    value = pack(">hqi", 3, 7, 5) + log.string(metadata) + pack(">q", at)
    key = log.commit_key("g", "t", partition)
    assert read_plain_commit(key, value) == ("g", "t", partition, at, 7)
    assert read_plain_commit(key, None) == ("g", "t", partition, None, None)
