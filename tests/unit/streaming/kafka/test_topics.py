"""The monitor's own topics, over a cluster in memory."""

import pytest
from confluent_kafka import KafkaError

from assignors.errors import BadInput, OutsideFailure
from streaming.kafka import topics
from streaming.kafka.access import NoPermission
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.topics import (
    MonitorTopic,
    create_topics,
    describe_topics,
    ensure_ticks,
    ensure_topics,
    max_record_bytes_by_topic,
)
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(
    kafka=KafkaSettings(bootstrap_servers="memory:1"),
    topics=TopicSettings(prefix="p.", partitions=7, replication_factor=1),
)
NAMES = ["membership", "diffs", "assignments", "membership-dlt"]
ACCESS_DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed")


def test_missing_topics_are_created_once(kafka: MemoryKafka) -> None:
    assert [state.exists for state in describe_topics(SETTINGS)] == [False] * 4
    topics = ensure_topics(SETTINGS)
    for name, topic in zip(NAMES, topics, strict=True):
        policy = "compact" if name == "assignments" else "delete"
        assert (topic.name, topic.cleanup_policy, topic.problem) == (f"p.rebalance.{name}", policy, None)
        assert (topic.partitions, topic.replication_factor, topic.max_message_bytes) == (7, 1, 10 * 2**20)
    kafka.requests.clear()
    assert ensure_topics(SETTINGS) == topics
    assert "create_topics" not in kafka.requests


def test_only_missing_topics_are_created(kafka: MemoryKafka) -> None:
    kafka.create("p.rebalance.diffs", 3, max_message_bytes="500")
    states = {state.name: state for state in ensure_topics(SETTINGS)}
    assert (states["p.rebalance.diffs"].partitions, states["p.rebalance.diffs"].max_message_bytes) == (3, 500)
    assert kafka.requests.count("create_topics") == 3
    assert max_record_bytes_by_topic(states.values()) == {
        "p.rebalance.membership": 10 * 2**20,
        "p.rebalance.diffs": 500,
        "p.rebalance.assignments": 10 * 2**20,
        "p.rebalance.membership-dlt": 10 * 2**20,
    }


def test_topic_limit_is_raised_to_the_producer_limit() -> None:
    wider_topic = MonitorTopic("s", "", "delete", partitions=1, max_message_bytes=20 * 2**20)
    wide_topic = MonitorTopic("t", "", "delete", partitions=1, max_message_bytes=2**30)
    unknown = MonitorTopic("u", "", "delete")
    assert max_record_bytes_by_topic([wider_topic, wide_topic, unknown]) == {
        "s": 20 * 2**20,
        "t": 30 * 2**20,
        "u": 10 * 2**20,
    }


def test_lossy_cleanup_policy_is_refused_with_its_remedy(kafka: MemoryKafka) -> None:
    kafka.create("p.rebalance.assignments", 1)
    with pytest.raises(BadInput) as refused:
        ensure_topics(SETTINGS)
    assert str(refused.value) == (
        "topic p.rebalance.assignments: cleanup.policy is delete, compact is needed; kafka-configs.sh --alter "
        "--entity-type topics --entity-name p.rebalance.assignments --add-config cleanup.policy=compact"
    )
    assert "create_topics" not in kafka.requests


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ACCESS_DENIED, NoPermission, "user 'ANONYMOUS' may not create topic p.rebalance.membership, or describe it"),
        (KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no"), NoPermission, "may not create topic"),
        (
            KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, "too few brokers"),
            OutsideFailure,
            "topic p.rebalance.membership: too few brokers",
        ),
    ],
)
def test_topic_creation_error_is_reported_with_its_cause(
    kafka: MemoryKafka, error: KafkaError, raised: type[Exception], message: str
) -> None:
    kafka.fail("create_topics", error)
    with pytest.raises(raised, match=message):
        ensure_topics(SETTINGS)


def test_concurrent_creation_of_topics_is_not_an_error(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    create = topics.create_topics

    def late(*arguments: object) -> None:
        for name in NAMES:
            policy = "compact" if name == "assignments" else "delete"
            kafka.create(f"p.rebalance.{name}", 2, cleanup_policy=policy)
        create(*arguments)  # type: ignore[arg-type] # as given

    monkeypatch.setattr(topics, "create_topics", late)
    assert [state.partitions for state in ensure_topics(SETTINGS)] == [2] * 4


def test_created_topic_missing_from_metadata_is_reported(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "create_topics", lambda *_: None)
    kafka.create("p.rebalance.diffs")
    with pytest.raises(OutsideFailure) as refused:
        ensure_topics(SETTINGS, timeout=0.1)
    names = ", ".join(f"p.rebalance.{name}" for name in NAMES if name != "diffs")
    assert str(refused.value) == f"topics {names}: created, but not in the metadata after 0.1 s"


def test_topic_without_a_leader_does_not_exist_yet(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_topics(SETTINGS)
    listed = kafka.metadata

    def describe_without_leader(topic: str | None) -> object:
        answer = listed(topic)
        answer.topics["p.rebalance.diffs"].partitions[0].leader = -1
        return answer

    monkeypatch.setattr(kafka, "metadata", describe_without_leader)
    assert [state.exists for state in describe_topics(SETTINGS)] == [True, False, True, True]


def test_missing_right_to_read_a_policy_is_named(kafka: MemoryKafka) -> None:
    ensure_topics(SETTINGS)
    kafka.deny("p.rebalance.diffs", "DESCRIBE_CONFIGS")
    with pytest.raises(
        NoPermission,
        match=r"may not describe the configuration of topic p\.rebalance\.diffs, to check its cleanup policy",
    ):
        describe_topics(SETTINGS)


def test_failed_description_is_reported_with_its_reason(kafka: MemoryKafka) -> None:
    ensure_topics(SETTINGS)
    kafka.fail("describe_configs", KafkaError(KafkaError.UNKNOWN, "no idea"))
    with pytest.raises(ClusterUnavailable, match="no broker describes the monitor's topics: no idea"):
        describe_topics(SETTINGS)


def test_broker_that_does_not_know_a_new_topic_is_asked_again(kafka: MemoryKafka) -> None:
    kafka.fail("describe_configs", KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert all(state.exists for state in ensure_topics(SETTINGS))


def test_ticks_topic_is_created_once_with_an_hours_retention(kafka: MemoryKafka) -> None:
    for _ in range(2):
        ensure_ticks(SETTINGS)
    assert kafka.requests.count("create_topics") == 1
    topic = kafka.topics[SETTINGS.topics.ticks]
    assert (len(topic.logs), topic.config["cleanup.policy"], topic.config["retention.ms"]) == (1, "delete", "3600000")


def test_episode_and_incident_topics_have_a_retention_time(kafka: MemoryKafka) -> None:
    topics = SETTINGS.topics
    states = ensure_topics(SETTINGS, [topics.episodes, topics.incidents, topics.assignments])
    kept = [kafka.topics[state.name].config for state in states]
    assert [(settings["cleanup.policy"], settings.get("retention.ms")) for settings in kept] == [
        ("compact", None),
        *[("compact,delete", str(90 * 86_400_000))] * 2,
    ]
    kafka.topics[topics.episodes].config["cleanup.policy"] = "delete,compact"
    kafka.topics[topics.incidents].config["cleanup.policy"] = "compact"  # such a topic would grow forever
    episodes, incidents = describe_topics(SETTINGS, [topics.episodes, topics.incidents])
    assert episodes.problem is None
    assert incidents.problem is not None
    assert incidents.problem.endswith("--add-config cleanup.policy=[compact,delete]")


def test_heartbeat_topic_is_compacted_with_broker_timestamps(kafka: MemoryKafka) -> None:
    for _ in range(2):
        create_topics(SETTINGS, [SETTINGS.topics.signs], 30)  # another process may create the topic at the same time
    topic = kafka.topics[SETTINGS.topics.signs]
    names = ("cleanup.policy", "segment.ms", "message.timestamp.type")
    assert (len(topic.logs), *(topic.config[name] for name in names)) == (*(1, "compact", "21600000", "LogAppendTime"),)
    (state,) = describe_topics(SETTINGS, [SETTINGS.topics.signs])
    assert (state.problem, state.exists) == (None, True)


def test_topics_hidden_by_permissions_are_not_created_again(kafka: MemoryKafka) -> None:
    ensure_topics(SETTINGS)
    listed = kafka.metadata

    def hide_topic(topic: str | None) -> object:
        answer = listed(topic)
        answer.topics.pop("p.rebalance.diffs", None)
        return answer

    kafka.metadata = hide_topic  # type: ignore[method-assign,assignment] # metadata that this user may see
    kafka.deny("p.rebalance.diffs", "DESCRIBE")
    with pytest.raises(NoPermission, match=r"may not describe topic p\.rebalance\.diffs, so the topic seems missing"):
        ensure_topics(SETTINGS)
