from __future__ import annotations

import logging
import socket
import threading

import pytest
from confluent_kafka import KafkaError

from streaming.kafka import clients
from streaming.kafka.clients import (
    ClusterUnavailable,
    OncePerMinute,
    check_reachable,
    confluent_config,
    java_config,
    spark_options,
    wait_reachable,
)
from streaming.kafka.failures import WrongSecurityProtocol
from streaming.settings.config import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = KafkaSettings(bootstrap_servers="a:1,b:2")


def test_each_client_s_names() -> None:
    assert confluent_config(SETTINGS, group_id="g")["bootstrap.servers"] == "a:1,b:2"
    assert confluent_config(SETTINGS, group_id="g")["group.id"] == "g"
    assert java_config(SETTINGS)["bootstrap.servers"] == "a:1,b:2"
    assert spark_options(SETTINGS, {"linger.ms": "0"})["kafka.bootstrap.servers"] == "a:1,b:2"
    assert spark_options(SETTINGS, {"linger.ms": "0"})["kafka.linger.ms"] == "0"


def test_the_same_failure_is_logged_once_a_minute() -> None:
    once = OncePerMinute()

    def passes(text: str, at: float) -> bool:
        record = logging.makeLogRecord({"msg": text})
        record.created = at
        return once.filter(record)

    failure = (
        "FAIL [rebalance-monitor#producer-{}] [thrd:x]: Connection refused (after {}ms in state CONNECT)"
    )
    assert passes(failure.format(1, 0), 0.0)
    assert not passes(failure.format(2, 31), 59.0)
    assert passes("FAIL something else", 59.0)
    assert passes(failure.format(1, 0), 60.0)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    return MemoryKafka(monkeypatch)


def test_a_cluster_that_answers_has_an_id(kafka: MemoryKafka) -> None:
    assert check_reachable(SETTINGS) == "memory"
    kafka.fail("list_topics", *[KafkaError(KafkaError._TRANSPORT, "away")] * 3)
    assert check_reachable(SETTINGS) == "memory"  # it came while it was asked


def test_a_cluster_that_does_not_answer_is_told_with_its_address(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_open", lambda _: None)
    kafka.away = True
    with pytest.raises(
        ClusterUnavailable,
        match=r"bootstrap_servers a:1,b:2: no broker answers within 0\.05 s \(broker is away\)",
    ):
        check_reachable(SETTINGS, timeout=0.05)


def test_a_port_that_takes_connections_and_says_nothing_probably_wants_tls(kafka: MemoryKafka) -> None:
    kafka.away = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:1, {there}")
        with pytest.raises(
            WrongSecurityProtocol, match=rf"broker {there}: takes connections but answers nothing"
        ):
            check_reachable(settings, timeout=0.05)


def test_a_cluster_is_waited_for_until_it_answers_or_somebody_says_stop(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(clients, "_open", lambda _: None)
    kafka.away = True
    stop = threading.Event()
    threading.Timer(0.3, lambda: setattr(kafka, "away", False)).start()
    assert wait_reachable(SETTINGS, stop)
    stop.set()
    assert not wait_reachable(SETTINGS, stop)


@pytest.mark.parametrize("servers", ["no port", "127.0.0.1:x", "", "127.0.0.1:1"])
def test_an_address_that_takes_no_connection(servers: str) -> None:
    assert clients._open(servers) is None


def test_so_many_texts_are_remembered_and_no_more() -> None:
    once = OncePerMinute()
    record = logging.makeLogRecord({"msg": ""})
    for number in range(3000):
        record.msg, record.created = f"text {'x' * number}", float(number) / 1000
        assert once.filter(record)
        assert len(once._said) <= 1001
    assert len(once._said) > 900
