"""Client libraries: their default client ids, their configuration files, and their names for Java's options.

Option names are from ``ConsumerConfig``, librdkafka's ``CONFIGURATION.md``, Spring Boot's ``KafkaProperties`` and
kafka-python's ``KafkaConsumer.DEFAULT_CONFIG``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

from assignors.errors import BadInput

COOPERATIVE: Final = "cooperative-sticky"
STRATEGY: Final = "partition.assignment.strategy"


class ClientLibrary(NamedTuple):
    """A client library: its support of ``cooperative-sticky`` and KIP-848, and how an application leaves its group.

    ``can_mix_strategies``: True if a list may contain both eager and cooperative strategies, as two rolling bounces
    require.
    """

    name: str
    close: str
    cooperative: bool = True
    consumer: bool = True
    can_mix_strategies: bool = True


JAVA: Final = ClientLibrary("Java", "KafkaConsumer.close() on SIGTERM, after wakeup() ended the last poll")
SPRING: Final = ClientLibrary("Spring Boot", "let the application context close on SIGTERM, which stops its listeners")
LIBRDKAFKA: Final = ClientLibrary("librdkafka", "close() of the consumer on SIGTERM", can_mix_strategies=False)
KAFKA_PYTHON: Final = ClientLibrary("kafka-python", "KafkaConsumer.close() on SIGTERM", consumer=False)
AIOKAFKA: Final = ClientLibrary("aiokafka", "await consumer.stop() on SIGTERM", cooperative=False, consumer=False)
STREAMS: Final = ClientLibrary("Kafka Streams", "KafkaStreams.close(new CloseOptions().leaveGroup(true)) on SIGTERM")
CONNECT: Final = ClientLibrary("Kafka Connect", "stop the worker with SIGTERM, not SIGKILL")
SINK: Final = ClientLibrary("Kafka Connect sink", "stop the worker with SIGTERM, not SIGKILL")
UNKNOWN: Final = ClientLibrary("unknown, Java names", "close the consumer on SIGTERM")
#: Default client ids of the libraries.
_DEFAULT_IDS: Final = (
    (re.compile(r"kafka-python-[\d.]+"), KAFKA_PYTHON),
    (re.compile(r"aiokafka-[\d.]+"), AIOKAFKA),
    (re.compile(r"rdkafka"), LIBRDKAFKA),
    (re.compile(r"connector-consumer-.+"), SINK),
    (re.compile(r".+-StreamThread-\d+-consumer"), STREAMS),
    (re.compile(r"consumer-(?:.+-)?\d+"), JAVA),
)


def library_of(client_ids: Iterable[str]) -> ClientLibrary:
    """Return the client library with these default client ids; ``UNKNOWN`` if there is none or more than one."""
    libraries = {
        next((client for pattern, client in _DEFAULT_IDS if pattern.fullmatch(client_id)), UNKNOWN)
        for client_id in client_ids
    }
    return libraries.pop() if len(libraries) == 1 else UNKNOWN


#: Short names of assignors → names of Java's classes.
_JAVA_CLASSES: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    COOPERATIVE: "CooperativeStickyAssignor",
}
#: Options with other names in Spring Boot.
_SPRING_OPTIONS: Final = {
    "max.poll.records": "spring.kafka.consumer.max-poll-records",
    "heartbeat.interval.ms": "spring.kafka.consumer.heartbeat-interval",
}
#: Client library → prefix of its consumer options.
_PREFIXES: Final = {SPRING: "spring.kafka.consumer.properties.", STREAMS: "main.consumer.", SINK: "consumer.override."}
#: Options of brokers, Streams and workers, which have the same name for every client.
_BARE_OPTIONS: Final = ("group.initial.", "group.consumer.", "acceptable.", "num.standby.", "scheduled.", "connect.")


def option_of(client: ClientLibrary, name: str, value: str) -> tuple[str, str]:
    """Return a setting of the Java consumer with the option name and value of this client library."""
    if name.startswith(_BARE_OPTIONS):
        return name, value
    if client in (KAFKA_PYTHON, AIOKAFKA):
        return name.replace(".", "_"), f"[{_JAVA_CLASSES[value]}]" if name == STRATEGY else value
    if name == STRATEGY and client is not LIBRDKAFKA:
        value = f"org.apache.kafka.clients.consumer.{_JAVA_CLASSES[value]}"
    if client is SPRING and name in _SPRING_OPTIONS:
        return _SPRING_OPTIONS[name], value
    return _PREFIXES.get(client, "") + name, value


class ClientConfiguration(NamedTuple):
    """Settings in a client's configuration file: each option's value and its name in the file, by its name in Java."""

    source: str
    client: ClientLibrary
    values: Mapping[str, str]
    names: Mapping[str, str]

    def milliseconds(self, name: str) -> int | None:
        """Return the value of an option in ms; None if the file does not set the option to a number."""
        match = _DURATION.fullmatch(self.values.get(name, ""))
        return int(match[1]) * _UNITS[match[2] or "ms"] if match else None

    def strategies(self) -> list[str]:
        """Return the short names of the assignors in ``partition.assignment.strategy``."""
        words = re.findall(r"[\w.-]+", self.values.get(STRATEGY, ""))
        return [_SHORT_NAMES.get(word.rpartition(".")[2].replace("Partition", ""), word) for word in words]

    def quote(self, *names: str) -> str:
        """Return settings of a file as text with the file's name, such as ``app.properties: a=1, b=2``."""
        return f"{self.source}: {', '.join(f'{self.names[name]}={self.values[name]}' for name in names)}"


_DURATION: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|h)?")
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
#: Names of Java's classes → short names of assignors.
_SHORT_NAMES: Final = {java: short_name for short_name, java in _JAVA_CLASSES.items()}
#: Prefixes of consumer options, longest first, and the client that uses the prefix; None: any client.
_FILE_PREFIXES: Final[tuple[tuple[str, ClientLibrary | None], ...]] = (
    *((prefix, client) for client, prefix in _PREFIXES.items()),
    ("spring.kafka.streams.properties.", STREAMS),
    ("spring.kafka.properties.", SPRING),
    ("spring.kafka.consumer.", SPRING),
    ("consumer.", None),
)
#: Options that exist in only one client library.
_CLIENT_SPECIFIC_OPTIONS: Final = {
    "application.id": STREAMS,
    "config.storage.topic": CONNECT,
    "connect.protocol": CONNECT,
    "metadata.broker.list": LIBRDKAFKA,
    "enable.auto.offset.store": LIBRDKAFKA,
    "value.deserializer": JAVA,
}


def parse_configuration(source: str, text: str) -> ClientConfiguration:
    """Parse the configuration file ``source``: YAML if its name ends in .yaml or .yml, else ``name=value`` lines."""
    client: ClientLibrary | None = None
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in _yaml(source, text) if source.endswith((".yaml", ".yml")) else _properties(text):
        plain, client_hint = _java_name(name)
        client = client or client_hint or _CLIENT_SPECIFIC_OPTIONS.get(plain)
        values[plain], names[plain] = value, name
    if not values:
        raise BadInput(f"{source}: no setting found; write name=value lines, or YAML")
    if client is None and STRATEGY in values and "Assignor" not in values[STRATEGY]:
        client = LIBRDKAFKA
    return ClientConfiguration(source, client or JAVA, values, names)


def _java_name(name: str) -> tuple[str, ClientLibrary | None]:
    for prefix, client in _FILE_PREFIXES:
        if name.startswith(prefix):
            plain = name.removeprefix(prefix).replace("-", ".")
            is_renamed = client is SPRING and plain in ("heartbeat.interval", "max.poll.interval")
            return (f"{plain}.ms" if is_renamed else plain), client
    if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", name):
        return name.replace("_", "."), KAFKA_PYTHON
    return name, None


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a properties file, in which a backslash at the end of a line continues the line."""
    for raw in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        match = re.match(r"\s*[\"']?([^#!=:\s\"'][^=:\s\"']*)[\"']?\s*[=:]\s*(.*)", raw)
        if match:
            yield match[1], match[2].strip().rstrip(",").strip("\"'")


def _yaml(source: str, text: str) -> Iterator[tuple[str, str]]:
    try:
        for document in yaml.safe_load_all(text):
            yield from _leaves("", document)
    except yaml.YAMLError as problem:
        raise BadInput(f"{source}: {problem}") from problem


def _leaves(prefix: str, node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _leaves(f"{prefix}.{str(name).strip('[]')}".lstrip("."), value)
    elif prefix:
        yield prefix, ",".join(map(str, node)) if isinstance(node, list) else str(node)
