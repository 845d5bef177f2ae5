"""Tests of a collector: its group filter, its shutdown, and a membership topic that is created again."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.collect.lifecycle import BaseCollector, MembershipTopicWatch, group_filter
from streaming.kafka.access import NoPermission
from streaming.kafka.clients import ClusterUnavailable
from tests.support.memory_kafka import SETTINGS, MemoryKafka


@pytest.mark.parametrize(
    ("include", "exclude", "group_id", "expected"),
    [
        ([".*"], [], "any", True),
        ([".*"], [], "", True),
        ([".*"], [], "with\na line break", True),
        (["orders"], [], "orders-2", False),  # atomically
        (["orders.*", "bills"], [], "bills", True),
        (["orders.*", "bills"], [], "other", False),
        ([".*"], ["tmp-.*"], "tmp-1", False),
        ([".*"], ["tmp-.*"], "tmp-\n", False),
        ([".*"], ["tmp-.*"], "my-tmp-1", True),
        (["tmp-1"], ["tmp-.*"], "tmp-1", False),
        ([], [], "any", False),
    ],
)
def test_group_filter_matches_whole_ids(include: list[str], exclude: list[str], group_id: str, expected: bool) -> None:
    assert group_filter(include, exclude)(group_id) is expected


class FakeCollector(BaseCollector):
    by = "offsets"

    def __init__(self, stop: threading.Event, collect: Callable[[], None], begun: bool = False) -> None:
        super().__init__(SETTINGS, stop)
        self._call, self._has_begun = collect, begun

    def _collect_until_stopped(self) -> None:
        self._collect()

    def _collect(self) -> None:
        self._call()


@pytest.mark.parametrize("times", [1, 3])
def test_a_collector_reconnects_until_it_is_stopped(times: int) -> None:
    stop, begun = threading.Event(), list[None]()

    def collect() -> None:
        begun.append(None)
        if len(begun) == times:
            stop.set()

    FakeCollector(stop, collect).run()
    assert len(begun) == times


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (KafkaError._TIMED_OUT, ClusterUnavailable, "memory:1: x; started again, the collector goes on where it"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, NoPermission, "cluster memory:1: x"),
    ],
)
@pytest.mark.usefixtures("kafka")
def test_a_client_error_is_one_line(code: int, error: type[Exception], message: str) -> None:
    def collect() -> None:
        raise KafkaException(KafkaError(code, "x"))

    with pytest.raises(error, match=message):
        FakeCollector(threading.Event(), collect).run()


@pytest.mark.parametrize(
    "error", [ClusterUnavailable("no answer"), KafkaException(KafkaError(KafkaError._TIMED_OUT, "Local: Timed out"))]
)
@pytest.mark.usefixtures("kafka")
def test_running_collector_waits_for_an_absent_cluster(error: Exception) -> None:
    stop, begun = threading.Event(), list[None]()

    def collect() -> None:
        begun.append(None)
        if len(begun) == 2:
            stop.set()
        else:
            raise error

    FakeCollector(stop, collect, begun=True).run()
    assert len(begun) == 2


TOPIC = SETTINGS.topics.membership


def run_three_checks(watch: MembershipTopicWatch, start: float) -> list[bool]:
    """Return whether three consecutive checks, 10 s apart, report that the membership topic was recreated."""
    return [watch.is_recreated(start + seconds) for seconds in (0, 10, 20)]


def test_a_recreated_topic_is_reported(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create(TOPIC)
    watch = MembershipTopicWatch(SETTINGS)
    assert run_three_checks(watch, 0) == [False] * 3
    kafka.delete(TOPIC)
    assert run_three_checks(watch, 100) == [False] * 3
    kafka.create(TOPIC)
    assert any(run_three_checks(watch, 200))
    assert caplog.messages[:1] == [f"topic {TOPIC} was created again: its groups get new partition counts"]


def test_a_topic_that_did_not_exist_is_not_recreated(kafka: MemoryKafka) -> None:
    watch = MembershipTopicWatch(SETTINGS)
    kafka.create(TOPIC)
    assert run_three_checks(watch, 0) == [False] * 3
