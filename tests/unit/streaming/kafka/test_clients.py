import contextlib
import gc
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType

import pytest
from confluent_kafka import KafkaError, KafkaException

from assignors.errors import MonitorError
from streaming.kafka import clients
from streaming.kafka.clients import (
    ClusterUnavailable,
    OncePerMinuteFilter,
    check_reachable,
    confluent_config,
    result_of,
    spark_options,
    wait_until_reachable,
)
from streaming.kafka.metadata import bounds, request_identities
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = KafkaSettings(bootstrap_servers="a:1,b:2")


def test_kafka_settings_are_translated_for_each_client() -> None:
    assert confluent_config(SETTINGS, group_id="g")["bootstrap.servers"] == "a:1,b:2"
    assert confluent_config(SETTINGS, group_id="g")["group.id"] == "g"
    assert spark_options(SETTINGS, {"linger.ms": "0"})["kafka.bootstrap.servers"] == "a:1,b:2"
    assert spark_options(SETTINGS, {"linger.ms": "0"})["kafka.linger.ms"] == "0"


def test_repeated_failure_is_logged_once_per_minute() -> None:
    message_filter = OncePerMinuteFilter()

    def logs_failure(text: str, at: float) -> bool:
        record = logging.makeLogRecord({"msg": text})
        record.created = at
        return message_filter.filter(record)

    failure = "FAIL [rebalance-monitor#producer-{}] [thrd:x]: Connection refused (after {}ms in state CONNECT)"
    assert logs_failure(failure.format(1, 0), 0.0)
    assert not logs_failure(failure.format(2, 31), 59.0)
    assert logs_failure("FAIL something else", 59.0)
    assert logs_failure(failure.format(1, 0), 60.0)


def test_a_cluster_that_answers_has_an_id(kafka: MemoryKafka) -> None:
    assert check_reachable(SETTINGS) == "memory"
    kafka.fail("list_topics", *[KafkaError(KafkaError._TRANSPORT, "away")] * 3)
    assert check_reachable(SETTINGS) == "memory"  # the cluster id arrived during the request


def test_silent_cluster_is_reported_with_its_address(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_first_open_server", lambda _: None)
    kafka.away = True
    with pytest.raises(
        ClusterUnavailable, match=r"bootstrap_servers a:1,b:2: no broker answers within 0\.05 s \(broker is away\)"
    ):
        check_reachable(SETTINGS, timeout=0.05)


def test_unresponsive_port_error_suggests_a_hang_or_tls(kafka: MemoryKafka) -> None:
    kafka.away = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:1, {there}")
        message = rf"broker {there}: accepts connections but does not answer .* it hangs, or its listener wants SSL"
        with pytest.raises(ClusterUnavailable, match=message):
            check_reachable(settings, timeout=0.05)


@pytest.mark.parametrize("paused_reason", [None, "a:1"])
def test_cluster_is_awaited_until_it_answers_or_is_stopped(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, paused_reason: str | None
) -> None:
    monkeypatch.setattr(clients, "_PROBE_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(clients, "_first_open_server", lambda _: paused_reason)
    kafka.away = True
    stop = threading.Event()
    threading.Timer(0.3, lambda: setattr(kafka, "away", False)).start()
    assert wait_until_reachable(SETTINGS, stop)
    stop.set()
    assert not wait_until_reachable(SETTINGS, stop)


def test_answer_is_returned_and_error_raised_again() -> None:
    there: Future[int] = Future()
    there.set_result(5)
    assert result_of(there) == 5
    refused: Future[int] = Future()
    refused.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "t")))
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS") as raised:
        result_of(refused)
    assert raised.value is not refused.exception()
    with pytest.raises(TimeoutError):
        result_of(Future(), 0.01)


def functions_in_reference_cycles(ask: Callable[[], object]) -> list[str]:
    """Return the project's functions whose frames are in reference cycles after a request."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with contextlib.suppress(MonitorError, KafkaException):
            ask()
        gc.collect()
        frames = [frame.f_code for frame in gc.garbage if isinstance(frame, FrameType)]
        return [code.co_qualname for code in frames if "/streaming/" in code.co_filename]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(
    ("request_", "ask"),
    [
        ("", lambda: request_identities(SETTINGS, ["missing"])),
        ("list_offsets", lambda: bounds(SETTINGS, [("t", 0)])),
        ("create_topics", lambda: ensure_topics(Settings(kafka=SETTINGS))),
    ],
)
def test_refused_client_leaves_no_reference_cycle(kafka: MemoryKafka, request_: str, ask: Callable[[], object]) -> None:
    """Python may free a reference cycle on a thread of librdkafka, which then aborts the process."""
    kafka.create("t")
    kafka.fail(request_, *[KafkaError(KafkaError.INVALID_REQUEST, "no")] * 20)
    assert functions_in_reference_cycles(ask) == []
