import base64
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from assignors.errors import OutsideFailure
from streaming.kafka import security
from streaming.kafka.clients import spark_options
from streaming.kafka.security import CHECK_SECONDS, CredentialRenewal, explain, no_answer_message
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


def put(folder: Path, name: str, *kinds: str) -> None:
    """Replace the client's certificate (``pem``) or key (``key``) by the file with the given name."""
    for kind in kinds:
        shutil.copy(folder / f"{name}.{kind}", folder / f"own.{kind}")


@pytest.fixture
def file_settings(tmp_path: Path) -> KafkaSettings:
    certificate(tmp_path, "first")
    certificate(tmp_path, "second")
    put(tmp_path, "first", "pem", "key")
    (tmp_path / "secret").write_text("one")
    defaults = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "monitor",
        "sasl_password_file": tmp_path / "secret",
        "ssl_ca_file": tmp_path / "first.pem",
        "ssl_certificate_file": tmp_path / "own.pem",
        "ssl_key_file": tmp_path / "own.key",
    }
    return KafkaSettings.model_validate(defaults)


def test_new_certificate_is_used_once_its_key_matches(
    file_settings: KafkaSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewal = CredentialRenewal(file_settings)
    put(tmp_path, "second", "pem")
    assert [renewal.renewed(number * CHECK_SECONDS) for number in range(3)] == [False, False, False]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is not the key of ssl_certificate_file" in caplog.text
    put(tmp_path, "second", "key")
    assert renewal.renewed(3 * CHECK_SECONDS)


def test_replaced_secret_is_reported_once_at_the_next_check(file_settings: KafkaSettings, tmp_path: Path) -> None:
    renewal = CredentialRenewal(file_settings)
    assert not renewal.renewed(0)
    (tmp_path / "secret").write_text("another")
    assert not renewal.renewed(CHECK_SECONDS / 2)
    assert renewal.renewed(CHECK_SECONDS)
    assert not renewal.renewed(2 * CHECK_SECONDS)


BROKER = {"bootstrap_servers": "kafka:9093", "security_protocol": "SASL_SSL"}
PASSWORD = {"sasl_mechanism": "PLAIN", "sasl_username": "monitor", "sasl_password": "s3cret-s3cret"}
PASSWORD_SETTINGS = KafkaSettings.model_validate(BROKER | PASSWORD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            (
                "sasl_ssl://b1:9093/bootstrap: SASL authentication error: Authentication failed during "
                "authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512 (after 318ms)"
            ),
            "broker b1:9093: refuses user 'monitor' (PLAIN); check kafka.sasl_username and kafka.sasl_password",
        ),
        (
            (
                "sasl_ssl://b1:9093/1: SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: "
                "broker's supported mechanisms: SCRAM-SHA-512 (after 301ms in state AUTH_HANDSHAKE)"
            ),
            "does not offer kafka.sasl_mechanism PLAIN; set one it offers (SCRAM-SHA-512)",
        ),
        (
            (
                "sasl_ssl://b1:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate "
                "verify failed: broker certificate could not be verified, verify that ssl.ca.location is correct"
            ),
            "its certificate is not signed by the system's authorities; set kafka.ssl_ca_file",
        ),
        (
            (
                "ssl://b1:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify "
                "failed: broker certificate could not be verified: Hostname mismatch"
            ),
            "does not name this host",
        ),
        (
            (
                "ssl://b1:9093/bootstrap: SSL handshake failed: error:0A000412:SSL routines::sslv3 alert bad "
                "certificate: SSL alert number 42"
            ),
            "refuses this client's certificate; set kafka.ssl_certificate_file",
        ),
        (
            (
                "sasl_ssl://b1:9092/bootstrap: SSL handshake failed: Disconnected: connecting to a PLAINTEXT "
                "broker listener? (after 2ms in state SSL_HANDSHAKE)"
            ),
            "broker b1:9092: the listener is not encrypted",
        ),
    ],
)
def test_refusal_names_broker_and_setting(text: str, message: str) -> None:
    error = explain(text, PASSWORD_SETTINGS)
    assert error is not None
    assert message in str(error)
    assert "s3cret" not in str(error)
    assert "\n" not in str(error)


def test_temporary_error_is_not_a_rejection() -> None:
    assert (
        explain("kafka:9093/bootstrap: Connect to ipv4#10.0.0.1:9093 failed: Connection refused", PASSWORD_SETTINGS)
        is None
    )


OAUTH_SETTINGS = KafkaSettings.model_validate(
    BROKER
    | {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": "https://id.example/token",
        "sasl_oauthbearer_client_id": "monitor",
        "sasl_oauthbearer_client_secret": "s3cret-s3cret",
    }
)
_SASL_FAILURE_TEXT = "Failed to acquire SASL OAUTHBEARER token: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _SASL_FAILURE_TEXT + '{"error": "invalid_client", "error_description": "s3cret-s3cret is wrong"}',
            "token endpoint https://id.example/token: refuses client 'monitor' (invalid_client); check kafka.sasl_",
        ),
        (
            _SASL_FAILURE_TEXT
            + "SSL peer certificate or SSH remote key was not OK: SSL certificate problem: unable to get issuer",
            "token endpoint https://id.example/token: its certificate is not signed by the system's author",
        ),
        (
            'sasl_ssl://b1:9093/bootstrap: SASL authentication error: {"status":"invalid_token"} ',
            'broker b1:9093: refuses the token of client \'monitor\' ({"status":"invalid_token"}); ask',
        ),
    ],
)
def test_identity_provider_refusal_is_explained_without_secrets(text: str, message: str) -> None:
    error = str(explain(text, OAUTH_SETTINGS))
    assert message in error
    assert "s3cret" not in error


@pytest.mark.parametrize("text", ["Could not connect to server", '{"error": "temporarily_unavailable"}'])
def test_unavailable_identity_provider_is_awaited(text: str) -> None:
    assert explain(_SASL_FAILURE_TEXT + text, OAUTH_SETTINGS) is None
    no_token_error = f"token endpoint https://id.example/token: gives no token within 8 s ({_SASL_FAILURE_TEXT}{text})"
    assert no_answer_message(_SASL_FAILURE_TEXT + text, OAUTH_SETTINGS, 8.0) == no_token_error
    silent = f"bootstrap_servers kafka:9093: no broker answers within 8 s ({text}); check --bootstrap-servers"
    assert no_answer_message(text, OAUTH_SETTINGS, 8.0) == silent
