"""Helpers that run a collector in a thread, over the cluster in memory."""

import threading
from collections.abc import Callable
from typing import Any, Self

from confluent_kafka import KafkaError
from prometheus_client import CollectorRegistry

from streaming.collect.lifecycle import BaseCollector
from streaming.collect.metrics import PollMetrics
from streaming.collect.polling.collector import PollingCollector
from streaming.settings.config import CollectSettings, Settings
from streaming.settings.connection import KafkaSettings
from tests.support.wait import eventually

#: The error that DescribeGroups returns for a group without a coordinator.
NO_COORDINATOR_ERROR = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "no coordinator")
#: Partitions of the topic ``t`` by member, for a group of one member and for a group of two.
ONE_MEMBER = {"a": [("t", 0), ("t", 1)]}
TWO_MEMBERS = {"a": [("t", 0)], "b": [("t", 1)]}


class CollectorThread:
    """A collector in a thread; the end of the block stops the collector cleanly."""

    def __init__(self, make: Callable[[threading.Event, CollectorRegistry], BaseCollector]) -> None:
        self._stop, self._registry = threading.Event(), CollectorRegistry()
        self._collector = make(self._stop, self._registry)
        self._thread = threading.Thread(target=self._run)
        self.error: Exception | None = None

    def _run(self) -> None:
        try:
            self._collector.run()
        except Exception as error:  # noqa: BLE001 - the test checks it
            self.error = error

    def figure(self, name: str) -> float:
        return self._registry.get_sample_value(f"rebalance_monitor_collect_{name}") or 0

    def start(self) -> None:
        self._thread.start()

    def ended(self) -> Exception | None:
        """Wait until the collector has ended, and return its error."""
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self.ended() is None


class PollingThread(CollectorThread):
    """A polling collector in a thread."""

    def __init__(self, **collect: Any) -> None:
        short_intervals = {"poll_quick_ms": 50, "poll_interval_ms": 200, "poll_requests_per_second": 1000}
        settings = Settings(
            kafka=KafkaSettings(bootstrap_servers="memory:1"),
            collect=CollectSettings(**{"by": "polling", "metadata_interval_ms": 100, **short_intervals, **collect}),
        )
        super().__init__(lambda stop, registry: PollingCollector(settings, stop, PollMetrics(registry)))

    def await_descriptions(self, times: int = 3) -> bool:
        """Wait until the collector has received this many more group descriptions, and return true."""
        before = self.figure("answers_total")
        return bool(eventually(lambda: self.figure("answers_total") >= before + times))
