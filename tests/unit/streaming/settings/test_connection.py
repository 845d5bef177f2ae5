from collections.abc import Mapping
from pathlib import Path

import pytest

from streaming.settings.config import as_toml, load
from streaming.settings.connection import KafkaSettings
from streaming.settings.section import InvalidSettings

SECURE_VARIABLES = {
    "REBALANCE_MONITOR_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
    "REBALANCE_MONITOR_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
    "REBALANCE_MONITOR_KAFKA__SASL_USERNAME": "monitor",
    "REBALANCE_MONITOR_KAFKA__SASL_PASSWORD": "s3cret-s3cret",
}


def set_variables(monkeypatch: pytest.MonkeyPatch, prefix: str, variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(prefix + name)
        else:
            monkeypatch.setenv(prefix + name, value)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    set_variables(monkeypatch, "", SECURE_VARIABLES)
    return monkeypatch


def test_kafka_settings_are_read_from_environment_variables(environment: pytest.MonkeyPatch) -> None:
    kafka = load().kafka
    assert (kafka.security_protocol, kafka.sasl_username, kafka.password) == ("SASL_SSL", "monitor", "s3cret-s3cret")
    assert "s3cret" not in repr(kafka)
    assert "s3cret" not in str(load().model_dump(mode="json"))


def test_password_may_be_in_a_file(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    environment.delenv("REBALANCE_MONITOR_KAFKA__SASL_PASSWORD")
    environment.setenv("REBALANCE_MONITOR_KAFKA__SASL_PASSWORD_FILE", str(tmp_path / "password"))
    assert load().kafka.password == (tmp_path / "password").read_text().strip()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"SASL_MECHANISM": None}, "sasl_mechanism is missing"),
        ({"SASL_USERNAME": None}, "sasl_username is missing"),
        ({"SASL_PASSWORD": None}, "set either sasl_password or sasl_password_file"),
        ({"SASL_PASSWORD_FILE": "/etc/hostname"}, "set either"),
        ({"SECURITY_PROTOCOL": "SSL"}, "sasl_mechanism has no effect under security_protocol SSL; set it to SASL_SSL"),
        ({"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SSL_CA_FILE": "/etc/hostname"}, "ssl_ca_file has no effect"),
        ({"SSL_CA_FILE": "/no/such.pem"}, "ssl_ca_file /no/such.pem: No such file"),
        ({"SSL_KEY_FILE": "/etc/hostname"}, "must both be set, or neither"),
        ({"SASL_MECHANISM": "MAGIC"}, "kafka.sasl_mechanism"),
        ({"PASWORD": "typo-of-a-secret"}, "kafka.pasword"),
    ],
)
def test_conflicting_settings_are_named_without_the_secret(
    environment: pytest.MonkeyPatch, changes: dict[str, str | None], message: str
) -> None:
    set_variables(environment, "REBALANCE_MONITOR_KAFKA__", changes)
    with pytest.raises(InvalidSettings, match=message) as refused:
        load()
    error_chain_text = f"{refused.value} {refused.value.__cause__}"
    assert "s3cret" not in error_chain_text
    assert "typo-of-a-secret" not in error_chain_text


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        *(
            (secret, "is not UTF-8 text")
            for secret in (b"\xff\xfe", b"caf\xe9", "UTF-16".encode("utf-16-le"), b"cut\0off")
        ),
        *((secret, "is empty") for secret in (b"", b" \n")),
        *((secret, "contains more than one line") for secret in (b"user\npassword\n", b"a\rb")),
    ],
)
@pytest.mark.parametrize("mechanism", ["password", "oauth"])
def test_error_names_the_secret_file_that_is_unusable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: bytes, message: str, mechanism: str
) -> None:
    variables, name = (
        (SECURE_VARIABLES, "sasl_password") if mechanism == "password" else (OAUTH, "sasl_oauthbearer_client_secret")
    )
    set_variables(monkeypatch, "", variables)
    monkeypatch.delenv(f"REBALANCE_MONITOR_KAFKA__{name.upper()}")
    file = tmp_path / "secret"
    file.write_bytes(secret)
    monkeypatch.setenv(f"REBALANCE_MONITOR_KAFKA__{name.upper()}_FILE", str(file))
    with pytest.raises(InvalidSettings, match=f"{name}_file {file}: {message}$"):
        load()


@pytest.mark.parametrize("name", ["SASL_USERNAME", "SASL_PASSWORD"])
@pytest.mark.parametrize(("value", "message"), [("a\udcff", "is not UTF-8 text"), ("", "is (missing|empty)")])
def test_setting_that_no_client_accepts_is_named(
    environment: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    environment.setenv(f"REBALANCE_MONITOR_KAFKA__{name}", value)
    with pytest.raises(InvalidSettings, match=f"{name.lower()}:? .*{message}") as refused:
        load()
    assert "a\udcff" not in str(refused.value)


@pytest.mark.parametrize("name", ["sasl_username", "sasl_password", "sasl_password_file", "ssl_ca_file"])
def test_null_character_error_names_the_setting(name: str) -> None:
    secret = {} if name == "sasl_password_file" else {"sasl_password": "p"}
    values = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u", **secret}
    with pytest.raises(ValueError, match=rf"(?s){name}.*(is not UTF-8 text|embedded null byte)"):
        KafkaSettings.model_validate(values | {name: "a\0b"})


OAUTH = {
    "REBALANCE_MONITOR_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
    "REBALANCE_MONITOR_KAFKA__SASL_MECHANISM": "OAUTHBEARER",
    "REBALANCE_MONITOR_KAFKA__SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": "https://id.example/token",
    "REBALANCE_MONITOR_KAFKA__SASL_OAUTHBEARER_CLIENT_ID": "monitor",
    "REBALANCE_MONITOR_KAFKA__SASL_OAUTHBEARER_CLIENT_SECRET": "s3cret-s3cret",
}


@pytest.fixture
def oauth(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    set_variables(monkeypatch, "", OAUTH)
    return monkeypatch


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"CLIENT_ID": None}, "sasl_oauthbearer_client_id is missing: sasl_mechanism OAUTHBEARER needs it"),
        ({"TOKEN_ENDPOINT_URL": None}, "sasl_oauthbearer_token_endpoint_url is missing"),
        ({"CLIENT_SECRET": None}, "set either sasl_oauthbearer_client_secret or sasl_oauthbearer_client_secret_file"),
        ({"CLIENT_SECRET_FILE": "/etc/hostname"}, "set either"),
        ({"TOKEN_ENDPOINT_URL": "id.example/token"}, "write the address of the token endpoint, https://host/path"),
        ({"TOKEN_ENDPOINT_URL": "file:///etc/passwd"}, "write the address of the token endpoint"),
        ({"TOKEN_ENDPOINT_URL": "https://a:s3cret@id.example/"}, "contains a user name or password"),
        ({"EXTENSIONS": "logicalCluster"}, "'logicalCluster': must be name=value"),
        ({"CA_FILE": "/etc/hostname"}, "sasl_oauthbearer_ca_file /etc/hostname: contains no PEM certificate"),
        ({"CA_FILE": "/no/such.pem"}, "sasl_oauthbearer_ca_file /no/such.pem: No such file"),
    ],
)
def test_missing_oauth_settings_are_named(
    oauth: pytest.MonkeyPatch, changes: dict[str, str | None], message: str
) -> None:
    set_variables(oauth, "REBALANCE_MONITOR_KAFKA__SASL_OAUTHBEARER_", changes)
    with pytest.raises(InvalidSettings, match=message) as refused:
        load()
    assert "s3cret" not in f"{refused.value} {refused.value.__cause__}"


def test_settings_of_another_mechanism_have_no_effect(oauth: pytest.MonkeyPatch) -> None:
    oauth.setenv("REBALANCE_MONITOR_KAFKA__SASL_USERNAME", "monitor")
    with pytest.raises(InvalidSettings, match="sasl_username has no effect under sasl_mechanism OAUTHBEARER"):
        load()
    oauth.setenv("REBALANCE_MONITOR_KAFKA__SASL_MECHANISM", "PLAIN")
    oauth.setenv("REBALANCE_MONITOR_KAFKA__SASL_PASSWORD", "s3cret-s3cret")
    with pytest.raises(InvalidSettings, match="sasl_oauthbearer_client_id has no effect under sasl_mechanism PLAIN"):
        load()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "sasl_aws_region is missing: sasl_mechanism AWS_MSK_IAM needs it"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl_kerberos_principal is missing: sasl_mechanism GSSAPI needs it"),
        (
            {"sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-west-1", "sasl_username": "u"},
            "sasl_username has no effect under sasl_mechanism AWS_MSK_IAM",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_principal": "m@R", "sasl_aws_region": "eu-west-1"},
            "sasl_aws_region has no effect under sasl_mechanism GSSAPI",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_principal": "m@R", "sasl_kerberos_keytab_file": "/no/such"},
            "sasl_kerberos_keytab_file /no/such: No such file",
        ),
    ],
)
def test_settings_of_aws_and_kerberos_are_checked(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KafkaSettings.model_validate({"security_protocol": "SASL_SSL"} | changes)


@pytest.mark.parametrize("variables", [{}, SECURE_VARIABLES, OAUTH], ids=["plain text", "password", "oauth"])
def test_shown_settings_can_be_loaded_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str]
) -> None:
    """The output of ``config`` masks secrets, so the test compares only the other settings."""
    set_variables(monkeypatch, "", variables)
    shown = list(as_toml(load()))
    assert "s3cret" not in "".join(shown)
    for name in variables:
        monkeypatch.delenv(name)
    (tmp_path / "monitor.toml").write_text("\n".join(shown))
    assert list(as_toml(load(tmp_path / "monitor.toml"))) == shown
