"""Consumers with the listener: their combined reports agree with the coordinator's records in every round."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import structs

from streaming.records.diffs import Diff, MemberDiff
from streaming.settings.config import Settings, load
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.histories import check_diff_algebra, partitions_after
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.live_stream import LiveStream
from tests.support.members import CONSUMER, COOPERATIVE, EAGER, Member, Share

#: Longer than a busy machine takes to restart a member, or delays its heartbeats.
SESSION_OPTIONS: dict[str, Any] = {"session_timeout_ms": 15_000}
KAFKA_PYTHON: dict[str, Any] = {"client": "kafka-python", **SESSION_OPTIONS}
#: Client names and their options.
CLIENTS: dict[str, dict[str, Any]] = {
    "cooperative": COOPERATIVE | SESSION_OPTIONS,
    "kafka-python-range": KAFKA_PYTHON | {"protocol": "eager"},
    "eager": EAGER | SESSION_OPTIONS,
    "kafka-python-cooperative": KAFKA_PYTHON | {"protocol": "cooperative"},
}
#: Clients with a callback in every generation; kafka-python has no callback in generations that it skips.
CONFIGS_WITH_ALL_CALLBACKS = ("cooperative", "eager")
#: A client that also has no callback in generations without a change, so that it reports these late or never.
CONFIGS_WITH_MISSING_CALLBACKS = ("kafka-python-cooperative",)


@pytest.fixture
def settings(broker: Kafka) -> Settings:
    return load(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"{unique_name('reported_shares')}.")


def rounds_from_listener(settings: Settings, **options: Any) -> dict[str, Any]:
    servers, prefix = settings.kafka.bootstrap_servers, settings.topics.prefix
    return options | {"listener": servers, "listener_prefix": prefix}


def reported_shares(*members: Member) -> dict[str, Share]:
    return {member.lines[-1]["memberId"]: member.owned for member in members if member.lines}


def settled(*members: Member) -> bool:
    """Return true if the members own all six partitions and are in one generation, or own equally many partitions.

    kafka-python's range serves static members first, so that a dynamic member may get no partition.
    """
    if not all(member.lines for member in members):
        return False
    counts = [sum(map(len, member.owned.values())) for member in members]
    last = {(member.lines[-1]["event"], member.lines[-1]["generation"]) for member in members}
    return sum(counts) == 6 and (len({*counts}) == 1 or (len(last) == 1 and last.pop()[0] == "assigned"))


def shares_by_client(diff: Diff) -> dict[str, Share]:
    return {name: share for name, share in partitions_after(diff).items() if diff.members[name].present}


def shown(diff: Diff) -> tuple[int | None, int, int, dict[str, MemberDiff], Share]:
    """Return the compared parts of a diff; the coordinator reports a member's address, the listener its host name."""
    members = {name: structs.replace(member, client_host=None) for name, member in diff.members.items()}
    return (diff.generation, diff.round, diff.moved, members, diff.unassigned)


@contextmanager
def monitored_group(
    settings: Settings, group: str
) -> Iterator[tuple[tuple[LiveStream, LiveStream], Callable[..., None]]]:
    """Yield the streams of a collector and of the listener, and a function that waits until they agree with members."""
    collecting = CollectorProcess(settings.kafka.bootstrap_servers, group)
    with collecting, LiveStream(collecting.settings) as collector, LiveStream(settings) as listener:

        def at_rest(*members: Member) -> None:
            """Wait until the callbacks, the listener's reports and the collector's snapshot agree."""
            eventually(lambda: settled(*members))
            eventually(
                lambda: (
                    collector.current_partitions(group)
                    == listener.current_partitions(group)
                    == reported_shares(*members)
                )
            )

        yield (collector, listener), at_rest


@pytest.mark.full
@pytest.mark.parametrize("client", CLIENTS)
def test_listener_and_offsets_topic_agree_on_every_round(
    broker: Kafka, written: str, settings: Settings, client: str
) -> None:
    servers, group = broker.bootstrap_servers, unique_name(client)
    options = rounds_from_listener(settings, **CLIENTS[client])
    with monitored_group(settings, group) as (monitors, at_rest):
        collector, listener = monitors
        with Member(servers, group, "c1", [written], **options) as first:
            at_rest(first)
            second = Member(servers, group, "c2", [written], **options)
            at_rest(first, second)
            with Member(servers, group, "s3", [written], instance_id="i-3", **options) as third:
                at_rest(first, second, third)
                second.crash()
                at_rest(first, third)
                third.crash()  # and rejoins before its session ends: no partition moves
                with Member(servers, group, "s3", [written], instance_id="i-3", **options) as back:
                    at_rest(first, back)
                    with Member(servers, group, "c4", [written], **options) as fourth:
                        at_rest(first, back, fourth)
                    at_rest(first, back)
            at_rest(first)
        eventually(lambda: (listener.current_partitions(group), collector.current_partitions(group)) == ({}, {}))
        rounds = [[shown(diff) for diff in monitor.rounds(group)] for monitor in monitors]
        if client in CONFIGS_WITH_ALL_CALLBACKS:
            assert rounds[0] == rounds[1]
        elif client not in CONFIGS_WITH_MISSING_CALLBACKS:
            rounds_by_monitor = [
                {diff.generation: shares_by_client(diff) for diff in monitor.rounds(group)} for monitor in monitors
            ]
            assert rounds_by_monitor[1].items() <= rounds_by_monitor[0].items()
        # If a static member rejoins too late, there are more generations.
        cause_kinds = {diff.cause.kind for diff in listener.rounds(group)}
        assert cause_kinds >= {"member.joined", "member.fenced", "member.left"}


@pytest.mark.full
def test_listener_and_offsets_topic_agree_under_kip_848(broker: Kafka, written: str, settings: Settings) -> None:
    servers, group = broker.bootstrap_servers, unique_name("modern")
    options = rounds_from_listener(settings, **CONSUMER)
    with monitored_group(settings, group) as ((_, listener), at_rest):
        with Member(servers, group, "c1", [written], **options) as first:
            at_rest(first)
            with Member(servers, group, "c2", [written], **options) as second:
                at_rest(first, second)
                with Member(servers, group, "c3", [written], **options) as third:
                    at_rest(first, second, third)
                at_rest(first, second)
            at_rest(first)
        eventually(lambda: listener.current_partitions(group) == {})
        for diff in listener.rounds(group):
            check_diff_algebra(diff)
