"""What each component must be allowed to do, and what the cluster says it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from assignors.errors import OutsideFailure
from streaming.kafka.clients import check_reachable, confluent_config
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

COMPONENTS: Final = ("collect", "stream", "serve")

_READ: Final = "Read"
_WRITE: Final = "Write"
#: Both check the cleanup policies of all topics before they start.
_CONFIGS: Final = "DescribeConfigs"


class NotAllowed(OutsideFailure):
    """An ACL is missing."""


def needs(component: str, settings: Settings) -> dict[str, tuple[str, ...]]:
    """``{topic: operations}`` of a component; reading and writing imply describing."""
    topics = settings.topics
    table: dict[str, dict[str, tuple[str, ...]]] = {
        "collect": {
            "__consumer_offsets": (_READ,),
            topics.membership: (_READ, _WRITE, _CONFIGS),
            topics.dead_letters: (_WRITE, _CONFIGS),
            **dict.fromkeys((topics.diffs, topics.assignments), (_CONFIGS,)),
        },
        "stream": {
            topics.membership: (_READ, _WRITE, _CONFIGS),
            **dict.fromkeys((topics.diffs, topics.assignments, topics.dead_letters), (_WRITE, _CONFIGS)),
            topics.ticks: (_READ, _WRITE),
        },
        "serve": {topics.diffs: (_READ,), topics.assignments: (_READ,)},
    }
    return table[component]


def missing(settings: Settings, component: str, *, timeout: float = 10.0) -> Iterator[str]:
    """One line for each ACL that the component lacks, and how to grant it; missing topics are skipped."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(confluent_config(settings.kafka))
    for topic, operations in needs(component, settings).items():
        allowed = _allowed(admin, topic, timeout)
        for operation in operations:
            if allowed is not None and operation.lower() not in allowed:
                yield denied(settings.kafka, topic, operation, f"which {component} must")


def require(settings: Settings, component: str) -> str:
    """The cluster's id, once it answers and the component may do what it must.

    Raises:
        ClusterUnavailable, AuthenticationRefused, CertificateRefused, WrongSecurityProtocol: as named.
        NotAllowed: the message names the first ACL that is missing and the command that grants it.
    """
    cluster = check_reachable(settings.kafka)
    for line in missing(settings, component):
        raise NotAllowed(line)
    return cluster


def _allowed(admin: AdminClient, topic: str, timeout: float) -> set[str] | None:
    """Names of the allowed operations; None when the topic does not exist or the cluster does not say."""
    from confluent_kafka import KafkaException, TopicCollection

    asked = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=timeout
    )
    try:
        operations = asked[topic].result().authorized_operations
    except KafkaException as error:
        return set() if error.args[0].name() == "TOPIC_AUTHORIZATION_FAILED" else None
    return None if operations is None else {one.name.replace("_", "").lower() for one in operations}


def denied(settings: KafkaSettings, topic: str, operation: str, why: str) -> str:
    """One line: who may not do what, why it is needed, and the command that grants it."""
    user = settings.sasl_username or "ANONYMOUS"
    return (
        f"cluster {settings.bootstrap_servers}: user {user!r} may not {_verb(operation)} topic {topic}, "
        f"{why}; kafka-acls.sh --bootstrap-server {settings.bootstrap_servers} --add "
        f"--allow-principal 'User:{user}' --operation {operation} --topic '{topic}'"
    )


def _verb(operation: str) -> str:
    return "describe the configuration of" if operation == _CONFIGS else operation.lower()
