import re
import shlex
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from streaming.kafka.access import (
    COMPONENTS,
    NoPermission,
    Permission,
    denial,
    missing,
    optional_acl_hints,
    optional_permissions,
    refusal,
    require_permissions,
    required_permissions,
    stream_topics,
)
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka
from tests.support.pem import certificate

SETTINGS = Settings(
    kafka=KafkaSettings(bootstrap_servers="memory:1"), topics=TopicSettings(prefix="p.", replication_factor=1)
)
DOCS = Path(__file__).parents[4] / "docs/how-to/secure.md"
_PERMISSION_ROW = re.compile(
    r"^\| (?:`([\w-]+)`)? ?\| (topic|group|transactional-id) `([\w.-]+)` \| ([\w, ]+) \|$", re.MULTILINE
)
#: The client's names of the operations.
OPERATIONS = {"Read": "READ", "Write": "WRITE", "DescribeConfigs": "DESCRIBE_CONFIGS"}


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    ensure_topics(SETTINGS, stream_topics(SETTINGS))
    for name in ("__consumer_offsets", SETTINGS.topics.ticks):
        kafka.create(name)
    return kafka


@pytest.mark.parametrize("component", COMPONENTS)
def test_no_permission_is_missing_with_all_granted(kafka: MemoryKafka, component: str) -> None:
    assert list(missing(SETTINGS, component)) == []
    assert require_permissions(SETTINGS, component) == "memory"


@pytest.mark.parametrize(
    ("component", "permission"),
    [
        (component, permission)
        for component in COMPONENTS
        for permission in required_permissions(component, SETTINGS)
        if permission.resource != "transactional-id"
    ],
)
def test_missing_permission_is_reported_with_its_acl_command(
    kafka: MemoryKafka, component: str, permission: Permission
) -> None:
    operation, name, resource = permission
    kafka.deny(name, OPERATIONS[operation])
    verb = "describe the configuration of" if operation == "DescribeConfigs" else operation.lower()
    line = (
        f"cluster memory:1: user 'ANONYMOUS' may not {verb} {resource} {name}, which {component} must; "
        f"kafka-acls.sh --bootstrap-server memory:1 --add --allow-principal 'User:ANONYMOUS' "
        f"--operation {operation} --{resource} '{name}'"
    )
    assert list(missing(SETTINGS, component)) == [line]
    with pytest.raises(NoPermission) as refused:
        require_permissions(SETTINGS, component)
    assert str(refused.value) == line


def test_optional_permissions_are_never_reported_missing(kafka: MemoryKafka) -> None:
    kafka.create(SETTINGS.topics.signs)
    kafka.deny(SETTINGS.topics.signs, "DESCRIBE", "READ", "WRITE")
    assert [list(missing(SETTINGS, component)) for component in COMPONENTS] == [[], [], []]
    lines_of_components = [list(optional_acl_hints(SETTINGS, component)) for component in COMPONENTS]
    assert [[line.partition("; kafka-acls.sh")[0] for line in lines] for lines in lines_of_components] == [
        [
            (
                f"cluster memory:1: user 'ANONYMOUS' may not {verb} topic p.rebalance.signs, "
                f"which {component} uses for heartbeats; it continues without them"
            )
        ]
        for component, verb in zip(COMPONENTS, ("write", "write", "read"), strict=True)
    ]


def test_invisible_topic_lacks_every_permission(kafka: MemoryKafka) -> None:
    kafka.deny(SETTINGS.topics.membership, "DESCRIBE")
    assert len(list(missing(SETTINGS, "collect"))) == 3


def refused(code: int, component: str = "collect") -> str | None:
    error = refusal(KafkaError(code, "what the broker says"), SETTINGS, component)
    return None if error is None else str(error)


def test_authorization_error_names_the_missing_right(kafka: MemoryKafka) -> None:
    kafka.deny(SETTINGS.topics.dead_letters, "WRITE")
    error = refused(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert error is not None
    assert f"may not write topic {SETTINGS.topics.dead_letters}, which collect must" in error
    assert refused(KafkaError.UNKNOWN_TOPIC_OR_PART) is None


def test_refused_transaction_or_group_names_the_permission(kafka: MemoryKafka) -> None:
    error = refused(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert error is not None
    assert f"may not write transactional id {SETTINGS.collector_id}, which collect must" in error
    group = refused(KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert group is not None
    assert f"may not read group {SETTINGS.collector_id}, which collect must" in group
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        assert refused(code) == "cluster memory:1: what the broker says"
    assert refused(KafkaError.GROUP_AUTHORIZATION_FAILED, "serve") == "cluster memory:1: what the broker says"


def test_missing_topics_are_left_out(kafka: MemoryKafka) -> None:
    for name in list(kafka.topics):
        kafka.delete(name)
    assert [list(missing(SETTINGS, component)) for component in COMPONENTS] == [[], [], []]
    assert [list(optional_acl_hints(SETTINGS, component)) for component in COMPONENTS] == [[], [], []]


def documented_permissions() -> dict[str, tuple[Permission, ...]]:
    permissions: dict[str, tuple[Permission, ...]] = {}
    component = ""
    for named, resource, name, operations in _PERMISSION_ROW.findall(DOCS.read_text()):
        component = named or component
        rows = (Permission(operation, name, resource) for operation in operations.split(", "))
        permissions[component] = permissions.get(component, ()) + tuple(rows)
    return permissions


def test_the_documented_permissions_are_those_that_are_needed() -> None:
    settings = Settings()
    assert documented_permissions() == {
        name: (*required_permissions(name, settings), *optional_permissions(name, settings))
        for name in documented_permissions()
    }
    reading_commands = {"watch", "groups", "group", "why", "incidents", "forecast", "migrate", "what-if"}
    assert set(documented_permissions()) == {"collect", "stream", "serve", "dlt", "topics", *reading_commands}


def test_disabled_episodes_need_no_topic_permission() -> None:
    settings = Settings.model_validate({"stream": {"episodes": False}})
    assert stream_topics(settings) == settings.topics.names
    assert {permission.name for permission in required_permissions("stream", Settings())} - {
        permission.name for permission in required_permissions("stream", settings)
    } == {settings.topics.episodes, settings.topics.incidents}


def test_polling_needs_neither_offsets_topic_nor_group() -> None:
    settings = Settings.model_validate({"collect": {"by": "polling"}})
    assert required_permissions("collect", settings) == (
        Permission("Read", "rebalance.assignments"),
        *(
            permission
            for permission in required_permissions("collect", Settings())
            if permission.name != "__consumer_offsets" and permission.resource != "group"
        ),
    )
    table = (DOCS.parent / "managed-clusters.md").read_text()
    rows = re.findall(r"^\| (topic|transactional-id) `([\w.-]+)` \| ([\w, ]+) \|$", table, re.MULTILINE)
    assert {
        Permission(operation, name, resource)
        for resource, name, operations in rows
        for operation in operations.split(", ")
    } == {*required_permissions("collect", settings), *optional_permissions("collect", settings)}


PASSWORD = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "monitor",
    "sasl_password": "s3cret",
}
OAUTH = {"token_endpoint_url": "https://id.example", "client_id": "monitor", "client_secret": "s3cret"}
TOKEN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"} | {
    f"sasl_oauthbearer_{name}": value for name, value in OAUTH.items()
}
CERTIFICATE = {"security_protocol": "SSL", "ssl_certificate_file": "monitor.pem", "ssl_key_file": "monitor.key"}


@pytest.mark.parametrize(
    ("fields", "who", "principal"),
    [
        (PASSWORD, "user 'monitor'", "monitor"),
        (TOKEN, "client 'monitor'", "<sub of its token>"),
        (CERTIFICATE, "the owner of monitor.pem", "<subject of the certificate>"),
        ({}, "user 'ANONYMOUS'", "ANONYMOUS"),
    ],
)
def test_refused_user_is_named_as_in_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], who: str, principal: str
) -> None:
    certificate(tmp_path, "monitor")
    monkeypatch.chdir(tmp_path)
    settings = KafkaSettings.model_validate({"bootstrap_servers": "kafka:9093"} | fields)
    line = denial(settings, Permission("Write", "id", "transactional-id"), "which collect must")
    assert line == (
        f"cluster kafka:9093: {who} may not write transactional id id, which collect must; "
        f"kafka-acls.sh --bootstrap-server kafka:9093 --add --allow-principal 'User:{principal}' "
        "--operation Write --transactional-id 'id'"
    )


def test_group_name_cannot_break_out_of_the_command() -> None:
    settings = KafkaSettings(bootstrap_servers="kafka:9093")
    line = denial(settings, Permission("Describe", "g'; reboot; '", "group"), "why")
    assert shlex.split(line.partition("kafka-acls.sh ")[2])[-4:] == [
        *("--operation", "Describe"),
        *("--group", "g'; reboot; '"),
    ]
