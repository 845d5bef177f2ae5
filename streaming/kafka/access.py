"""The Kafka permissions of each component: which are required, which are optional, and which the cluster grants."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import admin as kafka_admin

from assignors.errors import OutsideFailure
from streaming.kafka.clients import check_reachable, confluent_config, result_of
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings

COMPONENTS: Final = ("collect", "stream", "serve")
_READ: Final = "Read"
_WRITE: Final = "Write"
#: The operation that reads a topic's cleanup policy and max.message.bytes.
_CONFIGS: Final = "DescribeConfigs"
_REQUEST_TIMEOUT_SECONDS: Final = 10.0
_DENIED_ERROR_SUFFIX: Final = "_AUTHORIZATION_FAILED"


class NoPermission(OutsideFailure):
    """The user lacks an ACL that a component requires."""


class Permission(NamedTuple):
    """An operation on a resource; operation and resource type are named as in ``kafka-acls.sh``."""

    operation: str
    name: str
    resource: Literal["topic", "group", "transactional-id"] = "topic"


def optional_permissions(component: str, settings: Settings) -> tuple[Permission, ...]:
    """Return the optional permissions of a component (heartbeats, episodes, incidents), which it can work without."""
    topics = settings.topics
    by_component = {
        "collect": {topics.signs: _WRITE},
        "stream": {topics.signs: _WRITE},
        "serve": dict.fromkeys((topics.signs, topics.episodes, topics.incidents), _READ),
        "watch": dict.fromkeys((topics.signs, topics.episodes), _READ),
        "forecast": dict.fromkeys((topics.episodes, topics.diffs), _READ),
    }
    return tuple(Permission(operation, topic) for topic, operation in by_component.get(component, {}).items())


def stream_topics(settings: Settings) -> tuple[str, ...]:
    """Return the topics that the stream writes to: the membership topic, for timer events, and its output topics."""
    topics = settings.topics
    return (*topics.names, topics.episodes, topics.incidents) if settings.stream.episodes else topics.names


def required_permissions(component: str, settings: Settings) -> tuple[Permission, ...]:
    """Return exactly the permissions that a component requires; Read and Write imply Describe."""
    topics, collector = settings.topics, settings.collector_id
    polling = settings.collect.by == "polling"
    seen = {topics.assignments: (_READ,)} if polling else {"__consumer_offsets": (_READ,)}
    rights: dict[str, dict[str, tuple[str, ...]]] = {
        "collect": {**seen, topics.membership: (_READ, _WRITE, _CONFIGS), topics.dead_letters: (_WRITE, _CONFIGS)},
        "stream": {
            topics.membership: (_READ, _WRITE, _CONFIGS),
            **dict.fromkeys(stream_topics(settings)[1:], (_WRITE, _CONFIGS)),
            topics.ticks: (_READ, _WRITE),
        },
        "serve": dict.fromkeys((topics.diffs, topics.assignments), (_READ,)),
        "watch": {topics.diffs: (_READ,)},
        **dict.fromkeys(
            ("groups", "group"), dict.fromkeys((topics.assignments, topics.episodes, topics.incidents), (_READ,))
        ),
        "why": dict.fromkeys((topics.episodes, topics.incidents), (_READ,)),
        "what-if": dict.fromkeys((topics.membership, topics.assignments), (_READ,)),
        "incidents": {topics.incidents: (_READ,)},
        "migrate": dict.fromkeys((topics.assignments, topics.membership, topics.episodes, topics.diffs), (_READ,)),
        "forecast": dict.fromkeys((topics.assignments, topics.membership), (_READ,)),
        "dlt": {topics.dead_letters: (_READ,), topics.membership: (_WRITE,)},
        "topics": dict.fromkeys(topics.made, ("Create", "Describe", _CONFIGS)),
    }
    place = () if polling else (Permission(_READ, collector, "group"),)
    own = (*place, Permission(_WRITE, collector, "transactional-id"))
    return (
        *(Permission(operation, topic) for topic, operations in rights[component].items() for operation in operations),
        *(own if component == "collect" else ()),
    )


def missing(settings: Settings, component: str) -> Iterator[str]:
    """Return one line for each required ACL that the component lacks, with the command that grants the ACL.

    Resources that do not exist, and transactional ids, are skipped: the cluster does not report their permissions.
    """
    return _lacking(settings, required_permissions(component, settings), f"which {component} must")


def optional_acl_hints(settings: Settings, component: str) -> Iterator[str]:
    """Return one line for each optional ACL that the component lacks, with the command that grants the ACL."""
    for permission in optional_permissions(component, settings):
        what = "heartbeats" if permission.name == settings.topics.signs else permission.name.rpartition(".")[2]
        yield from _lacking(settings, [permission], f"which {component} uses for {what}; it continues without them")


def _lacking(settings: Settings, permissions: Iterable[Permission], why: str) -> Iterator[str]:
    allowed = _allowed_operations(settings, {permission[1:] for permission in permissions})
    for permission in permissions:
        operations = allowed.get(permission[1:])
        if operations is not None and permission.operation.lower() not in operations:
            yield denial(settings.kafka, permission, why)


def require_permissions(settings: Settings, component: str) -> str:
    """Return the cluster's id; raise NoPermission for the first required ACL that the component lacks."""
    cluster = check_reachable(settings.kafka)
    for line in missing(settings, component):
        raise NoPermission(line)
    return cluster


def refusal(error: KafkaError, settings: Settings, component: str) -> NoPermission | None:
    """Return the missing ACL behind a running component's authorization error; None for other errors."""
    kind = error.name()
    if not kind.endswith(_DENIED_ERROR_SUFFIX):
        return None
    for line in missing(settings, component):
        return NoPermission(line)
    resource = kind.removesuffix(_DENIED_ERROR_SUFFIX).lower().replace("_", "-")
    for permission in required_permissions(component, settings):
        if permission.resource == resource != "topic":
            return NoPermission(denial(settings.kafka, permission, f"which {component} must"))
    return NoPermission(f"cluster {settings.kafka.bootstrap_servers}: {error.str()}")


def _allowed_operations(settings: Settings, resources: Iterable[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """Return the granted operations, in lower case, for each topic and group that the cluster describes."""
    admin = kafka_admin.AdminClient(confluent_config(settings.kafka))
    topics = TopicCollection([name for name, resource in resources if resource == "topic"])
    groups = [name for name, resource in resources if resource == "group"]
    options: dict[str, Any] = {"include_authorized_operations": True, "request_timeout": _REQUEST_TIMEOUT_SECONDS}
    answers = {"topic": admin.describe_topics(topics, **options)}
    if groups:
        answers["group"] = admin.describe_consumer_groups(groups, **options)
    allowed: dict[tuple[str, str], set[str]] = {}
    for resource, name, answer in ((kind, *item) for kind, by_name in answers.items() for item in by_name.items()):
        try:
            operations = result_of(answer).authorized_operations
        except KafkaException as error:
            if error.args[0].name().endswith(_DENIED_ERROR_SUFFIX):
                allowed[name, resource] = set()
            continue
        if operations is not None:
            allowed[name, resource] = {operation.name.replace("_", "").lower() for operation in operations}
    return allowed


def denial(settings: KafkaSettings, permission: Permission, why: str) -> str:
    """Return one line with the user, the denied operation, why it is needed, and the command that grants it."""
    operation, name, resource = permission
    who, principal = _principal_and_user(settings)
    verb = "describe the configuration of" if operation == _CONFIGS else operation.lower()
    # The command is quoted because users paste it into a shell, and anybody may have chosen the names of groups.
    quoted_principal, resource_name = ("'" + text.replace("'", "'\\''") + "'" for text in (f"User:{principal}", name))
    return (
        f"cluster {settings.bootstrap_servers}: {who} may not {verb} {resource.replace('-', ' ')} {name}, {why}; "
        f"kafka-acls.sh --bootstrap-server {settings.bootstrap_servers} --add "
        f"--allow-principal {quoted_principal} --operation {operation} --{resource} {resource_name}"
    )


def _principal_and_user(settings: KafkaSettings) -> tuple[str, str]:
    """Return the user of the settings, first as text for messages, then as the principal in Kafka's ACLs."""
    if settings.uses_oauth:
        return f"client {settings.sasl_oauthbearer_client_id!r}", "<sub of its token>"
    if settings.sasl_mechanism == "AWS_MSK_IAM":
        return "this AWS identity", "<ARN of its role>"
    if not settings.uses_sasl and settings.ssl_certificate_file is not None:
        return f"the owner of {settings.ssl_certificate_file}", "<subject of the certificate>"
    user = settings.sasl_username or settings.sasl_kerberos_principal or "ANONYMOUS"
    return f"user {user!r}", user
