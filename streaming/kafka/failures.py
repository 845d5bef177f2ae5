"""What a broker's refusal means, which broker it was, and what to set: from the words of librdkafka.

Its codes don't tell a wrong password from a mechanism the broker doesn't know, nor a stranger's certificate
from the wrong kind of listener; its texts do (``rdkafka_transport.c``, ``rdkafka_ssl.c``, ``rdkafka_sasl.c``).
No secret is in any of them, and none is put into ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from assignors.errors import OutsideFailure
from streaming.settings.connection import KafkaSettings

#: What librdkafka adds for its own developers.
_AGE = re.compile(r" ?\(after \d+ms in state \w+[^)]*\)")
_BROKER = re.compile(r"(?:\w+://)?([\w.\[\]:-]+:\d+)/(?:bootstrap|\d+)")


_TOKENLESS = "failed to acquire sasl oauthbearer"
#: Codes of an endpoint that may answer otherwise later.
_PASSING = frozenset({"server_error", "temporarily_unavailable", "slow_down"})


class AuthenticationRefused(OutsideFailure):
    """The broker does not accept this user."""


class CertificateRefused(OutsideFailure):
    """The TLS handshake failed."""


class WrongSecurityProtocol(OutsideFailure):
    """The listener speaks another security protocol."""


def plain(text: str) -> str:
    """What librdkafka says, without the state machine's."""
    return _AGE.sub("", text)


def explain(text: str, settings: KafkaSettings) -> OutsideFailure | None:
    """The error behind librdkafka's text, when waiting will not mend it; None when it may."""
    if _TOKENLESS in text.lower():
        return _no_token(text, settings)
    match = _BROKER.search(text)
    text = plain(text)
    low = text.lower()
    found = next((kind for kind, is_this in _SIGNS if is_this(low)), None)
    if found is None:
        return None
    error, says = found
    return error(f"broker {match[1] if match else settings.bootstrap_servers}: {says(text, settings)}")


def silent(text: str, settings: KafkaSettings) -> str:
    """Who it is that does not answer, when waiting was in vain."""
    if _TOKENLESS in text.lower():
        return f"token endpoint {settings.sasl_oauthbearer_token_endpoint_url}: gives no token"
    return f"bootstrap_servers {settings.bootstrap_servers}: no broker answers"


def _no_token(text: str, settings: KafkaSettings) -> OutsideFailure | None:
    """What the token endpoint has against it, in the words of RFC 6749, 5.2, or of libcurl."""
    endpoint = f"token endpoint {settings.sasl_oauthbearer_token_endpoint_url}"
    if "certificate" in text.lower():
        trusted = str(settings.sasl_oauthbearer_ca_file or "the system's authorities")
        return CertificateRefused(
            f"{endpoint}: its certificate is not vouched for by {trusted}; set kafka.sasl_oauthbearer_ca_file to "
            "the PEM of the authority that signed it"
        )
    code = re.search(r'"error"\s*:\s*"(\w+)"', text)
    if code is None or code[1] in _PASSING:
        return None
    return AuthenticationRefused(
        f"{endpoint}: refuses client {settings.sasl_oauthbearer_client_id!r} ({code[1]}); check "
        "kafka.sasl_oauthbearer_client_id, …_client_secret (or …_client_secret_file) and …_scope"
    )


def _certificate(text: str, settings: KafkaSettings) -> str:
    low = text.lower()
    if "hostname" in low or "ip address mismatch" in low:
        return (
            "its certificate does not name this host; connect by a name that it lists, or set "
            "kafka.ssl_check_hostname = false"
        )
    if "alert" in low or "certificate required" in low or "bad certificate" in low:
        return (
            "it refuses this client's certificate; set kafka.ssl_certificate_file and kafka.ssl_key_file to ones "
            "that its authorities signed"
        )
    trusted = str(settings.ssl_ca_file or "the system's authorities")
    return (
        f"its certificate is not vouched for by {trusted}; set kafka.ssl_ca_file to the PEM of the authority "
        "that signed it"
    )


def _tail(text: str) -> str:
    """The last clause: what the broker itself said."""
    return text.rsplit(": ", 1)[-1].strip().rstrip(".")[:160]


def _protocol(seen: str, remedy: str) -> Callable[[str, KafkaSettings], str]:
    return lambda _, settings: f"{seen}; kafka.security_protocol is {settings.security_protocol}, {remedy}"


_not_encrypted = _protocol(
    "the listener is not encrypted", "set PLAINTEXT or SASL_PLAINTEXT, or name the port of a TLS listener"
)
_hangs_up = _protocol("hangs up on the first request", "the listener probably wants SSL or SASL_SSL")


def _mechanism(text: str, settings: KafkaSettings) -> str:
    return f"does not offer kafka.sasl_mechanism {settings.sasl_mechanism}; set one it offers ({_tail(text)})"


def _user(text: str, settings: KafkaSettings) -> str:
    if settings.uses_oauth:
        return (
            f"refuses the token of client {settings.sasl_oauthbearer_client_id!r} ({_tail(text)}); ask whoever "
            "runs it which issuer, audience, scope and claims it expects"
        )
    return (
        f"refuses user {settings.sasl_username!r} ({settings.sasl_mechanism}); check kafka.sasl_username and "
        "kafka.sasl_password (or sasl_password_file)"
    )


def _handshake(text: str, _: KafkaSettings) -> str:
    return f"the TLS handshake failed ({_tail(text)})"


_Kind = tuple[type[OutsideFailure], Callable[[str, KafkaSettings], str]]


def _has(*words: str) -> Callable[[str], bool]:
    return lambda low: all(word in low for word in words)


#: The first that fits, most telling first.
_SIGNS: tuple[tuple[_Kind, Callable[[str], bool]], ...] = (
    ((CertificateRefused, _certificate), _has("ssl", "verify failed")),
    ((CertificateRefused, _certificate), _has("ssl", "certificate")),
    ((WrongSecurityProtocol, _not_encrypted), _has("connecting to a plaintext broker listener")),
    ((WrongSecurityProtocol, _not_encrypted), _has("wrong version number")),
    ((WrongSecurityProtocol, _hangs_up), _has("connecting to a ssl listener")),
    ((WrongSecurityProtocol, _hangs_up), _has("incorrect security.protocol")),
    ((AuthenticationRefused, _mechanism), _has("sasl", "mechanism", "unsupported")),
    ((AuthenticationRefused, _mechanism), _has("sasl", "mechanism handshake failed")),
    ((AuthenticationRefused, _user), _has("sasl", "authentication")),
    ((CertificateRefused, _handshake), _has("ssl", "handshake failed")),
)
