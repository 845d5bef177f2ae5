"""Properties of the Kafka clients, and checks that the expected cluster answers.

Each client has its own names for the same settings (librdkafka ``bootstrap.servers``, Spark
``kafka.bootstrap.servers``); no other module of this project contains those names.
"""

import logging
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import Any, Self, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import admin as kafka_admin

from assignors.errors import OutsideFailure
from streaming.kafka import security
from streaming.settings.connection import KafkaSettings

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
#: The client id of this program, for the brokers' logs, quotas and metrics.
CLIENT_ID = "rebalance-monitor"
#: Seconds in which a cluster must answer at the start, so that an error is reported within 15 s.
CONNECT_TIMEOUT_SECONDS = 8.0
#: While waiting for an unavailable cluster: the timeout of one request, and the pause between two requests (s).
_PROBE_TIMEOUT_SECONDS = 5.0
_RETRY_SECONDS = 0.2
_REPEAT_AFTER_SECONDS = 60.0
#: The errors that a broker returns while no coordinator is ready for a group.
_NO_COORDINATOR_ERRORS = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
#: The errors of librdkafka itself while it has no connection to a broker, or no answer.
_NO_ANSWER_ERRORS = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD"})
_MAX_REMEMBERED_TEXTS = 1000
_VARYING_TEXT = re.compile(r"\[[^\]]*#\w+-\d+\]|\(after \d+ms in state \w+\)|\d+ identical error\(s\) suppressed")


class ClusterUnavailable(OutsideFailure):
    """The Kafka cluster does not answer."""


class OncePerMinuteFilter(logging.Filter):
    """A log filter that passes each text once per minute, because librdkafka logs a failed connection repeatedly."""

    def __init__(self) -> None:
        super().__init__()
        self._last_logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record's text was not logged within the last minute."""
        # Texts that differ only in the failure's age or in the client count as the same text.
        text = _VARYING_TEXT.sub("", record.getMessage())
        if record.created - self._last_logged.get(text, -_REPEAT_AFTER_SECONDS) < _REPEAT_AFTER_SECONDS:
            return False
        if len(self._last_logged) > _MAX_REMEMBERED_TEXTS:
            self._last_logged.clear()
        self._last_logged[text] = record.created
        return True


@cache
def _librdkafka_logger() -> logging.Logger:
    logger = logging.getLogger("rdkafka")
    logger.addFilter(OncePerMinuteFilter())
    return logger


def confluent_config(settings: KafkaSettings, **extra: object) -> dict[str, Any]:
    """Return the properties for confluent-kafka's clients; ``extra`` adds properties, with ``_`` for ``.`` in names."""
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": CLIENT_ID,
        "logger": _librdkafka_logger(),
        # With the default, the broker would create every topic that a producer or admin client requests.
        "allow.auto.create.topics": False,
        # The client reconnects within a second after a broker is back.
        "reconnect.backoff.max.ms": 1000,
        # A host that fails closes no connection. By default a client would wait a minute for its answer, and five
        # minutes for new leaders.
        "socket.timeout.ms": 6000,
        "topic.metadata.refresh.interval.ms": 5000,
        **security.librdkafka_security(settings),
        **{name.replace("_", "."): value for name, value in extra.items()},
    }


def reader_config(settings: KafkaSettings, group_id: str) -> dict[str, Any]:
    """Return the properties for a confluent-kafka Consumer whose partitions and offsets are assigned by the caller."""
    return confluent_config(settings) | {
        "group.id": group_id,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        # Reports the end of a partition even if its last offsets have no records (transaction markers, deleted
        # records).
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 50,
        # The pause before the next fetch while the queue is full. In the default of a second the queue would run empty.
        "fetch.queue.backoff.ms": 10,
    }


def spark_options(settings: KafkaSettings, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the options for Spark's Kafka source and sink: the Java clients' properties with the prefix ``kafka.``."""
    properties = {"bootstrap.servers": settings.bootstrap_servers, **security.java(settings), **(extra or {})}
    return {f"kafka.{name}": value for name, value in properties.items()}


def check_reachable(settings: KafkaSettings, *, timeout: float = CONNECT_TIMEOUT_SECONDS) -> str:
    """Return the cluster's id once a broker answers.

    Raises OutsideFailure if a broker refuses the connection, and ClusterUnavailable if no broker answers in time.
    """
    errors: list[KafkaError] = []
    # librdkafka's own log is off, because the raised error contains its messages.
    admin = kafka_admin.AdminClient(confluent_config(settings) | {"error_cb": errors.append, "log_level": 0})
    by = time.monotonic() + timeout
    while True:
        try:
            return str(admin.list_topics(timeout=min(1.0, timeout)).cluster_id)
        except KafkaException as error:
            last = error.args[0]
        admin.poll(0)  # calls `error_cb`
        for event in (*errors, last):
            if (refusal := security.explain(event.str(), settings)) is not None:
                raise refusal
        if time.monotonic() > by:
            down = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - librdkafka's public constant
            reason = next((event.str() for event in errors if event.code() != down), None)
            if reason is None and (open_port := _first_open_server(settings.bootstrap_servers)):
                # Neither a TLS listener nor a paused broker answers a client without TLS, and no error is logged.
                raise ClusterUnavailable(
                    f"broker {open_port}: accepts connections but does not answer within {timeout:g} s; it hangs, or "
                    f"its listener wants SSL or SASL_SSL (kafka.security_protocol is {settings.security_protocol})"
                )
            raise ClusterUnavailable(security.no_answer_message(reason or last.str(), settings, timeout))


def is_temporary(error: KafkaError) -> bool:
    """True if a repeated request may succeed, because no broker or no coordinator has answered."""
    return error.retriable() or error.name() in _NO_ANSWER_ERRORS | _NO_COORDINATOR_ERRORS


def result_of(future: Future[_T], timeout: float | None = None) -> _T:
    """Return the result of an AdminClient request, or raise a copy of its error.

    The future's own error would be in a reference cycle through its traceback, often with the client. Python frees
    cycles on any thread, and librdkafka ends the process if its own thread frees the client.
    """
    error = future.exception(timeout)
    if error is not None:
        raise type(error)(*error.args)
    return future.result()


def require_same_cluster(settings: KafkaSettings, cluster_id: str) -> None:
    """Raise OutsideFailure if the cluster that answers has another id; a cluster that does not answer is no error."""
    try:
        current = check_reachable(settings)
    except ClusterUnavailable:
        return
    if current != cluster_id:
        raise OutsideFailure(
            f"cluster {settings.bootstrap_servers}: another cluster answers now (id {current}, before {cluster_id}); "
            "restart with the checkpoint and the history of this cluster"
        )


def wait_until_reachable(settings: KafkaSettings, stop: threading.Event) -> bool:
    """Wait until the cluster answers and return True; return False if ``stop`` is set first."""
    while not stop.wait(_RETRY_SECONDS):
        with suppress(ClusterUnavailable):
            check_reachable(settings, timeout=_PROBE_TIMEOUT_SECONDS)
            return True
    return False


def _first_open_server(servers: str) -> str | None:
    """Return the first server that accepts connections; None if no server accepts them."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), timeout=1):
            return server.strip()
    return None


def committed_offsets(
    consumer: confluent_kafka.Consumer, partitions: list[TopicPartition], timeout: float, stopping: Callable[[], bool]
) -> list[TopicPartition]:
    """Return the consumer group's committed offsets; wait while the coordinator moves or loads the group.

    Raises KafkaException for any other error, or if ``stopping()`` returned true before the coordinator answered.
    """
    while True:
        try:
            return consumer.committed(partitions, timeout=timeout)  # type: ignore[no-any-return] # untyped
        except KafkaException as error:
            if error.args[0].name() not in _NO_COORDINATOR_ERRORS or stopping():
                raise
            _log.warning("committed offsets: %s; trying again", error.args[0].str())
            time.sleep(_RETRY_SECONDS)


class Closeable(ABC):
    """A context manager that closes its connections at the end of its ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections to Kafka."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
