"""One real consumer that reports each rebalance callback as a JSON line on standard output.

``python -m streaming.demo.consumer --bootstrap-servers HOST:PORT --group G --topics a,b --name c1``

A line is ``{"at", "name", "memberId", "generation", "event", "partitions", "owned", "closing"}``. ``event`` is
``assigned``, ``revoked`` or ``lost``; ``owned`` has the consumer's partitions after the event; ``closing`` is true if
the consumer is leaving. After SIGTERM the consumer leaves the group and ends. SIGKILL is a crash, which the coordinator
detects by the session timeout.
"""

import argparse
import sys
import threading
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from streaming.demo.agreement import ReportLine
from streaming.listener import Listener
from streaming.listener.confluent import librdkafka_generation
from streaming.process.children import end_with_parent
from streaming.process.service import stop_on_signals
from streaming.records.events import Partitions


def _partitions_by_topic(partitions: Iterable[tuple[str, int]]) -> Partitions:
    shares: Partitions = {}
    for topic, partition in sorted(partitions):
        shares.setdefault(topic, []).append(partition)
    return shares


class Report:
    """Tracks the consumer's partitions, and writes one line per callback.

    ``replaces_all``: True if an assignment contains all of the consumer's partitions (eager), not only new ones.
    """

    def __init__(self, name: str, stop: threading.Event, *, replaces_all: bool) -> None:
        self._name, self._stop, self._replaces_all = name, stop, replaces_all
        self._share: set[tuple[str, int]] = set()

    def write(self, event: str, partitions: Iterable[Any], member_id: str, generation: int) -> None:
        """Update the tracked partitions after a rebalance callback, and write the callback's line."""
        changed = {(partition.topic, partition.partition) for partition in partitions}
        if event != "assigned":
            self._share -= changed
        else:
            self._share = changed if self._replaces_all else self._share | changed
        shares, at_ms = (_partitions_by_topic(changed), _partitions_by_topic(self._share)), time.time_ns() // 1_000_000
        line = ReportLine(at_ms, self._name, member_id, generation, event, *shares, closing=self._stop.is_set())
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
        sys.stdout.buffer.flush()


def _add_listener(consumer: type[Any], args: argparse.Namespace) -> type[Any]:
    if args.listener is None:
        return consumer
    return Listener(args.listener, topic_prefix=args.listener_prefix).wrap(consumer)


def _assignor(args: argparse.Namespace) -> str:
    return args.assignor or ("cooperative-sticky" if args.protocol == "cooperative" else "range")


def run_confluent(args: argparse.Namespace, stop: threading.Event) -> None:
    """Run a confluent-kafka consumer with range (eager), cooperative-sticky, or KIP-848."""
    from confluent_kafka import Consumer, KafkaException

    config: dict[str, Any] = {
        "bootstrap.servers": args.bootstrap_servers,
        "group.id": args.group,
        "client.id": args.name,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 2,
    }
    if args.instance_id:
        config["group.instance.id"] = args.instance_id
    if args.protocol == "consumer":
        config["group.protocol"] = "consumer"
    else:
        config["session.timeout.ms"] = args.session_timeout_ms
        config["heartbeat.interval.ms"] = args.session_timeout_ms // 5
        config["partition.assignment.strategy"] = _assignor(args)
    config |= dict(setting.split("=", 1) for setting in args.property)
    report = Report(args.name, stop, replaces_all=args.protocol == "eager")

    def write(event: str, consumer: Any, partitions: Iterable[Any]) -> None:
        try:
            member, metadata = consumer.memberid() or "", consumer.consumer_group_metadata() or b""
        except (KafkaException, RuntimeError):  # A consumer that is closing has no group metadata.
            member, metadata = "", b""
        report.write(event, partitions, member, librdkafka_generation(metadata))

    consumer = _add_listener(Consumer, args)(config)
    events = {"on_assign": "assigned", "on_revoke": "revoked", "on_lost": "lost"}
    consumer.subscribe(args.topics.split(","), **{name: partial(write, event) for name, event in events.items()})
    try:
        while not stop.is_set():
            consumer.poll(0.1)
    finally:
        consumer.close()


def run_kafka_python(args: argparse.Namespace, stop: threading.Event) -> None:
    """Run a kafka-python consumer under the classic protocol."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    strategies = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    strategies |= {"cooperative-sticky": CooperativeStickyAssignor}
    consumer = _add_listener(KafkaConsumer, args)(
        bootstrap_servers=args.bootstrap_servers,
        group_id=args.group,
        client_id=args.name,
        group_instance_id=args.instance_id,
        session_timeout_ms=args.session_timeout_ms,
        heartbeat_interval_ms=args.session_timeout_ms // 5,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
        # Otherwise a broker could recreate a deleted topic with one partition.
        allow_auto_create_topics=False,
        partition_assignment_strategy=[strategies[_assignor(args)]],
    )
    report = Report(args.name, stop, replaces_all=args.protocol == "eager")

    def write(event: str, partitions: Iterable[Any]) -> None:
        metadata = consumer.group_metadata()
        report.write(event, partitions, metadata.member_id, metadata.generation_id)

    class ReportListener(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python has no types
        on_partitions_assigned = staticmethod(partial(write, "assigned"))
        on_partitions_revoked = staticmethod(partial(write, "revoked"))
        on_partitions_lost = staticmethod(partial(write, "lost"))

    # A leader without metadata of its topic assigns no partitions, and may not notice the metadata later.
    for topic in args.topics.split(","):
        consumer.partitions_for_topic(topic)
    consumer.subscribe(args.topics.split(","), listener=ReportListener())
    try:
        while not stop.is_set():
            consumer.poll(timeout_ms=100)
    finally:
        consumer.close()


def main() -> None:
    """Run one consumer until SIGTERM or SIGINT, then let it leave the group."""
    parser = argparse.ArgumentParser(prog="python -m streaming.demo.consumer", description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topics", required=True, help="names of topics, separated by commas")
    parser.add_argument("--name", default="consumer", help="client id; the member id starts with it")
    parser.add_argument("--client", choices=["confluent", "kafka-python"], default="confluent")
    parser.add_argument("--protocol", choices=["eager", "cooperative", "consumer"], default="eager")
    parser.add_argument("--assignor", choices=["range", "roundrobin", "cooperative-sticky"])
    parser.add_argument("--instance-id")
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    parser.add_argument("--listener", metavar="SERVERS", help="bootstrap servers of the monitor's topics")
    parser.add_argument("--listener-prefix", default="", help="prefix of the monitor's topics")
    parser.add_argument("--property", action="append", default=[], metavar="NAME=VALUE", help="consumer property")
    args = parser.parse_args()
    end_with_parent()
    (run_confluent if args.client == "confluent" else run_kafka_python)(args, stop_on_signals())


if __name__ == "__main__":
    main()
