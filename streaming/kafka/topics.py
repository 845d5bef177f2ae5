"""The monitor's topics: lists them, creates missing topics, and checks existing topics."""

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import ConfigResource, NewTopic
from msgspec import Struct

from assignors.errors import BadInput, OutsideFailure
from streaming.episodes.incidents import IncidentLimits
from streaming.kafka import clients
from streaming.kafka.access import NoPermission, Permission, denial
from streaming.kafka.clients import CONNECT_TIMEOUT_SECONDS, check_reachable, confluent_config, result_of
from streaming.kafka.metadata import request_identities
from streaming.monitor.outputs import Sinks
from streaming.records.codec import MAX_RECORD_BYTES, RECORD_BYTES_LIMIT
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings

_POLL_SECONDS = 0.05
_CREATE_TIMEOUT_SECONDS = 30.0
_DAY_MS = 86_400_000
#: Every episode and incident has its own key, so compaction alone would keep all episodes and incidents.
_COMPACT_AND_DELETE = "compact,delete"


class MonitorTopic(Struct, rename="camel"):
    """One of the monitor's topics; fields of its configuration are None if the topic does not exist."""

    name: str
    holds: str
    wanted_cleanup_policy: str
    partitions: int | None = None
    replication_factor: int | None = None
    cleanup_policy: str | None = None
    max_message_bytes: int | None = None

    @property
    def exists(self) -> bool:
        """True if the cluster has the topic."""
        return self.partitions is not None

    @property
    def problem(self) -> str | None:
        """The topic's problem and how to fix it; None if the topic has no problem."""
        required_policy = self.wanted_cleanup_policy
        if self.cleanup_policy is None or set(self.cleanup_policy.split(",")) == set(required_policy.split(",")):
            return None
        value = f"[{required_policy}]" if "," in required_policy else required_policy
        return (
            f"topic {self.name}: cleanup.policy is {self.cleanup_policy}, {required_policy} is needed; "
            f"kafka-configs.sh --alter --entity-type topics --entity-name {self.name} "
            f"--add-config cleanup.policy={value}"
        )


def monitor_topics(settings: TopicSettings) -> list[MonitorTopic]:
    """Return all of the monitor's topics except the topic of ticks."""
    return [
        MonitorTopic(settings.membership, "membership-change events", "delete"),
        MonitorTopic(settings.diffs, "one diff a rebalance round", "delete"),
        MonitorTopic(settings.assignments, "latest assignment of each group", "compact"),
        MonitorTopic(settings.dead_letters, "events that could not be used, with the reason", "delete"),
        MonitorTopic(settings.episodes, "episodes of consecutive rebalance rounds", _COMPACT_AND_DELETE),
        MonitorTopic(settings.incidents, "incidents: conditions that need attention", _COMPACT_AND_DELETE),
        MonitorTopic(settings.signs, "last heartbeat of each component", "compact"),
    ]


def describe_topics(settings: Settings, chosen: Iterable[str] | None = None) -> list[MonitorTopic]:
    """Return the ``chosen`` topics, by default the topics of membership, diffs, assignments and dead letters."""
    check_reachable(settings.kafka)
    admin = kafka_admin.AdminClient(confluent_config(settings.kafka))
    return _describe_topics(admin, settings, chosen, CONNECT_TIMEOUT_SECONDS)


def max_record_bytes_by_topic(states: Iterable[MonitorTopic]) -> dict[str, int]:
    """Return the size limit of a record (bytes) by topic, which both the topic and the producers respect."""
    return {state.name: min(state.max_message_bytes or MAX_RECORD_BYTES, RECORD_BYTES_LIMIT) for state in states}


def configured_sinks(settings: Settings, states: Iterable[MonitorTopic], partitions: dict[str, int]) -> Sinks:
    """Return topics and limits of the stream's outputs from the settings; ``partitions``: partition counts by topic."""
    topics, stream = settings.topics, settings.stream
    return Sinks(
        *topics.names,
        partitions=partitions,
        max_bytes=max_record_bytes_by_topic(states),
        episodes=topics.episodes if stream.episodes else None,
        quiet_ms=stream.episode_quiet_ms,
        storm_turns=stream.episode_storm_turns,
        incidents=topics.incidents if stream.episodes else None,
        thresholds=IncidentLimits(**settings.incidents.model_dump()),
        expected_partitions=stream.expected_partitions,
        listing=stream.diffs,
    )


def ensure_topics(
    settings: Settings, chosen: Iterable[str] | None = None, *, timeout: float = _CREATE_TIMEOUT_SECONDS
) -> list[MonitorTopic]:
    """Create missing topics among ``chosen`` (None: as in :func:`describe_topics`); return the topics once all exist.

    Raises BadInput if a topic exists with another cleanup policy; the message has the command that corrects it. Raises
    OutsideFailure if the cluster refuses the request, or takes longer than ``timeout`` seconds.
    """
    check_reachable(settings.kafka, timeout=min(timeout, CONNECT_TIMEOUT_SECONDS))
    by = time.monotonic() + timeout
    admin = kafka_admin.AdminClient(confluent_config(settings.kafka))
    states = _describe_topics(admin, settings, chosen, timeout)
    for state in states:
        if state.problem is not None:
            raise BadInput(state.problem)
    if missing := [state.name for state in states if not state.exists]:
        create_topics(settings, missing, timeout)
        # A topic that this user may not describe looks as if it did not exist.
        for name in sorted(set(missing) - request_identities(settings.kafka, missing).keys()):
            raise NoPermission(denial(settings.kafka, Permission("Describe", name), "so the topic seems missing"))
    while not all(state.exists for state in states):
        if time.monotonic() > by:
            names = ", ".join(state.name for state in states if not state.exists)
            raise OutsideFailure(f"topics {names}: created, but not in the metadata after {timeout:g} s")
        time.sleep(_POLL_SECONDS)
        states = _describe_topics(admin, settings, chosen, timeout)
    return states


def _describe_topics(
    admin: kafka_admin.AdminClient, settings: Settings, chosen: Iterable[str] | None, timeout: float
) -> list[MonitorTopic]:
    names = set(settings.topics.names if chosen is None else chosen)
    states = []
    try:
        metadata = admin.list_topics(timeout=timeout).topics
        for state in (topic for topic in monitor_topics(settings.topics) if topic.name in names):
            partitions = metadata[state.name].partitions.values() if state.name in metadata else ()
            has_leaders = bool(partitions) and all(partition.leader >= 0 for partition in partitions)
            if has_leaders and (config := _config(admin, settings.kafka, state.name, timeout)) is not None:
                state.partitions = len(partitions)
                state.replication_factor = min(len(partition.replicas) for partition in partitions)
                state.cleanup_policy = config["cleanup.policy"].value
                state.max_message_bytes = int(config["max.message.bytes"].value)
            states.append(state)
    except KafkaException as error:
        raise clients.ClusterUnavailable(f"no broker describes the monitor's topics: {error.args[0].str()}") from error
    return states


def _config(admin: kafka_admin.AdminClient, kafka: KafkaSettings, name: str, timeout: float) -> dict[str, Any] | None:
    """Return the topic's configuration; None for a new topic that the answering broker does not know yet."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    try:
        return dict(result_of(admin.describe_configs([resource])[resource], timeout))
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        if not error.args[0].name().endswith("_AUTHORIZATION_FAILED"):
            raise
        raise NoPermission(denial(kafka, Permission("DescribeConfigs", name), "to check its cleanup policy")) from error


def ensure_ticks(settings: Settings) -> None:
    """Create the topic of the stream's ticks if it is missing; ticks are deleted after an hour."""
    name = settings.topics.ticks
    if request_identities(settings.kafka, [name]).get(name) is None:
        create_topics(settings, [name], _CREATE_TIMEOUT_SECONDS)


def _new_topic(name: str, settings: TopicSettings) -> NewTopic:
    config, partitions = {"cleanup.policy": "delete", "retention.ms": "3600000"}, 1
    if name == settings.signs:
        # Timestamps come from the brokers' clocks instead of each component's clock.
        config = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
        # Only closed segments are compacted, so short segments leave few old records. Managed clusters allow no
        # shorter time.
        config["segment.ms"] = str(6 * 3_600_000)
    elif name != settings.ticks:
        (policy,) = (topic.wanted_cleanup_policy for topic in monitor_topics(settings) if topic.name == name)
        config = {"cleanup.policy": policy, "max.message.bytes": str(MAX_RECORD_BYTES), "compression.type": "zstd"}
        if policy == _COMPACT_AND_DELETE:
            config["retention.ms"] = str(settings.episodes_keep_days * _DAY_MS)
        partitions = settings.partitions
    return NewTopic(name, num_partitions=partitions, replication_factor=settings.replication_factor, config=config)


def create_topics(settings: Settings, names: Iterable[str], timeout: float) -> None:
    """Create the topics that do not exist, with the configuration that the monitor needs."""
    request_topics(settings, [_new_topic(name, settings.topics) for name in names], timeout)


def request_topics(settings: Settings, new: list[NewTopic], timeout: float) -> None:
    """Create topics; topics that exist already are left unchanged."""
    admin = kafka_admin.AdminClient(confluent_config(settings.kafka))
    results: dict[str, Any] = admin.create_topics(new, operation_timeout=timeout, request_timeout=timeout)
    for name, result in results.items():
        try:
            result_of(result)
        except KafkaException as error:
            if error.args[0].name().endswith("_AUTHORIZATION_FAILED"):
                raise NoPermission(denial(settings.kafka, Permission("Create", name), "or describe it")) from error
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another process has just created it
                raise OutsideFailure(f"topic {name}: {error.args[0].str()}") from error
