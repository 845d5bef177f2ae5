"""Random questions about settings, and the answers as lines of text."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from assignors.errors import MonitorError
from streaming.kafka import access, security
from streaming.kafka.clients import confluent_config, java_config, reader_config, spark_options
from streaming.kafka.topics import wanted_topics
from streaming.settings import config

_SERVERS = [
    "a:1",
    "a:0",
    "a:65535",
    "a:65536",
    "a:1, b:2",
    "[::1]:9092",
    "a",
    "a:x",
    "",
    "http://a:1",
    "a:1,",
    "é:1",
]
_VALUES: dict[str, list[Any]] = {
    "bootstrap_servers": _SERVERS,
    "security_protocol": ["PLAINTEXT", "SSL", "SASL_SSL", "SASL_SSL", "SASL_SSL", "SASL_PLAINTEXT", "TLS"],
    "sasl_mechanism": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "OAUTHBEARER", "MAGIC"],
    "sasl_username": ["u", "", 'quoted "\\ one'],
    "sasl_password": ["s3cret", "", "two\nlines", "nul\0l"],
    "sasl_password_file": ["secret", "empty", "lines", "latin", "missing", "nul\0l"],
    "sasl_oauthbearer_token_endpoint_url": [
        "https://i/t",
        "http://i/t",
        "ftp://i",
        "https://u:p@i/",
        "i/t",
        "https://i /",
    ],
    "sasl_oauthbearer_client_id": ["c", ""],
    "sasl_oauthbearer_client_secret": ["s3cret", ""],
    "sasl_oauthbearer_client_secret_file": ["secret", "empty", "lines"],
    "sasl_oauthbearer_scope": ["a b"],
    "sasl_oauthbearer_extensions": ["a=b", "a=b,c=d", "a", "a=b=c", "auth=x"],
    "ssl_ca_file": ["secret", "missing"],
    "ssl_certificate_file": ["secret"],
    "ssl_key_file": ["secret"],
    "ssl_key_password": ["s3cret"],
    "ssl_check_hostname": [True, False, "maybe"],
}
#: What belongs together under a protocol, as somebody who can connect has it.
WHOLE = {
    "SASL_SSL": [
        {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "s3cret"},
        {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "u", "sasl_password_file": "secret"},
        {
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": "https://i/t",
            "sasl_oauthbearer_client_id": "c",
            "sasl_oauthbearer_client_secret": "s3cret",
        },
    ]
}
_OTHERS: list[tuple[str, str, Any]] = [
    ("topics", "prefix", "p."),
    ("topics", "prefix", "a b"),
    ("topics", "prefix", "x" * 226),
    ("topics", "prefx", "p."),
    ("topics", "partitions", 0),
    ("topics", "partitions", "many"),
    ("collect", "include_groups", ["a.*"]),
    ("collect", "include_groups", ["("]),
    ("collect", "by", "polling"),
    ("collect", "by", "guess"),
    ("collect", "coordinator_logs", ["/x.log"]),
    ("collect", "coordinator_logs", ["nul\0l"]),
    ("collect", "poll_quick_ms", 20_000),
    ("collect", "group_id", ""),
    ("collect", "group_id", "nul\0l"),
    ("signs", "every_ms", 99),
    ("signs", "every_ms", 30_000),
    ("signs", "silent_after_ms", 100),
    ("kafkas", "x", 1),
    ("nothing", "x", 1),
]
_VARIABLES = [
    ("KAFKA__BOOTSTRAP_SERVERS", "env:9"),
    ("KAFAK__BOOTSTRAP_SERVERS", "env:9"),
    ("ZZZ__X", "1"),
    ("BOOTSTRAP_SERVERS", "env:9"),
    ("PREFIX", "p"),
    ("SERVICE_HOST", "kubernetes"),
    ("COLLECT__INCLUDE_GROUPS", '["e.*"]'),
    ("COLLECT__INCLUDE_GROUPS", "e.*"),
    ("COLLECT", "no json"),
    ("COLLECT", '{"group_id": "other"}'),
    ("TOPICS__PARTITIONS", "7"),
    ("topics__prefix", "low."),
]


def _toml(chance: random.Random) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {"kafka": {}}
    if chance.random() < 0.7:
        tables["kafka"] = {"security_protocol": "SASL_SSL"} | chance.choice(WHOLE["SASL_SSL"])
    for name in chance.sample(sorted(_VALUES), chance.choice([0, 0, 1, 1, 2])):
        tables["kafka"][name] = chance.choice(_VALUES[name])
    for table, name, value in chance.sample(_OTHERS, chance.choice([0, 0, 0, 1, 2])):
        tables.setdefault(table, {})[name] = value
    return tables


def loaded(number: int) -> Iterator[str]:
    """Files of settings and variables in every mixture: what is refused, and what the clients are told."""
    chance = random.Random(f"loaded {number}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, data in {
            "secret": b"in a file\n",
            "empty": b" \n",
            "lines": b"a\nb",
            "latin": b"\xe9",
        }.items():
            (folder / name).write_bytes(data)
        for _ in range(80):
            tables = _toml(chance)
            for name, value in tables["kafka"].items():
                if name.endswith("_file"):
                    tables["kafka"][name] = str(folder / value)
            file = folder / "c.toml"
            file.write_text(
                "".join(
                    f"[{table}]\n"
                    + "".join(f"{name} = {json.dumps(value)}\n" for name, value in entries.items())
                    for table, entries in tables.items()
                )
            )
            variables = dict(chance.sample(_VARIABLES, chance.choice([0, 0, 0, 0, 1, 2])))
            options = chance.choice(
                [{}, {}, {"bootstrap_servers": chance.choice(_SERVERS)}, {"topic_prefix": "q."}]
            )
            with mock.patch.dict(os.environ, {f"REBALANCE_MONITOR_{n}": v for n, v in variables.items()}):
                lines = list(_settings(file, options))
            yield f"{json.dumps(tables)} {variables} {options}".replace(scratch, "")
            yield from (f"  {line}".replace(scratch, "") for line in lines)


def _settings(file: Path, options: dict[str, str]) -> Iterator[str]:
    try:
        found = config.load(file, **options)  # type: ignore[arg-type] # as the command line has them
    except MonitorError as error:
        yield f"{type(error).__name__}: {error}"
        return
    yield " | ".join(config.as_toml(found))
    kafka = found.kafka
    yield f"{found.collector_id} {found.topics.made} {found.topics.ticks}"
    for asked in (
        confluent_config,
        java_config,
        spark_options,
        security.librdkafka,
        security.java,
        security.java_options,
    ):
        said = asked(kafka)
        yield f"{asked.__name__} {_shown(said) if isinstance(said, dict) else said}"
    yield f"reader {_shown(reader_config(kafka, 'group'))}"
    yield from (f"{topic.name} {topic}" for topic in wanted_topics(found.topics))
    for component in ("collect", "stream", "serve"):
        for permission in (*access.needs(component, found), *access.wishes(component, found)):
            yield f"{component} {access.denied(kafka, permission, 'why')}"


def _shown(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if not callable(value) and name != "logger"}


#: The questions, and how many of each.
ASKED = ((loaded, 6),)
