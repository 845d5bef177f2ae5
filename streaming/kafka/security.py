"""Security properties of the clients, detection of changed credential files, and causes of refused connections.

librdkafka's error codes don't distinguish a wrong password from an unknown mechanism, nor an untrusted certificate
from the wrong kind of listener. The error texts do (``rdkafka_transport.c``, ``rdkafka_ssl.c``, ``rdkafka_sasl.c``).
None of librdkafka's texts contains a secret, and neither do this module's messages.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assignors.errors import OutsideFailure
from streaming.settings.connection import KafkaSettings, read_pem

_JAVA: str = "org.apache.kafka.common.security"


def librdkafka_security(settings: KafkaSettings) -> dict[str, Any]:
    """Return the security properties for librdkafka (confluent-kafka)."""
    if settings.security_protocol == "PLAINTEXT":
        return {}
    properties: dict[str, Any] = {"security.protocol": settings.security_protocol}
    match settings.sasl_mechanism:
        case "OAUTHBEARER":
            properties |= _oidc(settings)
        case "AWS_MSK_IAM":
            from streaming.kafka.oauth_tokens import aws_token

            region = str(settings.sasl_aws_region)
            aws_token(region)  # raises the cause of a missing token, which librdkafka would not report for ten seconds
            properties |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: aws_token(region)}
        case "GSSAPI":
            properties |= _kerberos(settings)
        case str(mechanism):
            user = {"sasl.username": settings.sasl_username, "sasl.password": settings.password}
            properties |= {"sasl.mechanism": mechanism} | user
    if settings.uses_tls:
        properties["ssl.endpoint.identification.algorithm"] = "https" if settings.ssl_check_hostname else "none"
        names = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password")
        properties |= _tls_options(settings, names)
    return properties


def kafka_python(settings: KafkaSettings) -> dict[str, Any]:
    """Return the connection and security properties for kafka-python."""
    properties: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers.split(","),
        "security_protocol": settings.security_protocol,
    }
    match settings.sasl_mechanism:
        case "OAUTHBEARER" | "AWS_MSK_IAM":
            from streaming.kafka.oauth_tokens import AwsToken, ClientCredentials

            tokens = ClientCredentials(settings) if settings.uses_oauth else AwsToken(str(settings.sasl_aws_region))
            properties |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": tokens}
        case "GSSAPI":
            properties |= {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": settings.kerberos_service}
        case str(mechanism):
            user = {"sasl_plain_username": settings.sasl_username, "sasl_plain_password": settings.password}
            properties |= {"sasl_mechanism": mechanism} | user
    if settings.uses_tls:
        properties["ssl_check_hostname"] = settings.ssl_check_hostname
        properties |= _tls_options(settings, ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password"))
    return properties


def java(settings: KafkaSettings) -> dict[str, str]:
    """Return the security properties for the Java clients, including Spark's; certificates are inline PEM (KIP-651)."""
    if settings.security_protocol == "PLAINTEXT":
        return {}
    properties: dict[str, str] = {"security.protocol": settings.security_protocol}
    match settings.sasl_mechanism:
        case "OAUTHBEARER":
            properties |= _client_credentials(settings)
        case "AWS_MSK_IAM":
            properties |= {
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
                "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
            }
        case "GSSAPI":
            properties |= {
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": settings.kerberos_service,
                "sasl.jaas.config": _krb5(settings),
            }
        case str(mechanism):
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            options = {"username": settings.sasl_username or "", "password": settings.password}
            properties |= {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(f"{_JAVA}.{module}", options)}
    if settings.uses_tls:
        properties["ssl.endpoint.identification.algorithm"] = "https" if settings.ssl_check_hostname else ""
        if settings.ssl_ca_file is not None:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": read_pem(settings.ssl_ca_file)}
        if settings.ssl_certificate_file is not None and settings.ssl_key_file is not None:
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": read_pem(settings.ssl_certificate_file),
                "ssl.keystore.key": read_pem(settings.ssl_key_file),
            }
        if settings.ssl_key_password is not None:
            properties["ssl.key.password"] = settings.ssl_key_password.get_secret_value()
    return properties


def java_options(settings: KafkaSettings) -> str:
    """Return the JVM options that Java clients need for these settings; an empty string for most settings."""
    url = settings.sasl_oauthbearer_token_endpoint_url
    # Since Kafka 4.0 a client uses only token endpoints in this list (CVE-2025-27817); older clients ignore it.
    return "" if url is None else f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"


def java_packages(settings: KafkaSettings) -> tuple[str, ...]:
    """Return the Maven coordinates of additional jars that the Java clients need for these settings."""
    return ("software.amazon.msk:aws-msk-iam-auth:2.3.5",) if settings.sasl_mechanism == "AWS_MSK_IAM" else ()


def _kerberos(settings: KafkaSettings) -> dict[str, Any]:
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "log_level": 0})
    except KafkaException as error:
        raise OutsideFailure(
            "kafka.sasl_mechanism GSSAPI: this confluent-kafka, like its wheels, is built without Kerberos; build it "
            "against a librdkafka with libsasl2: pip install --no-binary confluent-kafka confluent-kafka"
        ) from error
    return {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": settings.kerberos_service,
        "sasl.kerberos.principal": settings.sasl_kerberos_principal,
        **_without_empty_values({"sasl.kerberos.keytab": settings.sasl_kerberos_keytab_file}),
    }


def _krb5(settings: KafkaSettings) -> str:
    """Return the JAAS line of Java's Kerberos module, with the keytab or, without a keytab, the ticket cache."""
    options = {"useTicketCache": "true"}
    if (keytab := settings.sasl_kerberos_keytab_file) is not None:
        options = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(keytab)}
    options["principal"] = str(settings.sasl_kerberos_principal)
    return _jaas("com.sun.security.auth.module.Krb5LoginModule", options)


def _oidc(settings: KafkaSettings) -> dict[str, Any]:
    """Return the properties with which librdkafka itself requests tokens and renews them before they expire."""
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": settings.sasl_oauthbearer_token_endpoint_url,
        "sasl.oauthbearer.client.id": settings.sasl_oauthbearer_client_id,
        "sasl.oauthbearer.client.secret": settings.client_secret,
    } | _without_empty_values(
        {
            "sasl.oauthbearer.scope": settings.sasl_oauthbearer_scope,
            "sasl.oauthbearer.extensions": settings.sasl_oauthbearer_extensions,
            "https.ca.location": settings.sasl_oauthbearer_ca_file,
        }
    )


def _client_credentials(settings: KafkaSettings) -> dict[str, str]:
    """Return the properties with which Java clients request OAUTHBEARER tokens (class name of Kafka 3.9 and 4.x)."""
    extensions = (settings.sasl_oauthbearer_extensions or "").split(",")
    options = {
        "clientId": settings.sasl_oauthbearer_client_id or "",
        "clientSecret": settings.client_secret,
        **_without_empty_values({"scope": settings.sasl_oauthbearer_scope}),
        **{f"extension_{name}": value for name, _, value in (pair.partition("=") for pair in extensions) if name},
    }
    if (file := settings.sasl_oauthbearer_ca_file) is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file.absolute())}
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{_JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": settings.sasl_oauthbearer_token_endpoint_url or "",
        "sasl.jaas.config": _jaas(f"{_JAVA}.oauthbearer.OAuthBearerLoginModule", options),
    }


def _tls_options(settings: KafkaSettings, names: Sequence[str]) -> dict[str, str]:
    """Return the configured CA file, certificate file, key file and key password under a client's property names."""
    password = settings.ssl_key_password
    files = (settings.ssl_ca_file, settings.ssl_certificate_file, settings.ssl_key_file)
    values = (*files, None if password is None else password.get_secret_value())
    return _without_empty_values(dict(zip(names, values, strict=True)))


def _without_empty_values(properties: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in properties.items() if value is not None}


def _jaas(module: str, options: dict[str, str]) -> str:
    escaped_options = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    return f"{module} required " + " ".join(f'{name}="{value}"' for name, value in escaped_options.items()) + ";"


log = logging.getLogger(__name__)
#: Seconds between two checks of the credential files.
CHECK_SECONDS: Final = 2.0


class CredentialRenewal:
    """Detects changed credential files. Clients read these files only when they are created, so they must be replaced.

    The clients themselves renew OAUTHBEARER tokens.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._digests = self._read()
        self._reported = ""
        self._next = float("-inf")

    def renewed(self, now: float) -> bool:
        """Return True once after the credential files have changed, if clients can use their new content.

        A change that can't be used is logged once: a certificate may be replaced a moment before its key.
        """
        if now < self._next or not self._settings.files:
            return False
        self._next = now + CHECK_SECONDS
        try:
            digests = self._read()
            if digests == self._digests:
                return False
            self._settings.require_files()
        except (OSError, ValueError) as error:
            if str(error) != self._reported:
                log.warning("a changed secret or certificate can't be used yet: %s", error)
            self._reported = str(error)
            return False
        self._digests, self._reported = digests, ""
        log.info("new secrets or certificates: connecting again with them")
        return True

    def _read(self) -> dict[str, str]:
        return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in self._settings.files.items()}


#: Details in librdkafka's texts that are only useful to its developers.
_CONNECTION_AGE = re.compile(r" ?\(after \d+ms in state \w+[^)]*\)")
_BROKER_ADDRESS = re.compile(r"(?:\w+://)?([\w.\[\]:-]+:\d+)/(?:bootstrap|\d+)")
_SASL_FAILURE_TEXT = "failed to acquire sasl oauthbearer"
#: Error codes of a token endpoint after which a later request may succeed.
_TEMPORARY_ERRORS = frozenset({"server_error", "temporarily_unavailable", "slow_down"})


def explain(text: str, settings: KafkaSettings) -> OutsideFailure | None:
    """Return the error behind librdkafka's error text; None if the error is temporary."""
    if _SASL_FAILURE_TEXT in text.lower():
        return _token_failure(text, settings)
    match = _BROKER_ADDRESS.search(text)
    text = _CONNECTION_AGE.sub("", text)
    for words, template in _REASONS_BY_ERROR:
        if all(word in text.lower() for word in words):
            tail = text.rsplit(": ", 1)[-1].strip().rstrip(".")[:160]  # the broker's own message
            fields = {"tail": tail, "protocol": settings.security_protocol, "mechanism": settings.sasl_mechanism}
            reason = template.format(**fields) if isinstance(template, str) else template(text.lower(), tail, settings)
            return OutsideFailure(f"broker {match[1] if match else settings.bootstrap_servers}: {reason}")
    return None


def no_answer_message(text: str, settings: KafkaSettings, seconds: float) -> str:
    """Return a message about the address that does not answer: the token endpoint or the bootstrap servers."""
    after = f"within {seconds:g} s ({_CONNECTION_AGE.sub('', text)})"
    if _SASL_FAILURE_TEXT in text.lower():
        return f"token endpoint {settings.sasl_oauthbearer_token_endpoint_url}: gives no token {after}"
    return f"bootstrap_servers {settings.bootstrap_servers}: no broker answers {after}; check --bootstrap-servers"


def _token_failure(text: str, settings: KafkaSettings) -> OutsideFailure | None:
    """Return the token endpoint's refusal, from its error code (RFC 6749, 5.2) or libcurl's text."""
    endpoint = f"token endpoint {settings.sasl_oauthbearer_token_endpoint_url}"
    if "certificate" in text.lower():
        return OutsideFailure(f"{endpoint}: {_untrusted_certificate_text('sasl_oauthbearer_ca_file', settings)}")
    code = re.search(r'"error"\s*:\s*"(\w+)"', text)
    if code is None or code[1] in _TEMPORARY_ERRORS:
        return None
    return OutsideFailure(
        f"{endpoint}: refuses client {settings.sasl_oauthbearer_client_id!r} ({code[1]}); check "
        "kafka.sasl_oauthbearer_client_id, …_client_secret (or …_client_secret_file) and …_scope"
    )


def _untrusted_certificate_text(name: str, settings: KafkaSettings) -> str:
    trusted_authorities = settings.files.get(name, "the system's authorities")
    remedy = f"set kafka.{name} to the PEM of the authority that signed it"
    return f"its certificate is not signed by {trusted_authorities}; {remedy}"


def _certificate(text: str, _: str, settings: KafkaSettings) -> str:
    if "hostname" in text or "ip address mismatch" in text:
        remedy = "connect by a name that it lists, or set kafka.ssl_check_hostname = false"
        return f"its certificate does not name this host; {remedy}"
    if "alert" in text or "certificate required" in text or "bad certificate" in text:
        return (
            "it refuses this client's certificate; set kafka.ssl_certificate_file and kafka.ssl_key_file to ones "
            "that its authorities signed"
        )
    return _untrusted_certificate_text("ssl_ca_file", settings)


def _user(_: str, tail: str, settings: KafkaSettings) -> str:
    if settings.uses_oauth:
        return (
            f"refuses the token of client {settings.sasl_oauthbearer_client_id!r} ({tail}); ask whoever "
            "runs it which issuer, audience, scope and claims it expects"
        )
    if settings.sasl_mechanism == "AWS_MSK_IAM":
        return f"refuses this AWS identity ({tail}); check its policy (kafka-cluster:Connect) and sasl_aws_region"
    user = settings.sasl_username or settings.sasl_kerberos_principal
    own = "sasl_kerberos_…" if settings.sasl_username is None else "sasl_username and kafka.sasl_password (or …_file)"
    return f"refuses user {user!r} ({settings.sasl_mechanism}); check kafka.{own}"


_MODE: Final = "kafka.security_protocol is {protocol}"
_NOT_ENCRYPTED_TEXT: Final = (
    f"the listener is not encrypted; {_MODE}, set PLAINTEXT or SASL_PLAINTEXT, or name the port of a TLS listener"
)
_HANGS_UP: Final = f"closes the connection on the first request; {_MODE}, the listener probably wants SSL or SASL_SSL"
_MECHANISM_TEXT: Final = "does not offer kafka.sasl_mechanism {mechanism}; set one it offers ({tail})"
#: Words in librdkafka's error text, and the message to report. The first match decides.
_REASONS_BY_ERROR: Final[tuple[tuple[tuple[str, ...], str | Callable[..., str]], ...]] = (
    (("ssl", "verify failed"), _certificate),
    (("ssl", "certificate"), _certificate),
    (("connecting to a plaintext broker listener",), _NOT_ENCRYPTED_TEXT),
    (("wrong version number",), _NOT_ENCRYPTED_TEXT),
    (("connecting to a ssl listener",), _HANGS_UP),
    (("incorrect security.protocol",), _HANGS_UP),
    (("sasl", "mechanism", "unsupported"), _MECHANISM_TEXT),
    (("sasl", "mechanism handshake failed"), _MECHANISM_TEXT),
    (("sasl", "authentication"), _user),
    (("ssl", "handshake failed"), "the TLS handshake failed ({tail})"),
)
