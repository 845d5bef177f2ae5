"""Arbitrary bytes in a record of the offsets topic, from clients or broken disks, affect no other record."""

from contextlib import suppress
from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from streaming.collect.coordinator.records import RawRecord, decode
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.fold import CollectedEvent, Fold, RejectedRecord
from streaming.records import codec
from tests.support import offsets_topic

CAPTURED_RECORDS = [row for rows in offsets_topic.captured_records().values() for row in rows]
CAPTURED_RECORDS += [row for kind in offsets_topic.KINDS for row in offsets_topic.captured_records_of_kind(kind)]
#: Edge values of lengths, counts, versions and partitions.
EDGE_NUMBERS = [-1, -2, 0, 1, 3, 4, 127, 128, 255, 32_767, -32_768, 2**31 - 1, -(2**31)]
RECORD_TYPES = st.integers(-1, 26)

embedded = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda version, counts, tail: (
            pack(">h", version) + b"".join(pack(">i", count) + offsets_topic.string("t") for count in counts) + tail
        ),
        st.sampled_from([version for version in EDGE_NUMBERS if -32_768 <= version < 32_768]),
        st.lists(st.sampled_from(EDGE_NUMBERS), max_size=4),
        st.binary(max_size=12),
    ),
    st.builds(
        offsets_topic.subscription,
        st.lists(st.text(max_size=5), max_size=3),
        st.dictionaries(st.text(max_size=5), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4), max_size=3),
        generation=st.integers(-(2**31), 2**31 - 1),
        user_data=st.none() | st.binary(max_size=30),
    ),
    st.builds(
        offsets_topic.assignment,
        st.dictionaries(st.text(max_size=5), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4), max_size=3),
    ),
)


@st.composite
def rows(draw: st.DrawFn) -> RawRecord:
    captured_record = draw(st.sampled_from(CAPTURED_RECORDS))
    key, value = captured_record.key or b"", captured_record.value
    match draw(st.sampled_from(["real", "mutated", "client", "commit", "noise"])):
        case "mutated":
            key, value = draw(mutated_bytes(key)), None if value is None else draw(mutated_bytes(value))
        case "client":
            members = draw(st.dictionaries(st.text(max_size=4), st.tuples(embedded, embedded), max_size=3))
            key = offsets_topic.group_key(draw(st.sampled_from(["g-classic", "g", "\n"])))
            protocol = draw(st.sampled_from(["range", "sticky", None]))
            value = offsets_topic.group_bytes(
                draw(st.integers(-1, 9)), members, version=draw(st.integers(0, 4)), protocol=protocol
            )
        case "commit":
            key = offsets_topic.commit_key("g-classic", "t", draw(st.sampled_from(EDGE_NUMBERS)))
            value = offsets_topic.commit_value(draw(st.integers(-(2**63), 2**63 - 2)), draw(st.integers(0, 4)))
        case "noise":
            key = pack(">h", draw(RECORD_TYPES)) + draw(st.binary(max_size=30))
            value = draw(st.none() | st.binary(max_size=60))
    at = draw(st.sampled_from([captured_record.timestamp, captured_record.timestamp + 1, -1, 2**62]))
    return RawRecord(
        captured_record.partition, captured_record.offset, at, draw(st.sampled_from([key, None] + [key] * 20)), value
    )


@st.composite
def mutated_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        new = draw(st.sampled_from([pack(">i", edge) for edge in EDGE_NUMBERS]) | st.binary(max_size=3))
        data = data[:at] + new + data[at + draw(st.integers(0, 4)) :]
    return data


@given(rows())
def test_decoder_raises_only_malformed_record(row: RawRecord) -> None:
    with suppress(MalformedRecord):
        decode(row.key, row.value)


@given(st.lists(rows(), max_size=12))
def test_every_record_is_used_or_reported_and_events_are_valid(rows: list[RawRecord]) -> None:
    fold = Fold("kafka://c/__consumer_offsets", 4, lambda topic_id: topic_id)
    out = [item for row in rows for item in fold.add(row)] + fold.settle()

    for item in out:
        assert item.record in rows
        if isinstance(item, RejectedRecord):
            assert isinstance(item.error, MalformedRecord)
        elif isinstance(item, CollectedEvent):
            key, value, headers = codec.encode_event(item.event)
            assert codec.decode_event(key, value, codec.ce_attributes(headers)) == item.event


@given(st.lists(rows(), max_size=12), st.lists(rows(), max_size=3))
def test_excluded_group_publishes_no_event(before: list[RawRecord], after: list[RawRecord]) -> None:
    fold = Fold("kafka://c/__consumer_offsets", 4, lambda topic_id: topic_id, is_wanted=lambda _: False)
    out = [item for row in (*before, *after) for item in fold.add(row)] + fold.settle()

    assert all(isinstance(item, RejectedRecord) and str(item.error).startswith(("key", "record type")) for item in out)
    assert fold.snapshots() == {}
