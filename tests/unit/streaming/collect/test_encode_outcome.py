import pytest

from streaming.collect.coordinator.records import RawRecord
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.fold import CollectedEvent, RejectedRecord
from streaming.collect.publisher import encode_outcome
from streaming.records import codec
from streaming.records.events import Event, GroupDeleted, GroupObserved, ObservedMember
from streaming.settings.config import TopicSettings

TOPICS = TopicSettings()
RAW_RECORD = RawRecord(3, 77, 1000, b"key", b"value")
LIMITS_BYTES = {TOPICS.membership: 10_000, TOPICS.dead_letters: 10_000}


def observed(partitions: int) -> Event:
    member = ObservedMember(member_id="m", topics=["t"], assigned={"t": list(range(partitions))})
    return Event("s", "3:77", GroupObserved(group_id="g", timestamp=1000, members=[member], generation=1))


def test_event_within_the_limit_is_unchanged() -> None:
    event = observed(2)
    written = encode_outcome(CollectedEvent(RAW_RECORD, event), TOPICS, LIMITS_BYTES)

    assert (written.topic, written.is_letter) == (TOPICS.membership, False)
    assert (written.key, written.value, written.headers) == codec.encode_event(event)
    assert encode_outcome(event, TOPICS, LIMITS_BYTES) == written


def test_undecodable_record_becomes_a_dead_letter() -> None:
    written = encode_outcome(RejectedRecord(RAW_RECORD, MalformedRecord("key.group: null")), TOPICS, LIMITS_BYTES)

    assert (written.topic, written.is_letter) == (TOPICS.dead_letters, True)
    assert (written.key, written.value) == (b"key", b"value")
    assert dict(written.headers) == {
        "dlt_exception": b"MalformedRecord",
        "dlt_message": b"key.group: null",
        "dlt_topic": b"__consumer_offsets",
        "dlt_partition": b"3",
        "dlt_offset": b"77",
    }


def test_event_one_byte_above_the_topic_limit_is_a_dead_letter() -> None:
    event = observed(200)
    key, value, headers = codec.encode_event(event)
    size = codec.record_bytes(key, value, headers)

    written_event = encode_outcome(CollectedEvent(RAW_RECORD, event), TOPICS, LIMITS_BYTES | {TOPICS.membership: size})
    refused = encode_outcome(CollectedEvent(RAW_RECORD, event), TOPICS, LIMITS_BYTES | {TOPICS.membership: size - 1})

    assert not written_event.is_letter
    assert (refused.topic, refused.key, refused.value) == (TOPICS.dead_letters, b"key", b"value")
    reasons = dict(refused.headers)
    assert reasons["dlt_exception"] == b"RecordTooLarge"
    assert (
        reasons["dlt_message"]
        == (
            f"group.observed of group 'g' would have {size} bytes, "
            f"max.message.bytes of rebalance.membership is {size - 1}"
        ).encode()
    )
    assert (reasons["dlt_partition"], reasons["dlt_offset"]) == (b"3", b"77")


def test_too_long_event_without_source_record_is_dead_lettered() -> None:
    event = observed(200)

    refused = encode_outcome(event, TOPICS, LIMITS_BYTES | {TOPICS.membership: 500})

    assert (refused.is_letter, refused.key, refused.value) == (True, b"g", codec.encode(event.data))
    reasons = dict(refused.headers)
    assert (reasons["dlt_partition"], reasons["dlt_offset"]) == (b"-1", b"-1")


def test_dead_letter_is_cut_to_its_topics_limit() -> None:
    long_record = RawRecord(3, 77, 1000, b"key", b"v" * 5000)

    written = encode_outcome(
        RejectedRecord(long_record, MalformedRecord("x")), TOPICS, LIMITS_BYTES | {TOPICS.dead_letters: 1000}
    )

    assert codec.record_bytes(written.key, written.value, written.headers) <= 1000
    assert "dlt_truncated" in dict(written.headers)


@pytest.mark.parametrize("timestamp", [2**62, -(2**62)])
def test_event_with_an_invalid_time_is_dead_lettered(timestamp: int) -> None:
    event = Event("s", "3:77", GroupDeleted(group_id="g", timestamp=timestamp))

    written = encode_outcome(CollectedEvent(RAW_RECORD, event), TOPICS, LIMITS_BYTES)

    assert (written.is_letter, dict(written.headers)["dlt_exception"]) == (True, b"MalformedEvent")
    letter_without_source = encode_outcome(event, TOPICS, LIMITS_BYTES)
    reasons = dict(letter_without_source.headers)
    assert letter_without_source.is_letter
    assert (letter_without_source.key, letter_without_source.value) == (None, None)
    assert (reasons["dlt_partition"], reasons["dlt_offset"]) == (b"-1", b"-1")
