"""Client configuration files: Java, librdkafka, Spring Boot, Kafka Streams and Connect, under Java's names.

A rule sees only what the file sets: a client's defaults are not filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

from assignors.errors import BadInput
from streaming.advice.clients import CONNECT, JAVA, KAFKA_PYTHON, LIBRDKAFKA, SINK, SPRING, STRATEGY, STREAMS, Client


class UnreadableConfiguration(BadInput):
    """The file is not a client configuration."""


class ClientConfiguration(NamedTuple):
    """Settings in a client's configuration file: values and the file's option names, by Java's names."""

    source: str
    client: Client
    values: Mapping[str, str]
    names: Mapping[str, str]

    def milliseconds(self, name: str) -> int | None:
        """Return a time in ms; None if the file does not set it as a number."""
        match = _DURATION.fullmatch(self.values.get(name, ""))
        return int(match[1]) * _UNITS[match[2] or "ms"] if match else None

    def strategies(self) -> list[str]:
        """Return the assignors of ``partition.assignment.strategy`` by their short names."""
        words = re.findall(r"[\w.-]+", self.values.get(STRATEGY, ""))
        return [_SHORT.get(word.rpartition(".")[2].replace("Partition", ""), word) for word in words]

    def quote(self, *names: str) -> str:
        """Return a quotation of settings in the file, such as ``app.properties: a=1, b=2``."""
        return f"{self.source}: {', '.join(f'{self.names[name]}={self.values[name]}' for name in names)}"


_DURATION: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|h)?")
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SHORT: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
#: Prefixes of consumer options, longest first, and the client that uses them; None: any client.
_PREFIXES: Final[tuple[tuple[str, Client | None], ...]] = (
    ("spring.kafka.consumer.properties.", SPRING),
    ("spring.kafka.streams.properties.", STREAMS),
    ("spring.kafka.properties.", SPRING),
    ("spring.kafka.consumer.", SPRING),
    ("consumer.override.", SINK),
    ("main.consumer.", STREAMS),
    ("consumer.", None),
)
#: Options that exist in one client only.
_SIGNS: Final = {
    "application.id": STREAMS,
    "config.storage.topic": CONNECT,
    "connect.protocol": CONNECT,
    "metadata.broker.list": LIBRDKAFKA,
    "enable.auto.offset.store": LIBRDKAFKA,
    "value.deserializer": JAVA,
}
#: Spring Boot's own names of options whose Java name ends in ``.ms``.
_SPRING_TIMES: Final = ("heartbeat.interval", "max.poll.interval")


def parse_configuration(source: str, text: str) -> ClientConfiguration:
    """Return the settings of a client's configuration file.

    ``source``: its name: ``.yaml`` and ``.yml`` are YAML, everything else ``name=value`` lines.

    Raises:
        UnreadableConfiguration: it is neither, or has no settings.
    """
    client: Client | None = None
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in _yaml(source, text) if source.endswith((".yaml", ".yml")) else _properties(text):
        plain, sign = _java_name(name)
        client = client or sign or _SIGNS.get(plain)
        values[plain], names[plain] = value, name
    if not values:
        raise UnreadableConfiguration(f"{source}: no setting found; write name=value lines, or YAML")
    if client is None and STRATEGY in values and "Assignor" not in values[STRATEGY]:
        client = LIBRDKAFKA
    return ClientConfiguration(source, client or JAVA, values, names)


def _java_name(name: str) -> tuple[str, Client | None]:
    for prefix, client in _PREFIXES:
        if name.startswith(prefix):
            plain = name.removeprefix(prefix).replace("-", ".")
            return (f"{plain}.ms" if client is SPRING and plain in _SPRING_TIMES else plain), client
    if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", name):
        return name.replace("_", "."), KAFKA_PYTHON
    return name, None


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a properties file; a backslash at the end continues a line."""
    for raw in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        match = re.match(r"\s*[\"']?([^#!=:\s\"'][^=:\s\"']*)[\"']?\s*[=:]\s*(.*)", raw)
        if match:
            yield match[1], match[2].strip().rstrip(",").strip("\"'")


def _yaml(source: str, text: str) -> Iterator[tuple[str, str]]:
    try:
        for document in yaml.safe_load_all(text):
            yield from _leaves("", document)
    except yaml.YAMLError as problem:
        raise UnreadableConfiguration(f"{source}: {problem}") from problem


def _leaves(prefix: str, node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _leaves(f"{prefix}.{str(name).strip('[]')}".lstrip("."), value)
    elif prefix:
        yield prefix, ",".join(map(str, node)) if isinstance(node, list) else str(node)
