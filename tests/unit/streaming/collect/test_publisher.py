import gc
import json
import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from assignors.errors import OutsideFailure
from streaming.collect import publisher
from streaming.collect.coordinator.records import OFFSETS_TOPIC, RawRecord
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.fold import RejectedRecord
from streaming.collect.publisher import Publisher, ReplacedByOtherCollector
from streaming.collect.source import ResumePoint
from streaming.kafka.access import NoPermission
from streaming.kafka.producer import EventProducer
from streaming.kafka.topics import ensure_topics
from streaming.records.events import Event, MemberLeft
from tests.support.memory_kafka import SETTINGS, MemoryKafka, MemoryProducer

TOPIC = SETTINGS.topics.membership
TIMED_OUT_ERROR = KafkaError(KafkaError._TIMED_OUT, "timed out", False, True, False)
ABORT_REQUIRED_ERROR = KafkaError(KafkaError._TIMED_OUT, "aborted", False, False, True)


@pytest.fixture
def kafka(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    ensure_topics(SETTINGS)
    monkeypatch.setattr(publisher, "_RETRY_SECONDS", 0.0)
    kafka.requests.clear()
    return kafka


@pytest.fixture
def publisher_under_test(kafka: MemoryKafka) -> Publisher:
    del kafka  # the cluster that the publisher uses
    return Publisher(SETTINGS, "group", lambda: False)


def event(number: int = 1) -> Event:
    return Event("s", str(number), MemberLeft(group_id="g", timestamp=number, member_id="m"))


def place(offset: int) -> ResumePoint:
    return ResumePoint({3: offset, 5: 2 * offset}, "group")


def ids(kafka: MemoryKafka) -> list[bytes | None]:
    return [dict(message.headers() or [])["ce_id"] for message in kafka.records(TOPIC)]


def kept(kafka: MemoryKafka) -> dict[int, int]:
    return {partition: offset for (_, _, partition), offset in kafka.committed.items()}


def test_batch_and_its_offsets_are_committed_atomically(kafka: MemoryKafka, publisher_under_test: Publisher) -> None:
    rejected_record = RejectedRecord(RawRecord(3, 76, 1, b"k", b"v"), MalformedRecord("why"))
    written = publisher_under_test.publish([event(1), rejected_record, event(2)], place(10))
    assert [(record.topic, record.is_letter) for record in written] == [
        (TOPIC, False),
        (SETTINGS.topics.dead_letters, True),
        (TOPIC, False),
    ]
    assert ids(kafka) == [b"1", b"2"]
    assert [letter.record[:2] for letter in kafka.records(SETTINGS.topics.dead_letters)] == [(b"k", b"v")]
    assert kafka.committed == {("group", OFFSETS_TOPIC, 3): 10, ("group", OFFSETS_TOPIC, 5): 20}


ABORTED = "the transaction was aborted; writing the batch again"
ALONE = "the cluster answers others, but not this producer ({}): a new one"
NOT_ENOUGH_ERROR = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, "too few replicas")
#: After an unclean leader election the broker expects other sequence numbers than the producer's.
SEQUENCE_ERROR = KafkaError(KafkaError._FATAL, "Broker: Broker received an out of order sequence number", True)


@pytest.mark.parametrize(
    ("request_", "errors", "producers", "aborts", "messages"),
    [
        ("commit", [ABORT_REQUIRED_ERROR], 1, 1, [ABORTED]),
        ("commit", [ABORT_REQUIRED_ERROR] * 3, 1, 3, [ABORTED] * 3),
        ("send_offsets", [ABORT_REQUIRED_ERROR] * 3, 1, 3, [ABORTED] * 3),
        ("produce", [NOT_ENOUGH_ERROR], 1, 1, [ABORTED]),
        ("list_topics", [TIMED_OUT_ERROR], 2, 0, [ALONE.format(f"topic {TOPIC}: timed out")]),
        ("commit", [TIMED_OUT_ERROR] * 2, 2, 0, [ALONE.format("timed out")]),
        ("send_offsets", [TIMED_OUT_ERROR], 2, 0, ["offsets were not added to the transaction: timed out"]),
        ("commit", [SEQUENCE_ERROR], 2, 0, []),
    ],
)
def test_batch_of_a_failed_transaction_is_written_again(
    kafka: MemoryKafka,
    publisher_under_test: Publisher,
    caplog: pytest.LogCaptureFixture,
    *,
    request_: str,
    errors: list[KafkaError],
    producers: int,
    aborts: int,
    messages: list[str],
) -> None:
    kafka.fail(request_, *errors)
    publisher_under_test.publish([event(1), event(2)], place(10))
    assert (ids(kafka), kept(kafka)) == ([b"1", b"2"], {3: 10, 5: 20})
    assert (kafka.epochs["group"], kafka.requests.count("abort")) == (producers, aborts)
    assert [message for message in caplog.messages if message in messages] == messages


def test_producer_that_fails_in_a_callback_is_replaced(
    kafka: MemoryKafka, publisher_under_test: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = MemoryProducer.flush

    def raise_on_flush(*_: object) -> int:
        monkeypatch.setattr(MemoryProducer, "flush", flush)
        raise SystemError("returned a result with an exception set")

    monkeypatch.setattr(MemoryProducer, "flush", raise_on_flush)
    kafka.fail("abort", SEQUENCE_ERROR)
    publisher_under_test.publish([event(1)], place(10))
    assert (ids(kafka), kafka.epochs["group"]) == ([b"1"], 2)


def test_replaced_cluster_gets_no_events_of_the_former(kafka: MemoryKafka, publisher_under_test: Publisher) -> None:
    kafka.cluster_id = "other"
    kafka.fail("send_offsets", ABORT_REQUIRED_ERROR)  # the broker has no state of the producer
    with pytest.raises(OutsideFailure, match=r"another cluster answers now \(id other, before memory\)"):
        publisher_under_test.publish([event(1)], place(10))
    assert ids(kafka) == []


def test_batch_without_topic_metadata_is_written_again(
    kafka: MemoryKafka,
    publisher_under_test: Publisher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send, errors = EventProducer.send_record, [publisher.clients.ClusterUnavailable(f"topic {TOPIC}: no leader")]

    def raise_before_send(producer: EventProducer, *record: Any) -> None:
        if errors:
            raise errors.pop()
        send(producer, *record)

    monkeypatch.setattr(EventProducer, "send_record", raise_before_send)
    publisher_under_test.publish([event(1), event(2)], place(10))
    assert (ids(kafka), kept(kafka)) == ([b"1", b"2"], {3: 10, 5: 20})
    assert f"transaction failed: topic {TOPIC}: no leader" in caplog.messages


def test_short_outage_of_the_cluster_is_waited_out(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.fail("init_transactions", TIMED_OUT_ERROR)
    publisher_under_test = Publisher(SETTINGS, "group", lambda: False)
    kafka.fail("commit", TIMED_OUT_ERROR)
    publisher_under_test.publish([event(1)], place(10))
    assert ids(kafka) == [b"1"]
    assert kafka.requests.count("abort") == 0
    assert caplog.messages.count("no contact with Kafka (timed out): waiting for it") == 2


def test_a_producer_that_never_answers_is_replaced(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(publisher, "_CALL_TIMEOUT_SECONDS", 0.2)
    publisher_under_test, unset_event, stopped = Publisher(SETTINGS, "group", lambda: False), threading.Event(), []
    send_offsets = MemoryProducer.send_offsets_to_transaction

    def ignore_first_producer(self: MemoryProducer, *arguments: Any) -> None:
        stopped.append(self)
        if len(stopped) == 1:
            unset_event.wait()
        send_offsets(self, *arguments)

    monkeypatch.setattr(MemoryProducer, "send_offsets_to_transaction", ignore_first_producer)
    publisher_under_test.publish([event(1)], place(10))
    assert ids(kafka) == [b"1"]
    assert kept(kafka) == {3: 10, 5: 20}
    lost = "the cluster answers others, but not this producer (no answer within 0.2 s): a new one"
    assert caplog.messages.count(lost) == 1
    assert stopped[0] is not stopped[1]


def test_a_failed_call_leaves_no_cycle_with_its_client() -> None:
    """Python may free a reference cycle on a thread of librdkafka, which then ends the process."""
    freed = threading.Event()

    class Client:
        def commit(self) -> None:
            raise KafkaException(TIMED_OUT_ERROR)

        def __del__(self) -> None:
            freed.set()

    gc.disable()
    try:
        with suppress(KafkaException):
            publisher._call_with_timeout(Client().commit, 5)
        assert freed.wait(5)
    finally:
        gc.enable()


def test_commit_with_lost_answer_is_not_repeated_if_stored(kafka: MemoryKafka, publisher_under_test: Publisher) -> None:
    publisher_under_test.publish([event(1)], place(5))
    kafka.fail("commit", TIMED_OUT_ERROR, TIMED_OUT_ERROR)
    # The record reached the cluster although the call failed.
    kafka.committed |= {("group", OFFSETS_TOPIC, 3): 10, ("group", OFFSETS_TOPIC, 5): 20}
    kafka.append(TOPIC, b"{}", headers=[("ce_id", b"2")])
    publisher_under_test.publish([event(2)], place(10))
    assert sorted(ids(kafka), key=repr) == [b"1", b"2"]


def test_a_first_batch_whose_answer_was_lost_is_written_again(
    kafka: MemoryKafka, publisher_under_test: Publisher
) -> None:
    kafka.fail("commit", TIMED_OUT_ERROR, TIMED_OUT_ERROR)
    kafka.committed |= {("group", OFFSETS_TOPIC, 3): 10, ("group", OFFSETS_TOPIC, 5): 20}
    publisher_under_test.publish([event(1)], place(10))
    assert ids(kafka) == [b"1"]


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (
            KafkaError(KafkaError._FENCED, "fenced", True),
            ReplacedByOtherCollector,
            "Another collector with the same group id",
        ),
        (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "old"), ReplacedByOtherCollector, "Another collector"),
        (KafkaError(KafkaError.PRODUCER_FENCED, "old"), ReplacedByOtherCollector, "Another collector"),
        (
            KafkaError(KafkaError._FATAL, "no more", True),
            OutsideFailure,
            "the cluster refuses the collected events: no more",
        ),
        (
            KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not allowed"),
            NoPermission,
            "user 'ANONYMOUS' may not write transactional id rebalance-monitor-collector",
        ),
    ],
)
def test_unrepairable_error_ends_the_collector(
    kafka: MemoryKafka, publisher_under_test: Publisher, error: KafkaError, raised: type[Exception], message: str
) -> None:
    kafka.fail("commit", error)
    with pytest.raises(raised, match=message):
        publisher_under_test.publish([event(1)], place(10))
    assert (ids(kafka), kept(kafka)) == ([], {})


@pytest.mark.parametrize("error", [TIMED_OUT_ERROR, ABORT_REQUIRED_ERROR])
def test_stopping_does_not_wait_for_the_cluster(kafka: MemoryKafka, error: KafkaError) -> None:
    publisher_under_test = Publisher(SETTINGS, "group", lambda: True)
    kafka.fail("commit", error)
    with pytest.raises(OutsideFailure, match=r"the cluster does not answer|the next start reads it again"):
        publisher_under_test.publish([event(1)], place(10))
    assert (ids(kafka), kept(kafka)) == ([], {})


def test_stopping_does_not_wait_for_a_new_producer(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    del kafka  # the cluster that the publisher uses
    monkeypatch.setattr(publisher, "_CALL_TIMEOUT_SECONDS", 0.05)
    unset_event = threading.Event()
    monkeypatch.setattr(MemoryProducer, "init_transactions", lambda *_: unset_event.wait())
    results = iter([False, False])
    with pytest.raises(OutsideFailure, match=r"the cluster does not answer: no answer within 0\.2 s"):
        Publisher(SETTINGS, "group", lambda: next(results, True))


def test_changed_topic_limit_is_noticed(
    kafka: MemoryKafka, publisher_under_test: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic's size limit shrinks after the collector's start: rejected events become dead letters."""
    assert publisher_under_test._producer.client.config["batch.size"] == 1_000_000
    kafka.topics[TOPIC].config["max.message.bytes"] = "50"
    kafka.fail("produce", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    publisher_under_test.publish([event(1)], place(10))
    assert kafka.records(TOPIC) == []
    (letter,) = kafka.records(SETTINGS.topics.dead_letters)
    assert json.loads(letter.value() or b"")["memberId"] == "m"
    assert publisher_under_test._producer.client.config["batch.size"] == 50
    (message,) = (text for text in caplog.messages if text.startswith("dead-lettered to rebalance.membership-dlt"))
    assert "max.message.bytes of rebalance.membership is 50" in message


def test_deleted_topic_is_named_and_awaited(
    kafka: MemoryKafka,
    publisher_under_test: Publisher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka.fail("produce", KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown topic"))
    kafka.delete(TOPIC)
    message = f"no topic {TOPIC}: waiting until `rebalance-monitor topics --create` creates it"

    def create_missing_topic(_: float) -> None:
        if message in caplog.messages:
            ensure_topics(SETTINGS)

    monkeypatch.setattr(publisher, "time", SimpleNamespace(sleep=create_missing_topic))
    publisher_under_test.publish([event(1)], place(10))
    assert message in caplog.messages
    assert (ids(kafka), kept(kafka)) == ([b"1"], {3: 10, 5: 20})


def test_failed_limit_request_keeps_the_known_limits(
    kafka: MemoryKafka,
    publisher_under_test: Publisher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka.fail("commit", ABORT_REQUIRED_ERROR)
    kafka.fail("describe_configs", KafkaError(KafkaError._TRANSPORT, "away"))

    def refused(*_: Any) -> None:
        raise publisher.clients.ClusterUnavailable("away")

    monkeypatch.setattr(publisher, "describe_topics", refused)
    publisher_under_test.publish([event(1)], place(10))
    assert ids(kafka) == [b"1"]
    assert kafka.epochs["group"] == 1
    assert "the topics' limits are unknown: away" in caplog.messages


def test_unreachable_cluster_is_awaited_by_same_producer(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_on_connect(*_: Any, **__: Any) -> None:
        raise publisher.clients.ClusterUnavailable("away")

    publisher_under_test = Publisher(SETTINGS, "group", lambda: False)
    monkeypatch.setattr(publisher.clients, "check_reachable", raise_on_connect)
    kafka.fail("commit", TIMED_OUT_ERROR, TIMED_OUT_ERROR, TIMED_OUT_ERROR)
    publisher_under_test.publish([event(1)], place(10))
    assert (ids(kafka), kept(kafka), kafka.epochs["group"]) == ([b"1"], {3: 10, 5: 20}, 1)
    assert caplog.messages.count("no contact with Kafka (timed out): waiting for it") == 3
