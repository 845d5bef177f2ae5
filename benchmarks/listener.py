"""Measures the latency of polls without the listener, with it, and while the monitor's cluster is unavailable.

Three consumers in separate processes read the same records in turns. A poll returns one record that the client has
already fetched.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from benchmarks._document import describe_machine, table, write_section
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.runtime import free_ports
from streaming.kafka.topics import ensure_topics
from streaming.listener import Listener
from streaming.settings.config import load
from tests.support.kafka import PROPERTIES
from tests.support.topics import create_topic

TOPIC = "orders"
LISTENER_VARIANTS = ("without", "with", "away")
CLIENT_LIBRARIES = ("confluent-kafka", "kafka-python")
#: Polls before the measurement, in which the group settles and the client fetches records.
_WARM_UP_POLLS = 2_000
_QUANTILES = {"median": 0.5, "99 %": 0.99, "99.9 %": 0.999}


def write_records(servers: str, records: int) -> None:
    """Create a topic of one partition with this many small records."""
    create_topic(servers, TOPIC)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 2 * records})
    for _ in range(records):
        producer.produce(TOPIC, b"x" * 100)
    producer.flush()


def confluent(servers: str, group: str, listener: Listener | None) -> Callable[[], object]:
    """Return a function that polls one record with confluent-kafka."""
    consumer_class: Any = Consumer if listener is None else listener.wrap(Consumer)
    config = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = consumer_class(config | {"enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    return lambda: consumer.poll(10)


def kafka_python(servers: str, group: str, listener: Listener | None) -> Callable[[], object]:
    """Return a function that polls one record with kafka-python."""
    consumer_class: Any = KafkaConsumer if listener is None else listener.wrap(KafkaConsumer)
    consumer = consumer_class(
        TOPIC, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    return lambda: consumer.poll(timeout_ms=10_000, max_records=1)


def measure_in_child(client: str, variant: str, servers: str, monitor: str, polls: int) -> None:
    """Measure one consumer; print the quantiles of its poll latencies in µs."""
    listener = None if variant == "without" else Listener(monitor)
    start = confluent if client == CLIENT_LIBRARIES[0] else kafka_python
    poll = start(servers, f"bench-{uuid4().hex[:8]}", listener)
    for _ in range(_WARM_UP_POLLS):
        poll()
    taken: list[int] = []
    for _ in range(polls):
        begin = time.perf_counter_ns()
        poll()
        taken.append(time.perf_counter_ns() - begin)
    taken.sort()
    print(json.dumps({name: taken[int(share * polls)] / 1000 for name, share in _QUANTILES.items()}))
    sys.stdout.flush()
    if listener is not None:
        listener.close(0)


def measure(client: str, servers: str, monitor_servers: dict[str, str], polls: int, runs: int) -> list[tuple[str, ...]]:
    """Return a row for each quantile: median latencies without and with the listener, and their ratio."""
    reports: dict[str, list[dict[str, float]]] = {variant: [] for variant in LISTENER_VARIANTS}
    for turn in range(runs):
        for place in range(len(LISTENER_VARIANTS)):
            variant = LISTENER_VARIANTS[(turn + place) % len(LISTENER_VARIANTS)]
            words = ["--child", client, variant, servers, monitor_servers[variant], "--polls", str(polls)]
            answer = subprocess.run(
                [sys.executable, "-m", "benchmarks.listener", *words], capture_output=True, text=True, check=True
            )
            reports[variant].append(json.loads(answer.stdout))
    rows: list[tuple[str, ...]] = []
    for quantile in _QUANTILES:
        values = {name: [report[quantile] for report in reports[name]] for name in LISTENER_VARIANTS}
        without, with_listener_us, base_times = (statistics.median(values[name]) for name in LISTENER_VARIANTS)
        range_text = f"{min(values['without']):.2f}–{max(values['without']):.2f}"
        figures = [f"{without:.2f}", range_text, f"{with_listener_us:.2f}", f"{with_listener_us / without:.2f}"]
        rows.append((client, quantile, *figures, f"{base_times:.2f}", f"{base_times / without:.2f}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--polls", type=int, default=50_000, help="polls of each consumer in each measured round")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--child", nargs=4, metavar=("CLIENT", "VARIANT", "SERVERS", "MONITOR"))
    parser.add_argument("--no-document", action="store_true", help="print the table without writing docs/benchmarks.md")
    options = parser.parse_args()
    if options.child:
        measure_in_child(*options.child, options.polls)
        return
    with EmbeddedBroker(properties=PROPERTIES) as broker:
        servers = broker.bootstrap_servers
        write_records(servers, options.polls + _WARM_UP_POLLS)
        ensure_topics(load(bootstrap_servers=servers))
        (closed_port,) = free_ports(1)
        monitor_servers = {"without": servers, "with": servers, "away": f"127.0.0.1:{closed_port}"}
        rows = [
            row
            for client in CLIENT_LIBRARIES
            for row in measure(client, servers, monitor_servers, options.polls, options.turns)
        ]
    header = ["client", "quantile", "without", "least–most", "with", "ratio", "monitor away", "ratio"]
    text = table(header, rows)
    print(text)
    if not options.no_document:
        write_section(
            "listener",
            f"## The listener\n\n`make bench-listener`: a poll of one fetched record, µs; {options.polls} polls in "
            f"each of {options.turns} turns, the median of these; each consumer in a process of its own, by turns. "
            "*Least–most* is how far the turns without the listener lie apart: a ratio within it is noise. "
            f"{describe_machine()}.\n\n{text}",
        )


if __name__ == "__main__":
    main()
