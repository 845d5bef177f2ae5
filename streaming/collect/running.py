"""What ends a collector, and how it says so."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from streaming.kafka.access import refusal
from streaming.kafka.clients import ClusterUnavailable

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


def run_until(stop: threading.Event, settings: Settings, collect: Callable[[], None]) -> None:
    """Call ``collect`` until ``stop`` is set; it returns before that when it has to begin anew.

    Raises:
        ClusterUnavailable: the cluster does not answer.
        NotAllowed: an ACL is missing, or was taken away.
    """
    from confluent_kafka import KafkaException

    try:
        collect()
        while not stop.is_set():
            collect()
        _log.info("stopped")
    except KafkaException as error:
        raise refusal(error.args[0], settings, "collect") or ClusterUnavailable(
            f"bootstrap_servers {settings.kafka.bootstrap_servers}: {error.args[0].str()}; "
            "started again, the collector goes on where it stopped"
        ) from error
