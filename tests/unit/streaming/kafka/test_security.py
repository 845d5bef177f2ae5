import base64
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from assignors.errors import OutsideFailure
from streaming.kafka import security
from streaming.kafka.clients import spark_options
from streaming.settings.connection import KafkaSettings
from tests.support.pem import certificate


@pytest.fixture
def settings(tmp_path: Path) -> KafkaSettings:
    certificate(tmp_path, "ca")
    certificate(tmp_path, "certificate", lock_phrase="key-password")
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


def test_plaintext_needs_no_settings() -> None:
    plain = KafkaSettings()
    assert (security.librdkafka_security(plain), security.java(plain)) == ({}, {})


def test_librdkafka_gets_the_kafka_security_settings(settings: KafkaSettings, tmp_path: Path) -> None:
    assert security.librdkafka_security(settings) == {
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


def test_kafka_python_gets_the_kafka_security_settings(settings: KafkaSettings, tmp_path: Path) -> None:
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


def test_java_and_spark_get_the_kafka_security_settings(settings: KafkaSettings, tmp_path: Path) -> None:
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


def test_librdkafka_and_java_get_the_oauth_settings(tmp_path: Path) -> None:
    authority = certificate(tmp_path, "ca")
    more = {"scope": "kafka", "extensions": "logicalCluster=lkc-1,identityPoolId=p", "ca_file": authority}
    settings = KafkaSettings.model_validate(OAUTH | {f"sasl_oauthbearer_{name}": text for name, text in more.items()})
    assert security.librdkafka_security(settings) == {
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
    assert security.java(settings) == {
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


def test_jvm_options_allow_the_oauth_token_endpoint() -> None:
    assert security.java_options(KafkaSettings()) == ""
    assert security.java_options(KafkaSettings.model_validate(OAUTH)) == (
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://id.example/token"
    )


AWS_SETTINGS = KafkaSettings.model_validate(
    {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-west-1"}
)
KERBEROS = KafkaSettings.model_validate(
    {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_principal": "monitor@EXAMPLE.COM",
        "sasl_kerberos_keytab_file": __file__,
    }
)


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.usefixtures("aws_credentials")
def test_librdkafka_gets_signed_tokens_of_aws() -> None:
    options = security.librdkafka_security(AWS_SETTINGS)
    token, expires_at = options.pop("oauth_cb")("")
    signed_url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert (signed_url.hostname, parse_qs(signed_url.query)["Action"]) == (
        "kafka.eu-west-1.amazonaws.com",
        ["kafka-cluster:Connect"],
    )
    assert 0 < expires_at - time.time() <= 900
    assert options == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_java_gets_the_login_module_of_aws() -> None:
    assert security.java(AWS_SETTINGS) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert [security.java_packages(settings) for settings in (AWS_SETTINGS, KERBEROS)] == [
        ("software.amazon.msk:aws-msk-iam-auth:2.3.5",),
        (),
    ]


def test_missing_aws_credentials_are_reported_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(OutsideFailure, match="AWS_MSK_IAM: no AWS credentials"):
        security.librdkafka_security(AWS_SETTINGS)


def test_missing_pip_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(OutsideFailure, match=r"pip install 'kafka-rebalance-monitor\[aws\]'"):
        security.librdkafka_security(AWS_SETTINGS)


def test_kerberos_without_support_in_librdkafka_is_reported() -> None:
    with pytest.raises(OutsideFailure, match="this confluent-kafka, like its wheels, is built without Kerberos"):
        security.librdkafka_security(KERBEROS)


def test_each_client_gets_the_kerberos_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", dict)  # a build of librdkafka with libsasl2
    assert security.librdkafka_security(KERBEROS) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": "monitor@EXAMPLE.COM",
        "sasl.kerberos.keytab": __file__,
        "ssl.endpoint.identification.algorithm": "https",
    }
    options = security.kafka_python(KERBEROS)
    assert (options["sasl_mechanism"], options["sasl_kerberos_service_name"]) == ("GSSAPI", "kafka")
    assert security.java(KERBEROS)["sasl.jaas.config"] == (
        "com.sun.security.auth.module.Krb5LoginModule required "
        f'useKeyTab="true" storeKey="true" keyTab="{__file__}" principal="monitor@EXAMPLE.COM";'
    )
