from __future__ import annotations

import logging

from streaming.kafka.clients import (
    OncePerMinute,
    confluent_config,
    java_config,
    spark_options,
)
from streaming.settings.config import KafkaSettings

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
