"""Dead letters are listed, and their records are published again, over a cluster in memory."""

import pytest
from confluent_kafka import KafkaError

from assignors.errors import BadInput
from assignors.partitioner import partition_for_key
from streaming.kafka import dead_letters as dlt
from streaming.kafka.access import NoPermission
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.dead_letters import DeadLetter
from streaming.kafka.producer import SendFailed
from streaming.records.codec import MalformedEvent
from streaming.records.dead_letters import dead_letter_headers
from tests.support.memory_kafka import SETTINGS, MemoryKafka, MemoryProducer

MEMBERSHIP_TOPIC, DEAD_LETTER_TOPIC = SETTINGS.topics.membership, SETTINGS.topics.dead_letters


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(MEMBERSHIP_TOPIC, 4)
    kafka.create(DEAD_LETTER_TOPIC, 2)
    return kafka


def put(
    kafka: MemoryKafka, key: bytes | None, value: bytes | None, partition: int = 0, *more: tuple[str, bytes]
) -> None:
    headers = dead_letter_headers([("x", None), ("y", b"1")], MalformedEvent("why"), topic="m", partition=6, offset=9)
    kafka.append(DEAD_LETTER_TOPIC, value, key=key, partition=partition, headers=[*headers, *more])


def letter(key: bytes | None = b"k", value: bytes | None = b"v", **more: object) -> DeadLetter:
    fields = {"partition": 0, "offset": 0, "truncated": False} | more
    return DeadLetter(
        exception="MalformedEvent",
        message="why",
        source_topic="m",
        source_partition=6,
        source_offset=9,
        key=key,
        value=value,
        headers=[("x", None), ("y", b"1")],
        **fields,  # type: ignore[arg-type] # of these types
    )


def test_dead_letters_are_read_with_reason_and_original_record(kafka: MemoryKafka) -> None:
    put(kafka, b"k", b"v")
    put(kafka, None, None, 1, ("dlt_truncated", b"5000"))
    kafka.append(DEAD_LETTER_TOPIC, b"by hand", headers=[("dlt_partition", b"x")])
    letter_without_source = DeadLetter(0, 1, "", "", "", 0, 0, None, b"by hand", [])
    assert list(dlt.read(SETTINGS)) == [
        letter(),
        letter_without_source,
        letter(None, None, partition=1, truncated=True),
    ]


def test_resent_letters_equal_the_refused_records(kafka: MemoryKafka) -> None:
    assert dlt.resubmit(SETTINGS, [letter(), letter(b"other", None), letter(None, b"v")]) == 3
    assert {
        message.key(): (message.partition() if message.key() else None, *message.record[1:])
        for message in kafka.records(MEMBERSHIP_TOPIC)
    } == {
        b"k": (partition_for_key(b"k", 4), b"v", [("x", None), ("y", b"1")]),
        b"other": (partition_for_key(b"other", 4), None, [("x", None), ("y", b"1")]),
        None: (None, b"v", [("x", None), ("y", b"1")]),
    }
    assert dlt.resubmit(SETTINGS, []) == 0


def test_truncated_letter_is_not_sent_but_earlier_ones_are(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    truncated_letter = letter(b"cut", partition=1, offset=3, truncated=True)
    delivery_times: list[float] = []
    monkeypatch.setattr(MemoryProducer, "flush", lambda _, timeout: delivery_times.append(timeout) or 0)
    with pytest.raises(BadInput) as refused:
        dlt.resubmit(SETTINGS, [letter(), truncated_letter, letter(b"behind")])
    assert len(delivery_times) == 1  # otherwise the process would end before the first record is delivered
    assert str(refused.value) == (
        "1:3: contains only part of the record; the complete record is at m 6:9; 1 records were sent before it"
    )
    assert [message.key() for message in kafka.records(MEMBERSHIP_TOPIC)] == [b"k"]


def test_refused_records_are_reported_with_the_reason(kafka: MemoryKafka) -> None:
    kafka.fail("produce", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    with pytest.raises(SendFailed, match=r"topic rebalance\.membership, .*too large"):
        dlt.resubmit(SETTINGS, [letter()])
    kafka.fail("list_topics", KafkaError(KafkaError._TRANSPORT, "away"))
    with pytest.raises(ClusterUnavailable, match=r"topic rebalance\.membership: away"):
        dlt.resubmit(SETTINGS, [letter()])


def test_missing_write_permission_is_reported(kafka: MemoryKafka) -> None:
    kafka.deny(MEMBERSHIP_TOPIC, "WRITE")
    kafka.fail("produce", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    message = f"may not write topic {MEMBERSHIP_TOPIC}, which dlt must; kafka-acls.sh"
    with pytest.raises(NoPermission, match=message):
        dlt.resubmit(SETTINGS, [letter()])


def test_letters_are_selected_by_position_in_given_order() -> None:
    letters = [letter(offset=number) for number in range(3)]
    assert dlt.pick_letters(iter(letters), ["0:2", "0:0"]) == [letters[2], letters[0]]
    assert dlt.pick_letters(iter(letters), []) == []
    with pytest.raises(BadInput, match="'0:7': no dead letter at this offset; `dlt list` shows PARTITION:OFFSET"):
        dlt.pick_letters(iter(letters), ["0:0", "0:7"])
