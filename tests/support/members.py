"""Real group members for tests: each polls in a thread of its own and writes down what its callbacks tell."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, Self

from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener

Owned = frozenset[tuple[str, int]]


class Member:
    """A confluent-kafka consumer; ``reports`` is what it owned after each rebalance callback."""

    def __init__(
        self, servers: str, group: str, client_id: str, topics: Sequence[str], **config: Any
    ) -> None:
        self.client_id = client_id
        self.reports: list[Owned] = []
        self._owned: Owned = frozenset()
        self._topics = list(topics)
        self._cooperative = (
            config.get("partition.assignment.strategy") == "cooperative-sticky"
            or config.get("group.protocol") == "consumer"
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "topic.metadata.refresh.interval.ms": 1000,
            }
            | config
        )
        self._stop = threading.Event()
        self._close = True
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)
        self._thread.start()

    @property
    def owned(self) -> Owned:
        return self._owned

    def close(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        self._consumer.subscribe(
            self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._stop.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        new = frozenset((one.topic, one.partition) for one in partitions)
        self._owned = self._owned | new if self._cooperative else new
        self.reports.append(self._owned)

    def _revoked(self, _: Consumer, partitions: list[Any]) -> None:
        self._owned -= frozenset((one.topic, one.partition) for one in partitions)
        self.reports.append(self._owned)


class PythonMember:
    """A kafka-python consumer; ``generations`` maps each generation it was in to what it was assigned."""

    def __init__(
        self, servers: str, group: str, client_id: str, topics: Sequence[str], **config: Any
    ) -> None:
        self.client_id = client_id
        self.generations: dict[int, Owned] = {}
        self._topics = list(topics)
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            client_id=client_id,
            auto_commit_interval_ms=200,
            **config,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        member = self

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                del revoked

            def on_partitions_assigned(self, assigned: Any) -> None:
                generation = member._consumer._coordinator._generation.generation_id
                member.generations[generation] = frozenset((one.topic, one.partition) for one in assigned)

        # A leader without metadata of its topic gives out nothing, and may not see later that there is some.
        for topic in self._topics:
            self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe(self._topics, listener=Listener())
        while not self._stop.is_set():
            self._consumer.poll(timeout_ms=50)
        self._consumer.close()


_CRASHING = """
import sys, json
from confluent_kafka import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe(sys.argv[2:], on_assign=lambda _, partitions: print(len(partitions), flush=True))
while True:
    consumer.poll(0.1)
"""


class CrashingMember:
    """A confluent-kafka consumer in a process of its own, which can be killed."""

    def __init__(
        self, servers: str, group: str, client_id: str, topics: Sequence[str], **config: Any
    ) -> None:
        import json

        settings = {"bootstrap.servers": servers, "group.id": group, "client.id": client_id}
        settings |= {"auto.commit.interval.ms": 200, "auto.offset.reset": "earliest"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CRASHING, json.dumps(settings | config), *topics], stdout=subprocess.PIPE
        )

    def await_assignment(self) -> None:
        """Return once it was given partitions."""
        assert self._process.stdout is not None
        while int(self._process.stdout.readline()) == 0:
            pass

    def crash(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()
