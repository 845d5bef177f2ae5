"""Random questions about what brokers say, and the answers as lines of text."""

from __future__ import annotations

import random
from collections.abc import Iterator

from streaming.kafka import failures
from streaming.settings.connection import KafkaSettings
from tests.golden.streaming.settings.questions import WHOLE

_SAID = [
    "ssl",
    "sasl",
    "SSL handshake failed:",
    "certificate verify failed",
    "hostname mismatch",
    "ip address mismatch",
    "alert bad certificate",
    "certificate required",
    "connecting to a PLAINTEXT broker listener?",
    "wrong version number",
    "connecting to a SSL listener?",
    "incorrect security.protocol configuration?",
    "mechanism",
    "unsupported",
    "mechanism handshake failed:",
    "authentication failed: who are you?",
    "Failed to acquire SASL OAUTHBEARER token:",
    '{"error": "invalid_client"}',
    '{"error":"slow_down"}',
    "certificate",
    "supported are A, B.",
    "(after 3ms in state APIVERSION_QUERY, 1 identical error(s) suppressed)",
    "(after 12ms in state CONNECT)",
    "sasl_ssl://b-1.x:9093/bootstrap:",
    "[::1]:9092/1:",
]


def explained(number: int) -> Iterator[str]:
    """What librdkafka may say of a connection, in every mixture: which error that is."""
    chance = random.Random(f"refused {number}")
    oauth = WHOLE["SASL_SSL"][2]
    for settings in (
        KafkaSettings(bootstrap_servers="b:9"),
        KafkaSettings(bootstrap_servers="b:9", security_protocol="SASL_SSL", **WHOLE["SASL_SSL"][0]),  # type: ignore[arg-type]
        KafkaSettings(bootstrap_servers="b:9", security_protocol="SASL_SSL", **oauth),  # type: ignore[arg-type]
    ):
        for _ in range(60):
            text = " ".join(chance.sample(_SAID, chance.randint(1, 4)))
            found = failures.explain(text, settings)
            yield f"{text} | {failures.plain(text)} | {failures.silent(text, settings)}"
            yield f"  {type(found).__name__}: {found}"


#: The questions, and how many of each.
ASKED = ((explained, 2),)
