"""Creates, deletes and changes topics of the cluster on which a test runs."""

from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.support.wait import TIMEOUT_SECONDS, eventually


def create_topic(servers: str, name: str, partitions: int = 1, *, replicas: int = 1, **config: Any) -> str:
    """Create a topic and return its name; ``config``: its options, with ``_`` in place of each dot."""
    admin = AdminClient({"bootstrap.servers": servers})  # keep it: responses only arrive while it exists
    new_topic = NewTopic(name, partitions, replicas, config=_with_dots(config))
    admin.create_topics([new_topic])[name].result(TIMEOUT_SECONDS)
    return name


def delete_topic(servers: str, name: str) -> None:
    """Delete a topic, and wait until the cluster has removed it."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([name])[name].result(TIMEOUT_SECONDS)
    eventually(lambda: name not in admin.list_topics(timeout=TIMEOUT_SECONDS).topics)


def grow_topic(servers: str, name: str, partitions: int) -> None:
    """Add partitions to a topic, and wait until it has this many."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(TIMEOUT_SECONDS)
    eventually(lambda: len(admin.list_topics(name, timeout=TIMEOUT_SECONDS).topics[name].partitions) == partitions)


def configure_topic(servers: str, name: str, **config: Any) -> None:
    """Set options of a topic; write ``_`` in place of each dot in an option's name."""
    admin = AdminClient({"bootstrap.servers": servers})
    entries = [
        ConfigEntry(option, str(value), incremental_operation=AlterConfigOpType.SET)
        for option, value in _with_dots(config).items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_SECONDS)


def _with_dots(config: dict[str, Any]) -> dict[str, Any]:
    return {option.replace("_", "."): value for option, value in config.items()}
