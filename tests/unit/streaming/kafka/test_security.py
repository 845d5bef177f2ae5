from __future__ import annotations

from pathlib import Path

import pytest

from streaming.kafka import security
from streaming.kafka.clients import spark_options
from streaming.settings.connection import KafkaSettings
from tests.support.pem import certificate


@pytest.fixture
def settings(tmp_path: Path) -> KafkaSettings:
    certificate(tmp_path, "ca")
    certificate(tmp_path, "certificate", locked_with="key-password")
    return KafkaSettings.model_validate(
        {
            "bootstrap_servers": "b:9093",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_username": "monitor",
            "sasl_password": 'a"b\\c',
            "ssl_ca_file": tmp_path / "ca.pem",
            "ssl_certificate_file": tmp_path / "certificate.pem",
            "ssl_key_file": tmp_path / "certificate.key",
            "ssl_key_password": "key-password",
            "ssl_check_hostname": False,
        }
    )


def test_plain_text_sets_nothing() -> None:
    plain = KafkaSettings()
    assert (security.librdkafka(plain), security.java(plain)) == ({}, {})


def test_librdkafka(settings: KafkaSettings, tmp_path: Path) -> None:
    assert security.librdkafka(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "monitor",
        "sasl.password": 'a"b\\c',
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "certificate.pem"),
        "ssl.key.location": str(tmp_path / "certificate.key"),
        "ssl.key.password": "key-password",
    }


def test_kafka_python(settings: KafkaSettings, tmp_path: Path) -> None:
    assert security.kafka_python(settings) == {
        "bootstrap_servers": ["b:9093"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "monitor",
        "sasl_plain_password": 'a"b\\c',
        "ssl_check_hostname": False,
        "ssl_cafile": str(tmp_path / "ca.pem"),
        "ssl_certfile": str(tmp_path / "certificate.pem"),
        "ssl_keyfile": str(tmp_path / "certificate.key"),
        "ssl_password": "key-password",
    }


def test_java_and_spark(settings: KafkaSettings, tmp_path: Path) -> None:
    assert security.java(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="monitor" password="a\\"b\\\\c";',
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": (tmp_path / "ca.pem").read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": (tmp_path / "certificate.pem").read_text(),
        "ssl.keystore.key": (tmp_path / "certificate.key").read_text(),
        "ssl.key.password": "key-password",
    }
    assert spark_options(settings)["kafka.sasl.mechanism"] == "SCRAM-SHA-256"


def test_text_between_certificates_may_have_any_encoding(settings: KafkaSettings, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    plain = authority.read_text()
    authority.write_bytes("# Autorit\xe9 de test\n".encode("latin-1") + plain.encode())
    settings.require_files()
    assert security.java(settings)["ssl.truststore.certificates"] == f"# Autorit\ufffd de test\n{plain}"


OAUTH = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "https://id.example/token",
    "sasl_oauthbearer_client_id": "monitor",
    "sasl_oauthbearer_client_secret": 'a"b\\c',
}


def test_oauth_in_the_words_of_both(tmp_path: Path) -> None:
    authority = certificate(tmp_path, "ca")
    more = {"scope": "kafka", "extensions": "logicalCluster=lkc-1,identityPoolId=p", "ca_file": authority}
    given = KafkaSettings.model_validate(OAUTH | {f"sasl_oauthbearer_{name}": one for name, one in more.items()})
    assert security.librdkafka(given) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        "sasl.oauthbearer.client.id": "monitor",
        "sasl.oauthbearer.client.secret": 'a"b\\c',
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=p",
        "https.ca.location": str(authority),
    }
    assert security.java(given) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="monitor" clientSecret="a\\"b\\\\c" scope="kafka" extension_logicalCluster="lkc-1" '
        f'extension_identityPoolId="p" ssl.truststore.type="PEM" ssl.truststore.location="{authority}";',
    }


def test_jvms_get_the_allowed_endpoint() -> None:
    assert security.java_options(KafkaSettings()) == ""
    assert security.java_options(KafkaSettings.model_validate(OAUTH)) == (
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://id.example/token"
    )
