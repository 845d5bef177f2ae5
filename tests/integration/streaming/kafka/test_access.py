"""The documented permissions are sufficient and necessary: a component that lacks one reports which one is missing."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer

from streaming.collect.collector import Collector
from streaming.collect.polling.collector import PollingCollector
from streaming.freshness import ComponentState
from streaming.kafka import dead_letters
from streaming.kafka.access import (
    COMPONENTS,
    NoPermission,
    Permission,
    denial,
    missing,
    optional_permissions,
    required_permissions,
    stream_topics,
)
from streaming.kafka.compacted_topics import read_episode_records, read_explained_episodes, read_groups
from streaming.kafka.diff_reader import read_diffs
from streaming.kafka.group_reader import read_live_group
from streaming.kafka.heartbeats import HeartbeatTracker, HeartbeatWriter
from streaming.kafka.topics import create_topics, ensure_ticks, ensure_topics
from streaming.records.diffs import UnknownGroup
from streaming.serve.source import Source
from streaming.settings.config import Settings, load
from streaming.spark import start
from streaming.spark.start import StreamOptions
from tests.support.background import run_in_background
from tests.support.kafka import eventually, read, unique_name
from tests.support.secure import SecuredBroker, allow_operations, disallow, secure_broker
from tests.support.topics import create_topic

pytestmark = pytest.mark.broker


class Cluster(NamedTuple):
    """A broker, the monitor's topics, and a consumer group with one member."""

    secured_broker: SecuredBroker
    plaintext_settings: Settings
    group: str
    topic: str

    def settings(self, user: str) -> Settings:
        return self.plaintext_settings.model_copy(update={"kafka": self.secured_broker.settings(user)})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as secured_broker:
        plaintext_settings = load(
            bootstrap_servers=secured_broker.plaintext_address, topic_prefix=f"{unique_name('access')}."
        )
        ensure_topics(plaintext_settings, stream_topics(plaintext_settings))
        ensure_ticks(plaintext_settings)
        group, topic = unique_name("group"), create_topic(secured_broker.plaintext_address, unique_name("topic"))
        member = Consumer({"bootstrap.servers": secured_broker.plaintext_address, "group.id": group})
        member.subscribe([topic])
        eventually(lambda: member.poll(0.1) is None and member.assignment())
        yield Cluster(secured_broker, plaintext_settings, group, topic)
        member.close()


def collect(cluster: Cluster, settings: Settings, folder: Path) -> None:
    """Run a collector until it has published one more event or has ended."""
    chosen = settings.model_copy(
        update={"collect": settings.collect.narrowed_to_groups(include_groups=[cluster.group])}
    )
    stop = threading.Event()
    published = len(read(cluster.secured_broker.plaintext_address, settings.topics.membership))

    def watch() -> None:
        while not stop.wait(0.1):
            if len(read(cluster.secured_broker.plaintext_address, settings.topics.membership)) > published:
                stop.set()

    watch_thread = threading.Thread(target=watch)
    watch_thread.start()
    try:
        Collector(chosen, stop).run()
    finally:
        stop.set()
        watch_thread.join()


def stream(cluster: Cluster, settings: Settings, folder: Path) -> None:
    options = StreamOptions(checkpoint=str(folder / "checkpoint"))
    start.prepare(settings, options).ticks.tick()


def serve(cluster: Cluster, settings: Settings, folder: Path) -> None:
    source = Source(settings)
    source.open({}, {})
    try:
        eventually(lambda: source.poll(0.1) == [] and source.caught_up)
    finally:
        source.close()


def watch(cluster: Cluster, settings: Settings, folder: Path) -> None:
    list(read_diffs(settings, from_beginning=True, exit_at_end=True))


def groups(cluster: Cluster, settings: Settings, folder: Path) -> None:
    read_groups(settings)


def group(cluster: Cluster, settings: Settings, folder: Path) -> None:
    read_groups(settings, group=cluster.group)


def why(cluster: Cluster, settings: Settings, folder: Path) -> None:
    read_explained_episodes(settings, group=cluster.group)


def forecast(cluster: Cluster, settings: Settings, folder: Path) -> None:
    with suppress(UnknownGroup):  # replay reads both topics before it reports this
        read_live_group(settings, cluster.group)


def migrate(cluster: Cluster, settings: Settings, folder: Path) -> None:
    forecast(cluster, settings, folder)
    read_episode_records(settings, group=cluster.group)
    watch(cluster, settings, folder)


def dlt(cluster: Cluster, settings: Settings, folder: Path) -> None:
    dead_letters.resubmit(settings, dead_letters.read(settings))


COMPONENT_COMMANDS: dict[str, Callable[[Cluster, Settings, Path], None]] = {
    command.__name__: command for command in (collect, stream, serve, watch, groups, group, why, forecast, migrate, dlt)
}


@pytest.mark.parametrize("component", COMPONENT_COMMANDS)
def test_documented_permissions_are_sufficient_and_minimal(cluster: Cluster, tmp_path: Path, component: str) -> None:
    user = component if component in COMPONENTS else "monitor"
    settings, principal = cluster.settings(user), cluster.secured_broker.principal(user)
    wanted = required_permissions(component, settings)
    allow_operations(cluster.secured_broker, principal, *wanted)
    if component == "collect":
        allow_operations(cluster.secured_broker, principal, Permission("Describe", cluster.topic))
    COMPONENT_COMMANDS[component](cluster, settings, tmp_path)
    assert list(missing(settings, component)) == []
    for permission in wanted:
        disallow(cluster.secured_broker, principal, permission)
        assert refused(lambda: COMPONENT_COMMANDS[component](cluster, settings, tmp_path)).startswith(
            denial(settings.kafka, permission, "")[: -len("; ")].partition(", ;")[0]
        ), permission
        allow_operations(cluster.secured_broker, principal, permission)


def test_missing_heartbeat_topic_permissions_are_named(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    settings, principal = cluster.settings("monitor"), cluster.secured_broker.principal("monitor")
    settings.topics = settings.topics.model_copy(update={"prefix": f"{unique_name('signs')}."})
    settings.signs = settings.signs.model_copy(update={"every_ms": 100})
    create_topics(
        cluster.plaintext_settings.model_copy(update={"topics": settings.topics}), [settings.topics.signs], 30
    )
    (write,), (read_permission, *_) = optional_permissions("collect", settings), optional_permissions("serve", settings)
    writer = HeartbeatWriter(settings, "collector", "c")
    with HeartbeatTracker(settings) as tracker:

        def parts() -> tuple[ComponentState, ...]:
            writer.write(up_to=None)
            return tracker.freshness(time.monotonic()).parts

        def is_reported(permission: Permission) -> bool:
            line = denial(settings.kafka, permission, "").partition(", ;")[0]
            return parts() == () and any(line in message for message in caplog.messages)

        eventually(lambda: is_reported(write) and is_reported(read_permission))
        allow_operations(cluster.secured_broker, principal, write, read_permission)
        eventually(parts)
        assert tracker.freshness(time.monotonic()).is_known


@pytest.fixture
def consumers(cluster: Cluster) -> Iterator[str]:
    """Run a KIP-848 group with one member until the end of the block."""
    group = unique_name("consumers")
    member = Consumer(
        {"bootstrap.servers": cluster.secured_broker.plaintext_address, "group.id": group, "group.protocol": "consumer"}
    )
    member.subscribe([cluster.topic])
    eventually(lambda: member.poll(0.1) is None and member.assignment())
    yield group
    member.close()


def test_polling_permissions_are_sufficient_and_minimal(cluster: Cluster, consumers: str) -> None:
    settings, principal = cluster.settings("monitor"), cluster.secured_broker.principal("monitor")
    settings.collect = settings.collect.narrowed_to_groups(by="polling", include_groups=[cluster.group, consumers])
    describe_permissions = [Permission("Describe", group, "group") for group in (cluster.group, consumers)]
    topic_permission = Permission("Describe", cluster.topic)
    wanted = [*required_permissions("collect", settings), *describe_permissions, topic_permission]
    allow_operations(cluster.secured_broker, principal, *wanted)

    def groups() -> set[bytes]:
        return {message.key() for message in read(cluster.secured_broker.plaintext_address, settings.topics.membership)}

    with run_in_background(lambda stop: PollingCollector(settings, stop).run()):
        eventually(lambda: groups() >= {cluster.group.encode(), consumers.encode()})
    assert list(missing(settings, "collect")) == []
    for permission in wanted:
        disallow(cluster.secured_broker, principal, permission)
        shown = permission._replace(name="*") if permission == topic_permission else permission
        line = refused(PollingCollector(settings, threading.Event()).run)
        assert line.startswith(denial(settings.kafka, shown, "").partition(", ;")[0]), permission
        allow_operations(cluster.secured_broker, principal, permission)


@pytest.mark.parametrize("number", range(3))
def test_creating_topics_needs_exactly_three_permissions(cluster: Cluster, number: int) -> None:
    """The test removes permissions of one topic only, because all four topics need the same permissions."""
    settings = cluster.settings("monitor")
    settings.topics = settings.topics.model_copy(update={"prefix": f"{unique_name('made')}."})
    principal, wanted = cluster.secured_broker.principal("monitor"), required_permissions("topics", settings)
    allow_operations(cluster.secured_broker, principal, *(item for item in wanted if item != wanted[number]))
    assert denial(settings.kafka, wanted[number], "").partition(",")[0] in refused(lambda: ensure_topics(settings))
    allow_operations(cluster.secured_broker, principal, wanted[number])
    eventually(lambda: made(settings))


def made(settings: Settings) -> bool:
    try:
        return all(state.exists for state in ensure_topics(settings))
    except NoPermission:  # a new permission is not effective yet
        return False


def refused(run: Callable[[], None]) -> str:

    def request_or_refusal() -> str:
        try:
            run()
        except NoPermission as error:
            return str(error)
        return ""

    return str(eventually(request_or_refusal))
