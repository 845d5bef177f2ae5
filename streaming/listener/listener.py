"""What an application takes into its hands: wraps consumer classes, and ends with them."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any, TypeVar

from assignors.errors import BadInput
from streaming.listener.outbox import Outbox

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_Consumer = TypeVar("_Consumer")
#: Where the classes of each client are at home.
_CONFLUENT = ("confluent_kafka", "cimpl")
_KAFKA_PYTHON = ("kafka",)


class NotAConsumer(BadInput):
    """Listener.wrap: takes a consumer class of confluent-kafka or kafka-python."""


class Listener:
    """Tells the monitor of an application's consumers. One serves them all; it is closed when the process ends.

    Args:
        monitor: bootstrap servers of the monitor's cluster; or all settings (:func:`streaming.load`), where it is
            secured.
        topic_prefix: of the monitor's topics.

    Raises:
        InvalidSettings: a setting is wrong. Nothing is raised afterwards.
    """

    def __init__(self, monitor: str | Settings, *, topic_prefix: str | None = None) -> None:
        if isinstance(monitor, str):
            from streaming.settings.config import load

            monitor = load(bootstrap_servers=monitor, topic_prefix=topic_prefix)
        self._outbox = Outbox(monitor)
        atexit.register(self.close)

    def wrap(self, consumer: type[_Consumer]) -> type[_Consumer]:
        """A class to use in place of this one. What it takes and does is the same; its ``poll`` is the very same.

        Args:
            consumer: ``confluent_kafka.Consumer``, ``kafka.KafkaConsumer``, or a class that extends one of them.

        Raises:
            NotAConsumer: it is neither.
        """
        homes = {base.__module__.partition(".")[0] for base in consumer.__mro__}
        wrapped: Any
        if homes.intersection(_CONFLUENT):
            from streaming.listener.confluent import wrapped
        elif homes.intersection(_KAFKA_PYTHON):
            from streaming.listener.kafka_python import wrapped
        else:
            raise NotAConsumer(f"{consumer.__name__} is no consumer of confluent-kafka or kafka-python")
        return wrapped(consumer, self._outbox)  # type: ignore[no-any-return] # a class made while running

    def close(self, timeout: float = 2.0) -> None:
        """Send what consumers have told, their leaves above all; after ``timeout`` seconds it is given up."""
        atexit.unregister(self.close)
        self._outbox.close(timeout)
