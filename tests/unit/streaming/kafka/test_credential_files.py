import shutil
from pathlib import Path

import pytest

from streaming.kafka.security import CHECK_SECONDS, CredentialRenewal
from streaming.settings.connection import KafkaSettings
from tests.support.pem import certificate


def put(folder: Path, name: str, *kinds: str) -> None:
    """Replace the client's certificate (``pem``) or key (``key``) by the file with the given name."""
    for kind in kinds:
        shutil.copy(folder / f"{name}.{kind}", folder / f"own.{kind}")


@pytest.fixture
def settings(tmp_path: Path) -> KafkaSettings:
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
    settings: KafkaSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewal = CredentialRenewal(settings)
    put(tmp_path, "second", "pem")
    assert [renewal.renewed(number * CHECK_SECONDS) for number in range(3)] == [False, False, False]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is not the key of ssl_certificate_file" in caplog.text
    put(tmp_path, "second", "key")
    assert renewal.renewed(3 * CHECK_SECONDS)


def test_replaced_secret_is_reported_once_at_the_next_check(settings: KafkaSettings, tmp_path: Path) -> None:
    renewal = CredentialRenewal(settings)
    assert not renewal.renewed(0)
    (tmp_path / "secret").write_text("another")
    assert not renewal.renewed(CHECK_SECONDS / 2)
    assert renewal.renewed(CHECK_SECONDS)
    assert not renewal.renewed(2 * CHECK_SECONDS)
