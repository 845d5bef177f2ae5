"""Security settings in each client's own words: librdkafka and the Java clients."""

from __future__ import annotations

from typing import Any

from streaming.settings.connection import KafkaSettings, pem_in

_JAVA: str = "org.apache.kafka.common.security"


def librdkafka(settings: KafkaSettings) -> dict[str, Any]:
    """Properties of librdkafka (confluent-kafka)."""
    found: dict[str, Any] = {"security.protocol": settings.security_protocol}
    if settings.uses_oauth:
        found |= _oidc(settings)
    elif settings.uses_sasl:
        found |= {
            "sasl.mechanism": settings.sasl_mechanism,
            "sasl.username": settings.sasl_username,
            "sasl.password": settings.password,
        }
    if settings.uses_tls:
        found["ssl.endpoint.identification.algorithm"] = "https" if settings.ssl_check_hostname else "none"
        found |= _given(
            {
                "ssl.ca.location": settings.ssl_ca_file,
                "ssl.certificate.location": settings.ssl_certificate_file,
                "ssl.key.location": settings.ssl_key_file,
            }
        )
        if settings.ssl_key_password is not None:
            found["ssl.key.password"] = settings.ssl_key_password.get_secret_value()
    return found if settings.security_protocol != "PLAINTEXT" else {}


def java(settings: KafkaSettings) -> dict[str, str]:
    """Properties of the Java clients, Spark's among them; certificates go in as text (KIP-651)."""
    found: dict[str, str] = {"security.protocol": settings.security_protocol}
    if settings.uses_oauth:
        found |= _client_credentials(settings)
    elif settings.uses_sasl:
        module = "plain.PlainLoginModule" if settings.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        options = {"username": settings.sasl_username or "", "password": settings.password}
        found |= {
            "sasl.mechanism": str(settings.sasl_mechanism),
            "sasl.jaas.config": _jaas(module, options),
        }
    if settings.uses_tls:
        found["ssl.endpoint.identification.algorithm"] = "https" if settings.ssl_check_hostname else ""
        if settings.ssl_ca_file is not None:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": pem_in(settings.ssl_ca_file),
            }
        if settings.ssl_certificate_file is not None and settings.ssl_key_file is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": pem_in(settings.ssl_certificate_file),
                "ssl.keystore.key": pem_in(settings.ssl_key_file),
            }
        if settings.ssl_key_password is not None:
            found["ssl.key.password"] = settings.ssl_key_password.get_secret_value()
    return found if settings.security_protocol != "PLAINTEXT" else {}


def java_options(settings: KafkaSettings) -> str:
    """What a JVM with Java clients has to be started with; empty in most cases."""
    url = settings.sasl_oauthbearer_token_endpoint_url
    # Since Kafka 4.0 a client asks no endpoint that this does not name (CVE-2025-27817); before, it means nothing.
    return "" if url is None else f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"


def _oidc(settings: KafkaSettings) -> dict[str, Any]:
    """The method of librdkafka itself: it asks for tokens, and again before they expire, on a thread of its own."""
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": settings.sasl_oauthbearer_token_endpoint_url,
        "sasl.oauthbearer.client.id": settings.sasl_oauthbearer_client_id,
        "sasl.oauthbearer.client.secret": settings.client_secret,
        **_given(
            {
                "sasl.oauthbearer.scope": settings.sasl_oauthbearer_scope,
                "sasl.oauthbearer.extensions": settings.sasl_oauthbearer_extensions,
                "https.ca.location": settings.sasl_oauthbearer_ca_file,
            }
        ),
    }


def _client_credentials(settings: KafkaSettings) -> dict[str, str]:
    """The Java clients' own handler, by the name that it has in Kafka 3.9 (Spark 4.0) and in 4.x."""
    extensions = (settings.sasl_oauthbearer_extensions or "").split(",")
    options = {
        "clientId": settings.sasl_oauthbearer_client_id or "",
        "clientSecret": settings.client_secret,
        **_given({"scope": settings.sasl_oauthbearer_scope}),
        **{
            f"extension_{name}": value
            for name, _, value in (pair.partition("=") for pair in extensions)
            if name
        },
    }
    if settings.sasl_oauthbearer_ca_file is not None:
        options |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(settings.sasl_oauthbearer_ca_file.absolute()),
        }
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{_JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": settings.sasl_oauthbearer_token_endpoint_url or "",
        "sasl.jaas.config": _jaas("oauthbearer.OAuthBearerLoginModule", options),
    }


def _given(properties: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in properties.items() if value is not None}


def _jaas(module: str, options: dict[str, str]) -> str:
    """The line of a login module with its options."""
    return (
        f"{_JAVA}.{module} required " + " ".join(f"{name}={_quoted(v)}" for name, v in options.items()) + ";"
    )


def _quoted(text: str) -> str:
    """A string of a JAAS line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
