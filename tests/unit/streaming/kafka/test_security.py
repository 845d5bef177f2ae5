from __future__ import annotations

from pathlib import Path

import pytest

from streaming.connection import KafkaSettings
from streaming.kafka import security
from streaming.kafka.clients import spark_options


@pytest.fixture
def settings(tmp_path: Path) -> KafkaSettings:
    for name in ("ca", "certificate", "key"):
        (tmp_path / f"{name}.pem").write_text(f"-- {name} --")
    return KafkaSettings.model_validate(
        {
            "bootstrap_servers": "b:9093",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_username": "monitor",
            "sasl_password": 'a"b\\c',
            "ssl_ca_file": tmp_path / "ca.pem",
            "ssl_certificate_file": tmp_path / "certificate.pem",
            "ssl_key_file": tmp_path / "key.pem",
            "ssl_key_password": "kp",
            "ssl_check_hostname": False,
        }
    )


def test_plain_text_sets_nothing() -> None:
    plain = KafkaSettings()
    assert (security.librdkafka(plain), security.kafka_python(plain), security.java(plain)) == ({}, {}, {})


def test_librdkafka(settings: KafkaSettings, tmp_path: Path) -> None:
    assert security.librdkafka(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "monitor",
        "sasl.password": 'a"b\\c',
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "certificate.pem"),
        "ssl.key.location": str(tmp_path / "key.pem"),
        "ssl.key.password": "kp",
    }


def test_kafka_python(settings: KafkaSettings, tmp_path: Path) -> None:
    assert security.kafka_python(settings) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "monitor",
        "sasl_plain_password": 'a"b\\c',
        "ssl_check_hostname": False,
        "ssl_cafile": str(tmp_path / "ca.pem"),
        "ssl_certfile": str(tmp_path / "certificate.pem"),
        "ssl_keyfile": str(tmp_path / "key.pem"),
        "ssl_password": "kp",
    }


def test_java_and_spark(settings: KafkaSettings) -> None:
    assert security.java(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="monitor" password="a\\"b\\\\c";',
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-- ca --",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-- certificate --",
        "ssl.keystore.key": "-- key --",
        "ssl.key.password": "kp",
    }
    assert spark_options(settings)["kafka.sasl.mechanism"] == "SCRAM-SHA-256"
