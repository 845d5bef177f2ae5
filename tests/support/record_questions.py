"""Random questions about records, settings and what brokers say, and the answers as lines of text."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from assignors.errors import BadInput, MonitorError
from streaming.kafka import access, failures, security
from streaming.kafka.clients import confluent_config, java_config, reader_config, spark_options
from streaming.kafka.topics import wanted_topics
from streaming.settings import config
from streaming.settings.connection import KafkaSettings
from streaming.wire import codec
from streaming.wire.codec import Record
from streaming.wire.dead_letters import dead_letter_headers, fit
from streaming.wire.events import EVENT_TYPES, GroupObserved
from tests.support.recorded import SORTS, records

_TEXTS = (b"", b"x", b"\xff", b"member.joined", b"member.heartbeat", b"group.observed", None)


def _json_spoiled(chance: random.Random, value: bytes) -> bytes:
    """A field that is null, of another type, negative, at a bound, new or gone; or broken JSON."""
    found = json.loads(value)
    inner: Any = found
    while True:
        name = chance.choice(sorted(inner) if isinstance(inner, dict) else range(len(inner)))
        if isinstance(inner[name], dict | list) and inner[name] and chance.random() < 0.7:
            inner = inner[name]
        else:
            break
    drawn = chance.randrange(10)
    if drawn == 0:
        return value[: chance.randrange(len(value))]
    if drawn == 1:
        del inner[name]
    elif drawn == 2:
        return value + chance.choice([b" ", b"x", b"[" * 99, b"\xff"])
    elif drawn == 3 and isinstance(inner, dict):
        inner["more"] = "["
    else:
        bounds = [-(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 253402300799999, 253402300800000, -1, 0, 1]
        inner[name] = chance.choice([None, "text", "", 1.5, True, [], {}, [-1], *bounds])
    return json.dumps(found).encode()


def decoded(number: int) -> Iterator[str]:
    """Records of every sort, whole and spoiled: what is read of them, and the dead letter of what can't be."""
    chance = random.Random(f"decoded {number}")
    for place, record in enumerate(records(SORTS[number % 3], 200)):
        key, value = record.key, record.value
        fields = {"type": record.type, "id": record.id, "source": record.source}
        drawn = chance.randrange(4)
        if drawn == 0:
            fields[chance.choice(sorted(fields))] = chance.choice(_TEXTS)
        elif drawn == 1:
            key = chance.choice([None, b"", b"g", b"\xff"])
        elif drawn == 2:
            value = None if value is None or chance.random() < 0.05 else _json_spoiled(chance, value)
        one = Record(0, place, key, value, **fields, time=record.time, headers=None)
        beat = codec.read_heartbeat(one)
        try:
            event = codec.read(one)
        except BadInput as error:
            headers = dead_letter_headers(one.all_headers, error, topic="t", partition=1, offset=place)
            size = codec.record_bytes(key, value, headers)
            cut = fit(key, value, headers, size - chance.choice([0, 1, 40, size // 2, size - 60]))
            yield f"{place} {size} {cut}"
            continue
        data = event.data
        known = (
            (data.kind, data.holds_tasks, data.counts_epochs, data.polled)
            if isinstance(data, GroupObserved)
            else ()
        )
        yield f"{place} {event.id} {event.source} {beat is not None} {known} {codec.encode_event(event)}"


def nested(_: int) -> Iterator[str]:
    """How deep a value may be, in every way to write it."""
    decoder = codec._decoder("member.joined")
    for depth in (98, 99, 100, 101, 102):
        for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, '"' + "[" * depth + '"'):
            for more in ("", '"\\"[[[[[\\\\"', '"]]]]"', '""'):
                value = f'{{"groupId":"g","x":[{", ".join(filter(None, (more, text)))}]}}'
                try:
                    codec.decode(decoder, value.encode())
                    said = "read"
                except codec.UNREADABLE as error:
                    said = f"{type(error).__name__}: {error}"
                yield f"{depth} {more} {text[:6]} {said}"
    yield f"{codec.MAX_RECORD_BYTES} {sorted(EVENT_TYPES)}"
    for stamp in (-1, 0, 1, 999, 1000, 253402300799999, 253402300800000, 2**62):
        try:
            yield codec.rfc3339(stamp)
        except BadInput as error:
            yield str(error)


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
_WHOLE = {
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
        tables["kafka"] = {"security_protocol": "SASL_SSL"} | chance.choice(_WHOLE["SASL_SSL"])
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
    oauth = _WHOLE["SASL_SSL"][2]
    for settings in (
        KafkaSettings(bootstrap_servers="b:9"),
        KafkaSettings(bootstrap_servers="b:9", security_protocol="SASL_SSL", **_WHOLE["SASL_SSL"][0]),  # type: ignore[arg-type]
        KafkaSettings(bootstrap_servers="b:9", security_protocol="SASL_SSL", **oauth),  # type: ignore[arg-type]
    ):
        for _ in range(60):
            text = " ".join(chance.sample(_SAID, chance.randint(1, 4)))
            found = failures.explain(text, settings)
            yield f"{text} | {failures.plain(text)} | {failures.silent(text, settings)}"
            yield f"  {type(found).__name__}: {found}"
