"""The publisher's records: events within the limits of their topic, and dead letters."""

import pytest

from streaming.collect.coordinator.records import RawRecord
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.fold import CollectedEvent, Outcome, RejectedRecord
from streaming.collect.publisher import OutgoingRecord, encode_outcome
from streaming.records import codec
from streaming.records.events import Event, GroupDeleted, GroupObserved, ObservedMember
from tests.support.memory_kafka import SETTINGS

TOPIC = SETTINGS.topics.membership
RAW_RECORD = RawRecord(3, 77, 1000, b"key", b"value")


def observed(partitions: int) -> Event:
    member = ObservedMember(member_id="m", topics=["t"], assigned={"t": list(range(partitions))})
    return Event("s", "3:77", GroupObserved(group_id="g", timestamp=1000, members=[member], generation=1))


def encoded(outcome: Outcome | Event, membership: int = 10_000, dead_letters: int = 10_000) -> OutgoingRecord:
    """Encode an outcome for topics with these size limits (bytes)."""
    topics = SETTINGS.topics
    return encode_outcome(outcome, topics, {topics.membership: membership, topics.dead_letters: dead_letters})


def test_event_within_the_limit_is_unchanged() -> None:
    event = observed(2)
    written = encoded(CollectedEvent(RAW_RECORD, event))
    assert (written.topic, written.is_letter) == (TOPIC, False)
    assert (written.key, written.value, written.headers) == codec.encode_event(event)
    assert encoded(event) == written


def test_undecodable_record_becomes_a_dead_letter() -> None:
    written = encoded(RejectedRecord(RAW_RECORD, MalformedRecord("key.group: null")))
    assert (written.topic, written.is_letter) == (SETTINGS.topics.dead_letters, True)
    assert (written.key, written.value) == (b"key", b"value")
    assert dict(written.headers) == {
        "dlt_exception": b"MalformedRecord",
        "dlt_message": b"key.group: null",
        "dlt_topic": b"__consumer_offsets",
        "dlt_partition": b"3",
        "dlt_offset": b"77",
    }


def test_event_one_byte_above_the_topic_limit_is_a_dead_letter() -> None:
    event = CollectedEvent(RAW_RECORD, observed(200))
    size = codec.record_bytes(*codec.encode_event(event.event))
    assert not encoded(event, membership=size).is_letter
    refused = encoded(event, membership=size - 1)
    assert (refused.topic, refused.key, refused.value) == (SETTINGS.topics.dead_letters, b"key", b"value")
    reasons = dict(refused.headers)
    assert reasons["dlt_exception"] == b"RecordTooLarge"
    assert (reasons["dlt_message"] or b"").decode() == (
        f"group.observed of group 'g' would have {size} bytes, max.message.bytes of rebalance.membership is {size - 1}"
    )
    assert (reasons["dlt_partition"], reasons["dlt_offset"]) == (b"3", b"77")


def test_too_long_event_without_source_record_is_dead_lettered() -> None:
    event = observed(200)
    refused = encoded(event, membership=500)
    assert (refused.is_letter, refused.key, refused.value) == (True, b"g", codec.encode(event.data))
    reasons = dict(refused.headers)
    assert (reasons["dlt_partition"], reasons["dlt_offset"]) == (b"-1", b"-1")


def test_dead_letter_is_cut_to_its_topics_limit() -> None:
    long_record = RawRecord(3, 77, 1000, b"key", b"v" * 5000)
    written = encoded(RejectedRecord(long_record, MalformedRecord("x")), dead_letters=1000)
    assert codec.record_bytes(written.key, written.value, written.headers) <= 1000
    assert "dlt_truncated" in dict(written.headers)


@pytest.mark.parametrize("timestamp", [2**62, -(2**62)])
def test_event_with_an_invalid_time_is_dead_lettered(timestamp: int) -> None:
    event = Event("s", "3:77", GroupDeleted(group_id="g", timestamp=timestamp))
    written = encoded(CollectedEvent(RAW_RECORD, event))
    assert (written.is_letter, dict(written.headers)["dlt_exception"]) == (True, b"MalformedEvent")
    letter_without_source = encoded(event)
    reasons = dict(letter_without_source.headers)
    assert letter_without_source.is_letter
    assert (letter_without_source.key, letter_without_source.value) == (None, None)
    assert (reasons["dlt_partition"], reasons["dlt_offset"]) == (b"-1", b"-1")
