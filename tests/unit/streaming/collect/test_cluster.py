import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.collect.cluster import ClusterTopics, max_silence_ms
from streaming.records.events import TopicMetadata
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = KafkaSettings(bootstrap_servers="memory:1")
BROKER_DOWN_ERROR = KafkaError(KafkaError._TRANSPORT, "broker is away")


def bounds(session: str, heartbeat: str) -> dict[str, str]:
    return {"group.consumer.min.session.timeout.ms": session, "group.consumer.max.heartbeat.interval.ms": heartbeat}


@pytest.fixture
def topics(kafka: MemoryKafka) -> ClusterTopics:
    return ClusterTopics(SETTINGS, threading.Event())


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ([bounds("45000", "15000")], 30_000),
        ([bounds("45000", "15000"), bounds("20000", "15000"), bounds("60000", "5000")], 5000),
        ([bounds("45000", "15000"), {}], 30_000),  # response of an older Kafka release
        ([bounds("15000", "15000")], None),
        ([bounds("1000", "15000")], None),
        ([{}], None),
        ([], None),
    ],
)
def test_surely_alive_time_uses_the_narrowest_broker_settings(
    kafka: MemoryKafka, brokers: list[dict[str, str]], expected: int | None
) -> None:
    kafka.brokers = dict(enumerate(brokers))
    assert max_silence_ms(SETTINGS) == expected


@pytest.mark.parametrize("request_", ["list_topics", "describe_configs"])
def test_without_broker_settings_commits_prove_nothing(
    kafka: MemoryKafka, request_: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    kafka.brokers = {1: bounds("45000", "15000")}
    kafka.fail(request_, *[BROKER_DOWN_ERROR] * 3)
    assert max_silence_ms(SETTINGS) is None
    assert caplog.messages == [
        "the limits of KIP-848 sessions are unknown, so commits prove no leave from such a group: broker is away"
    ]


def test_a_broker_that_died_is_out_of_the_next_list(kafka: MemoryKafka) -> None:
    kafka.brokers = {1: bounds("45000", "15000"), 2: bounds("45000", "15000")}
    kafka.fail("describe_configs", BROKER_DOWN_ERROR, BROKER_DOWN_ERROR)
    assert max_silence_ms(SETTINGS) == 30_000


def test_topic_metadata_has_counts_ids_and_racks(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    kafka.create("plain", 2).id = "a+b/c=="
    kafka.create("racks", 2).racks = [["r2", "r1", "", *"gfedcba"], []]
    kafka.create("other", 1)
    assert topics.refresh(["plain", "racks", "missing"]) == {
        "plain": TopicMetadata(partitions=2, topic_id="a-b_c"),
        "racks": TopicMetadata(partitions=2, racks=[[*"abcdefg", "r1", "r2"], []], topic_id="id-2"),
        "missing": TopicMetadata(partitions=0),
    }
    assert topics.refresh(None).keys() == {"plain", "racks", "other"}


def test_topic_without_permission_is_not_reported_deleted(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    kafka.create("hidden", 2)
    assert topics.refresh(["hidden"])["hidden"].partitions == 2
    kafka.delete("hidden")
    kafka.deny("hidden", "DESCRIBE")
    assert topics.refresh(["hidden"]) == {}


def test_only_new_or_grown_topics_are_requested_again(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    kafka.create("a", 1)
    kafka.create("b", 1)
    topics.refresh(None)
    kafka.requests.clear()
    kafka.topics["a"].logs.append(kafka.topics["b"].logs[0])
    assert topics.refresh(None)["a"].partitions == 2
    assert kafka.requests.count("describe_topics") == 1
    kafka.delete("b")
    assert topics.refresh(None).keys() == {"a"}
    kafka.create("b", 1)
    assert topics.refresh(["b"])["b"].topic_id == "id-3"
    assert kafka.requests.count("describe_topics") == 2


def test_one_client_is_used_until_it_fails(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    topics.refresh(None)
    topics.refresh(None)
    assert len(kafka.admins) == 1
    kafka.fail("list_topics", BROKER_DOWN_ERROR)
    with pytest.raises(KafkaException):
        topics.refresh(None)
    topics.refresh(None)
    assert len(kafka.admins) == 2


def test_many_topics_are_described_in_several_requests(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    for number in range(1001):
        kafka.create(f"t{number}")
    assert len(topics.refresh(None)) == 1001


def test_topic_deleted_between_two_requests_is_skipped(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    kafka.create("a")
    kafka.fail("describe_topics", KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown topic"))
    assert topics.refresh(None) == {}


def test_topic_id_keeps_the_name_of_a_deleted_topic(
    kafka: MemoryKafka, topics: ClusterTopics, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create("t")
    assert topics.name("id-1") == "t"
    kafka.delete("t")
    assert topics.name("id-1") == "t"
    kafka.create("t")  # deleted and created again: same name and partition count, another topic id
    topics.on_fetch(past=False)
    assert topics.name("id-2") == "t"
    topics.on_fetch(past=False)
    kafka.requests.clear()
    assert [topics.name("never"), topics.name("never")] == ["never", "never"]
    assert kafka.requests.count("list_topics") == 1  # the collector requests an unknown topic only once
    assert caplog.messages == ["topic id never: the topic no longer exists; the id is used as its name"]


def test_unknown_old_topic_ids_cost_one_request(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    kafka.create("t")
    kafka.requests.clear()
    for number in range(3):
        topics.on_fetch(past=True)
        assert topics.name(f"gone-{number}") == f"gone-{number}"
    assert kafka.requests.count("list_topics") == 1


def test_unknown_topic_ids_of_one_read_cost_one_request(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    topics.on_fetch(past=False)
    assert [topics.name("gone-1"), topics.name("gone-2")] == ["gone-1", "gone-2"]
    assert kafka.requests.count("list_topics") == 1
    kafka.create("new")
    topics.on_fetch(past=False)
    assert topics.name("id-1") == "new"
    assert kafka.requests.count("list_topics") == 2


def test_topic_id_gets_a_name_once_it_is_known(kafka: MemoryKafka, topics: ClusterTopics) -> None:
    assert topics.name("id-1") == "id-1"
    kafka.create("late")
    topics.refresh(None)
    assert topics.name("id-1") == "late"


def test_unreachable_cluster_is_tried_six_times(
    kafka: MemoryKafka, topics: ClusterTopics, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create("t")
    kafka.fail("list_topics", *[BROKER_DOWN_ERROR] * 5)
    assert topics.name("id-1") == "t"
    assert caplog.messages == ["topic ids: broker is away"] * 5
    topics.on_fetch(past=False)
    kafka.fail("list_topics", *[BROKER_DOWN_ERROR] * 6)
    with pytest.raises(KafkaException):
        topics.name("other")


def test_stopping_does_not_wait_for_the_cluster(kafka: MemoryKafka) -> None:
    stop = threading.Event()
    stop.set()
    kafka.away = True
    with pytest.raises(KafkaException):
        ClusterTopics(SETTINGS, stop).name("id-1")
    assert kafka.requests.count("list_topics") == 1
