"""Security settings in each client's own words: librdkafka and the Java clients."""

from __future__ import annotations

from typing import Any

from streaming.settings.connection import KafkaSettings


def librdkafka(settings: KafkaSettings) -> dict[str, Any]:
    """Properties of librdkafka (confluent-kafka)."""
    found: dict[str, Any] = {"security.protocol": settings.security_protocol}
    if settings.uses_sasl:
        found |= {
            "sasl.mechanism": settings.sasl_mechanism,
            "sasl.username": settings.sasl_username,
            "sasl.password": settings.password,
        }
    if settings.uses_tls:
        found["ssl.endpoint.identification.algorithm"] = "https" if settings.ssl_check_hostname else "none"
        found |= _given(
            settings, ca="ssl.ca.location", certificate="ssl.certificate.location", key="ssl.key.location"
        )
        if settings.ssl_key_password is not None:
            found["ssl.key.password"] = settings.ssl_key_password.get_secret_value()
    return found if settings.security_protocol != "PLAINTEXT" else {}


def java(settings: KafkaSettings) -> dict[str, str]:
    """Properties of the Java clients, Spark's among them; certificates go in as text (KIP-651)."""
    found: dict[str, str] = {"security.protocol": settings.security_protocol}
    if settings.uses_sasl:
        module = "plain.PlainLoginModule" if settings.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        found |= {
            "sasl.mechanism": str(settings.sasl_mechanism),
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
            f"username={_quoted(settings.sasl_username or '')} password={_quoted(settings.password)};",
        }
    if settings.uses_tls:
        found["ssl.endpoint.identification.algorithm"] = "https" if settings.ssl_check_hostname else ""
        if settings.ssl_ca_file is not None:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": settings.ssl_ca_file.read_text(),
            }
        if settings.ssl_certificate_file is not None and settings.ssl_key_file is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": settings.ssl_certificate_file.read_text(),
                "ssl.keystore.key": settings.ssl_key_file.read_text(),
            }
        if settings.ssl_key_password is not None:
            found["ssl.key.password"] = settings.ssl_key_password.get_secret_value()
    return found if settings.security_protocol != "PLAINTEXT" else {}


def _given(settings: KafkaSettings, *, ca: str, certificate: str, key: str) -> dict[str, str]:
    files = {ca: settings.ssl_ca_file, certificate: settings.ssl_certificate_file, key: settings.ssl_key_file}
    return {name: str(path) for name, path in files.items() if path is not None}


def _quoted(text: str) -> str:
    """A string of a JAAS line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
