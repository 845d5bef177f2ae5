"""When a collector begins anew, and what its end says."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.collect.running import run_until
from streaming.kafka.access import NotAllowed
from streaming.kafka.clients import ClusterUnavailable
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))


def test_it_begins_anew_until_it_is_stopped() -> None:
    stop, begun = threading.Event(), []

    def collect() -> None:
        begun.append(None)
        if len(begun) == 3:
            stop.set()

    run_until(stop, SETTINGS, collect)
    assert len(begun) == 3


def test_who_is_stopped_before_begins_once() -> None:
    """It finds out for itself: what is wrong is told in any case."""
    stop, begun = threading.Event(), []
    stop.set()
    run_until(stop, SETTINGS, lambda: begun.append(None))
    assert begun == [None]


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (
            KafkaError._TIMED_OUT,
            ClusterUnavailable,
            "memory:1: x; started again, the collector goes on where it",
        ),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, NotAllowed, "cluster memory:1: x"),
    ],
)
def test_an_error_of_the_client_is_one_line(
    monkeypatch: pytest.MonkeyPatch, code: int, error: type[Exception], says: str
) -> None:
    MemoryKafka(monkeypatch)

    def collect() -> None:
        raise KafkaException(KafkaError(code, "x"))

    with pytest.raises(error, match=says):
        run_until(threading.Event(), SETTINGS, collect)
