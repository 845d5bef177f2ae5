from __future__ import annotations

from pathlib import Path

import pytest

from streaming.settings.config import InvalidSettings, load

SECURE = {
    "REBALANCE_MONITOR_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
    "REBALANCE_MONITOR_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
    "REBALANCE_MONITOR_KAFKA__SASL_USERNAME": "monitor",
    "REBALANCE_MONITOR_KAFKA__SASL_PASSWORD": "s3cret-s3cret",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in SECURE.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_from_the_environment(environment: pytest.MonkeyPatch) -> None:
    kafka = load().kafka
    assert (kafka.security_protocol, kafka.sasl_username, kafka.password) == (
        "SASL_SSL",
        "monitor",
        "s3cret-s3cret",
    )
    assert "s3cret" not in repr(kafka)
    assert "s3cret" not in str(load().model_dump(mode="json"))


def test_a_password_may_stand_in_a_file(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    environment.delenv("REBALANCE_MONITOR_KAFKA__SASL_PASSWORD")
    environment.setenv("REBALANCE_MONITOR_KAFKA__SASL_PASSWORD_FILE", str(tmp_path / "password"))
    assert load().kafka.password == (tmp_path / "password").read_text().strip()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"SASL_MECHANISM": None}, "sasl_mechanism is missing"),
        ({"SASL_USERNAME": None}, "sasl_username is missing"),
        ({"SASL_PASSWORD": None}, "give one of sasl_password and sasl_password_file"),
        ({"SASL_PASSWORD_FILE": "/etc/hostname"}, "give one of"),
        (
            {"SECURITY_PROTOCOL": "SSL"},
            "sasl_mechanism has no effect under security_protocol SSL; set it to SASL_SSL",
        ),
        (
            {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SSL_CA_FILE": "/etc/hostname"},
            "ssl_ca_file has no effect",
        ),
        ({"SSL_CA_FILE": "/no/such.pem"}, "ssl_ca_file /no/such.pem: No such file"),
        ({"SSL_KEY_FILE": "/etc/hostname"}, "are given together"),
        ({"SASL_MECHANISM": "MAGIC"}, "kafka.sasl_mechanism"),
        ({"PASWORD": "typo-of-a-secret"}, "kafka.pasword"),
    ],
)
def test_what_does_not_fit_is_named_without_the_secret(
    environment: pytest.MonkeyPatch, changes: dict[str, str | None], says: str
) -> None:
    for name, value in changes.items():
        if value is None:
            environment.delenv(f"REBALANCE_MONITOR_KAFKA__{name}")
        else:
            environment.setenv(f"REBALANCE_MONITOR_KAFKA__{name}", value)
    with pytest.raises(InvalidSettings, match=says) as refused:
        load()
    chain = f"{refused.value} {refused.value.__cause__}"
    assert "s3cret" not in chain
    assert "typo-of-a-secret" not in chain
