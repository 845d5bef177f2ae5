"""Groups whose leader has a custom assignor, such as one named ``range`` that uses another member order."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from msgspec import UNSET

from streaming.records.diffs import Diff, Expected
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.background import run_in_background
from tests.support.histories import diffs, play
from tests.support.kafka import Kafka, unique_name
from tests.support.topics import create_topic
from tests.support.wait import eventually

pytestmark = [pytest.mark.broker]
PARTITIONS = 4


class ReversedRangeAssignor(RangePartitionAssignor):
    """A custom assignor named ``range`` that assigns to the members in the opposite order."""

    name = "range"

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:
        assignment = super().assign(cluster, members)
        ids = sorted(assignment)
        return {member_id: assignment[other_id] for member_id, other_id in zip(ids, reversed(ids), strict=True)}


class RenamedAssignor(ReversedRangeAssignor):
    """The assignor :class:`ReversedRangeAssignor` under a name that Kafka does not use."""

    name = "mine"


@contextmanager
def run_consumer(servers: str, group: str, name: str, assignor: type[RangePartitionAssignor]) -> Iterator[None]:
    """Run a kafka-python consumer that polls in a thread until the end of the block."""

    def run(stop: threading.Event) -> None:
        consumer = KafkaConsumer(
            group,
            bootstrap_servers=servers,
            group_id=group,
            client_id=name,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[assignor],
        )
        while not stop.is_set():
            consumer.poll(100)
        consumer.close()

    with run_in_background(run):
        yield


def last(broker: Kafka, assignor: type[RangePartitionAssignor]) -> Diff:
    """Return the diff of the round in which the group has two members and its leader uses this assignor."""
    group = create_topic(broker.bootstrap_servers, unique_name(f"led-{assignor.name}"), PARTITIONS)

    def last_diff() -> Diff | None:
        rounds = diffs(play(collector.events(group))[1])
        return next((diff for diff in rounds if sum(bool(m.present) for m in diff.members.values()) == 2), None)

    with CollectorProcess(broker.bootstrap_servers, group) as collector, ExitStack() as members:
        members.enter_context(run_consumer(broker.bootstrap_servers, group, "one", assignor))
        eventually(lambda: diffs(play(collector.events(group))[1]))
        members.enter_context(run_consumer(broker.bootstrap_servers, group, "two", assignor))
        diff: Diff = eventually(last_diff)
        return diff


def test_equally_even_assignment_has_the_verdict_tie(broker: Kafka) -> None:
    why = "distributed evenly by another client's rule for range, not Java's"
    assert last(broker, ReversedRangeAssignor).expected == Expected(verdict="tie", why=why)


def test_unknown_assignor_name_is_custom(broker: Kafka) -> None:
    expected = last(broker, RenamedAssignor).expected
    assert expected is not UNSET
    assert (expected.verdict, expected.why) == ("custom", "custom assignor: mine")
