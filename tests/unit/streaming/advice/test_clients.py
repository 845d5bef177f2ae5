"""Client configuration files, and the rules that concern only such files."""

import pytest

from assignors.errors import BadInput
from streaming.advice.clients import parse_configuration
from streaming.advice.history import GroupHistory
from tests.support.advice import deploy, history, rules
from tests.support.built_diffs import DiffBuilder

JAVA = """
# consumer
group.id=checkout
session.timeout.ms = 10000
heartbeat.interval.ms: 3000
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor,\\
    org.apache.kafka.clients.consumer.RangeAssignor
value.deserializer=org.apache.kafka.common.serialization.StringDeserializer
"""
SPRING = """
spring:
  kafka:
    bootstrap-servers: kafka:9092
    consumer:
      group-id: checkout
      heartbeat-interval: 3s
      max-poll-records: 100
      properties:
        session.timeout.ms: 10000
        "[max.poll.interval.ms]": 600000
---
server.port: 8080
"""


def test_java_properties_file_is_parsed() -> None:
    configuration = parse_configuration("app.properties", JAVA)
    assert configuration.client.name == "Java"
    assert configuration.values["group.id"] == "checkout"
    assert configuration.milliseconds("session.timeout.ms") == 10_000
    assert configuration.milliseconds("max.poll.interval.ms") is None
    assert configuration.strategies() == ["cooperative-sticky", "range"]
    assert configuration.quote("heartbeat.interval.ms") == "app.properties: heartbeat.interval.ms=3000"


@pytest.mark.parametrize(
    ("source", "text", "client", "session_ms"),
    [
        ("rdkafka.conf", "metadata.broker.list=k:9092\nsession.timeout.ms=10000", "librdkafka", 10_000),
        ("c.conf", "partition.assignment.strategy=range\nsession.timeout.ms=10000", "librdkafka", 10_000),
        ("application.yml", SPRING, "Spring Boot", 10_000),
        ("application.properties", "spring.kafka.consumer.properties.session.timeout.ms=9000", "Spring Boot", 9000),
        ("s.properties", "application.id=a\nmain.consumer.session.timeout.ms=9000", "Kafka Streams", 9000),
        ("worker.properties", "connect.protocol=eager\nsession.timeout.ms=9000", "Kafka Connect", 9000),
        ("sink.properties", "consumer.override.session.timeout.ms=9000", "Kafka Connect sink", 9000),
        ("consumer.yaml", "session_timeout_ms: 9000", "kafka-python", 9000),
    ],
)
def test_configuration_files_of_each_client_are_parsed(source: str, text: str, client: str, session_ms: int) -> None:
    configuration = parse_configuration(source, text)
    assert (configuration.client.name, configuration.milliseconds("session.timeout.ms")) == (client, session_ms)


def test_spring_property_names_are_understood() -> None:
    configuration = parse_configuration("application.yml", SPRING)
    assert configuration.milliseconds("heartbeat.interval.ms") == 3000
    assert configuration.milliseconds("max.poll.interval.ms") == 600_000
    assert configuration.values["max.poll.records"] == "100"


def test_client_file_without_settings_is_refused() -> None:
    with pytest.raises(BadInput, match=r"a\.properties: no setting found"):
        parse_configuration("a.properties", "# nothing\n")
    with pytest.raises(BadInput, match=r"a\.yaml: "):
        parse_configuration("a.yaml", "a: [")


#: Rule → a file that breaks only this rule, its severity and figures, and a correct file.
FILES = {
    "heartbeat-interval": (
        "session.timeout.ms=10000\nheartbeat.interval.ms=5000",
        "warning",
        {"heartbeatIntervalMs": 5000, "sessionTimeoutMs": 10_000},
        "session.timeout.ms=10000\nheartbeat.interval.ms=3000",
    ),
    "shared-instance-id": ("group.instance.id=checkout-1", "warning", {}, "group.instance.id=${HOSTNAME}"),
    "mixed-strategies": (
        "partition.assignment.strategy=cooperative-sticky,range",
        "critical",
        {"strategies": ["cooperative-sticky", "range"]},
        "partition.assignment.strategy=cooperative-sticky",
    ),
}


@pytest.mark.parametrize("rule", FILES)
def test_configuration_file_alone_gives_advice(rule: str) -> None:
    text, severity, figures, corrected_text = FILES[rule]
    history_of_bad_settings = GroupHistory("", 0, configuration=parse_configuration("app.conf", text))
    (advice,) = rules(history_of_bad_settings).values()
    assert (advice.rule, advice.severity, advice.evidence[0].figures) == (rule, severity, figures)
    assert advice.evidence[0].text.startswith("app.conf: ")
    assert rules(GroupHistory("", 0, configuration=parse_configuration("app.conf", corrected_text))) == {}


def test_a_heartbeat_interval_above_the_session_is_refused() -> None:
    text = "session.timeout.ms=10000\nheartbeat.interval.ms=10000"
    advice = rules(GroupHistory("", 0, configuration=parse_configuration("app.conf", text)))["heartbeat-interval"]
    assert (advice.severity, advice.settings) == ("critical", {"heartbeat.interval.ms": "3333"})


def test_advice_uses_spring_names_for_a_spring_file() -> None:
    spring = parse_configuration("application.yml", SPRING)
    builder = DiffBuilder(60).join(*[f"pay-{number}@h{number}#1" for number in range(10)])
    advice = rules(history(deploy(builder), configuration=spring))["cooperative-assignor"]
    assert advice.client == "Spring Boot"
    assert advice.settings == {
        "spring.kafka.consumer.properties.partition.assignment.strategy": (
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        )
    }
