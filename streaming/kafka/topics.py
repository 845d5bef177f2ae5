"""The monitor's topics: which they are, made when missing, checked when there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import ConfigResource, NewTopic

from assignors.errors import BadInput, OutsideFailure
from streaming.kafka.access import NotAllowed, Permission, denied
from streaming.kafka.clients import REACH_SECONDS, answer_of, check_reachable, confluent_config
from streaming.kafka.metadata import identify
from streaming.records.codec import LONGEST_RECORD_BYTES, MAX_RECORD_BYTES
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings

#: ``max.message.bytes`` of the topics: the largest view of a group, or diff, that fits.
MAX_MESSAGE_BYTES = MAX_RECORD_BYTES
_POLL_SECONDS = 0.05
_TICKS_MS = 3_600_000
_DAY_MS = 86_400_000
#: Every episode and incident has a key of its own, so compaction alone would keep all of them for ever.
_COMPACT_DELETE = "compact,delete"
#: What is compacted away is read no more at a start. Managed clusters take no shorter time.
_SIGNS_SEGMENT_MS = 6 * 3_600_000
_DENIALS: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"})


class TopicMisconfigured(BadInput):
    """A topic exists with a cleanup policy that would lose what it holds."""


class TopicsNotCreated(OutsideFailure):
    """The topics could not be created."""


@dataclass(frozen=True, slots=True)
class MonitorTopic:
    """One of the monitor's topics as it should be and as the cluster has it.

    ``partitions``, ``replication_factor``, ``cleanup_policy`` and ``max_message_bytes`` are None while it does not
    exist.
    """

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
        """The topic's problem and how to fix it; None: no problem."""
        wanted = self.wanted_cleanup_policy
        if self.cleanup_policy is None or set(self.cleanup_policy.split(",")) == set(wanted.split(",")):
            return None
        value = f"[{wanted}]" if "," in wanted else wanted
        return (
            f"topic {self.name}: cleanup.policy is {self.cleanup_policy}, {wanted} is needed; "
            f"kafka-configs.sh --alter --entity-type topics --entity-name {self.name} "
            f"--add-config cleanup.policy={value}"
        )


def wanted_topics(settings: TopicSettings) -> list[MonitorTopic]:
    """All topics but the ticks, with the cleanup policies they need."""
    return [
        MonitorTopic(settings.membership, "membership-change events", "delete"),
        MonitorTopic(settings.diffs, "one diff a rebalance round", "delete"),
        MonitorTopic(settings.assignments, "latest assignment of each group", "compact"),
        MonitorTopic(settings.dead_letters, "events that could not be used, with the reason", "delete"),
        MonitorTopic(settings.episodes, "rounds that belong together, as episodes", _COMPACT_DELETE),
        MonitorTopic(settings.incidents, "what somebody should look at", _COMPACT_DELETE),
        MonitorTopic(settings.signs, "last heartbeat of each component", "compact"),
    ]


def describe_topics(
    settings: Settings, only: Iterable[str] | None = None, *, timeout: float = REACH_SECONDS
) -> list[MonitorTopic]:
    """The four topics that records are in, or those of these names, as the cluster has them."""
    check_reachable(settings.kafka, timeout=timeout)
    return _describe(kafka_admin.AdminClient(confluent_config(settings.kafka)), settings, only, timeout)


def longest_records(states: Iterable[MonitorTopic]) -> dict[str, int]:
    """The longest record that is written to each topic: what the topic takes, and what producers can."""
    return {state.name: min(state.max_message_bytes or MAX_MESSAGE_BYTES, LONGEST_RECORD_BYTES) for state in states}


def ensure_topics(
    settings: Settings, only: Iterable[str] | None = None, *, timeout: float = 30.0
) -> list[MonitorTopic]:
    """The four topics that records are in, or those of these names, made when missing.

    Returns once the metadata has them all.

    Raises:
        TopicMisconfigured: one exists with another cleanup policy; the message says how to put it right.
        TopicsNotCreated: the cluster refuses (its reason is in the message), or takes longer than ``timeout``
            seconds.
    """
    check_reachable(settings.kafka, timeout=min(timeout, REACH_SECONDS))
    by = time.monotonic() + timeout
    admin = kafka_admin.AdminClient(confluent_config(settings.kafka))
    states = _describe(admin, settings, only, timeout)
    for state in states:
        if state.problem is not None:
            raise TopicMisconfigured(state.problem)
    missing = [state for state in states if not state.exists]
    if missing:
        _create_topics(settings, [state.name for state in missing], timeout)
        _require_sight(settings.kafka, [state.name for state in missing])
    while not all(state.exists for state in states):
        if time.monotonic() > by:
            names = ", ".join(state.name for state in states if not state.exists)
            raise TopicsNotCreated(f"topics {names}: created, but not in the metadata after {timeout:g} s")
        time.sleep(_POLL_SECONDS)
        states = _describe(admin, settings, only, timeout)
    return states


def _describe(
    admin: kafka_admin.AdminClient, settings: Settings, only: Iterable[str] | None, timeout: float
) -> list[MonitorTopic]:
    names = set(settings.topics.names if only is None else only)
    try:
        known = admin.list_topics(timeout=timeout).topics
        states = []
        for wanted in (topic for topic in wanted_topics(settings.topics) if topic.name in names):
            topic = known.get(wanted.name)
            partitions = topic.partitions if topic is not None else {}
            if not partitions or any(one.leader < 0 for one in partitions.values()):
                states.append(wanted)
                continue
            config = _config(admin, settings.kafka, wanted.name, timeout)
            states.append(
                replace(
                    wanted,
                    partitions=len(partitions),
                    replication_factor=min(len(one.replicas) for one in partitions.values()),
                    cleanup_policy=config["cleanup.policy"].value,
                    max_message_bytes=int(config["max.message.bytes"].value),
                )
            )
    except KafkaException as error:
        raise TopicsNotCreated(f"the cluster does not describe its topics: {error.args[0].str()}") from error
    return states


def _config(admin: kafka_admin.AdminClient, kafka: KafkaSettings, topic: str, timeout: float) -> dict[str, Any]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found: dict[str, Any] = answer_of(admin.describe_configs([resource])[resource], timeout)
    except KafkaException as error:
        if error.args[0].name() not in _DENIALS:
            raise
        raise NotAllowed(denied(kafka, Permission("DescribeConfigs", topic), "to see its cleanup policy")) from error
    return found


def _require_sight(kafka: KafkaSettings, names: list[str]) -> None:
    """Check that this user may describe the topics: without that right they look as if they did not exist."""
    for name in sorted(set(names) - identify(kafka, names).keys()):
        raise NotAllowed(denied(kafka, Permission("Describe", name), "or to see that it exists"))


def ensure_ticks(settings: Settings, *, timeout: float = 30.0) -> None:
    """Create the topic of the stream's ticks if it is missing; ticks are deleted after an hour."""
    name = settings.topics.ticks
    if identify(settings.kafka, [name]).get(name) is None:
        _create_topics(settings, [name], timeout)


def create_signs(settings: Settings, *, timeout: float = 30.0) -> None:
    """Create the missing topic of component heartbeats."""
    _create_topics(settings, [settings.topics.signs], timeout)


def _new(name: str, settings: TopicSettings) -> NewTopic:
    config, partitions = {"cleanup.policy": "delete", "retention.ms": str(_TICKS_MS)}, 1
    if name == settings.signs:
        # The brokers' clock, in place of a clock for each part.
        time_type = {"message.timestamp.type": "LogAppendTime"}
        config = {"cleanup.policy": "compact", "segment.ms": str(_SIGNS_SEGMENT_MS), **time_type}
    elif name != settings.ticks:
        (policy,) = (one.wanted_cleanup_policy for one in wanted_topics(settings) if one.name == name)
        config = {"cleanup.policy": policy, "max.message.bytes": str(MAX_MESSAGE_BYTES), "compression.type": "zstd"}
        if policy == _COMPACT_DELETE:
            config["retention.ms"] = str(settings.episodes_keep_days * _DAY_MS)
        partitions = settings.partitions
    return NewTopic(name, num_partitions=partitions, replication_factor=settings.replication_factor, config=config)


def _create_topics(settings: Settings, names: Iterable[str], timeout: float) -> None:
    admin = kafka_admin.AdminClient(confluent_config(settings.kafka))
    new = [_new(name, settings.topics) for name in names]
    results: dict[str, Any] = admin.create_topics(new, operation_timeout=timeout, request_timeout=timeout)
    for name, result in results.items():
        try:
            answer_of(result)
        except KafkaException as error:
            # Somebody else made it between our look and our request.
            if error.args[0].name() in _DENIALS:
                raise NotAllowed(denied(settings.kafka, Permission("Create", name), "or to see it")) from error
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicsNotCreated(f"topic {name}: {error.args[0].str()}") from error
