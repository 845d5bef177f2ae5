"""Measures ``collect`` while thousands of groups are stable: its CPU time, and its requests to the broker.

The broker treats the groups as real: each member has joined and owns one partition, and its session timeout is half an
hour. The collector runs with its default settings.
"""

import argparse
import re
import time
from urllib.request import urlopen

from benchmarks._document import describe_machine, table, write_section
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.runtime import free_ports
from tests.support.command import RunningCommand
from tests.support.kafka import PROPERTIES
from tests.support.load import cpu_seconds_of
from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import RawLeader
from tests.support.topics import create_topic

_SESSION_TIMEOUT_MS = 1_800_000
_TOPIC = "orders"
_PARTITIONS = 20
#: JVM option with which the broker logs each request.
_REQUEST_LOG = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
#: Requests that the offsets collector sends for progress and rebalances in progress.
_REQUESTS = ("LIST_GROUPS", "DESCRIBE_GROUPS", "LIST_OFFSETS")


def create_stable_groups(servers: str, groups: int) -> None:
    """Create stable groups of one member each; about ten groups consume the same topic."""
    topics = [create_topic(servers, f"{_TOPIC}-{number}", _PARTITIONS) for number in range(max(1, groups // 10))]
    for number in range(groups):
        leader = RawLeader(servers, f"team-{number % 40}.service-{number}", _SESSION_TIMEOUT_MS)
        topic = topics[number % len(topics)]
        leader.generation(subscription([topic]), assignment({topic: list(range(_PARTITIONS))}))
        leader.close()


def read_metric(port: int, name: str) -> float:
    """Return the value of one of the collector's metrics; 0 while the collector does not respond."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    except OSError:
        return 0.0
    match = re.search(rf"^rebalance_monitor_collect_{name} (\S+)$", text, re.MULTILINE)
    return float(match[1]) if match else 0.0


def measure(groups: int, seconds: float) -> tuple[str, ...]:
    """Measure a polling collector; return a table row: groups, CPU share, descriptions a second, maximum delay."""
    (port,) = free_ports(1)
    with EmbeddedBroker(properties=PROPERTIES) as broker:
        servers = broker.bootstrap_servers
        create_stable_groups(servers, groups)
        words = ("collect", "--by", "polling", "--bootstrap-servers", servers, "--metrics-port", str(port))
        with RunningCommand(*words) as collector:
            collector.start()
            while read_metric(port, "answers_total") < 1.1 * groups:  # each group was described, and is stable
                collector.check()
                time.sleep(1)
            begin = time.monotonic()
            cpu_before = cpu_seconds_of(collector.pid)
            answers = read_metric(port, "answers_total")
            time.sleep(seconds)
            elapsed = time.monotonic() - begin
            share = (cpu_seconds_of(collector.pid) - cpu_before) / elapsed
            rate = (read_metric(port, "answers_total") - answers) / elapsed
            overdue_seconds = read_metric(port, "overdue_seconds")
            collector.stop()
    return f"{groups}", f"{100 * share:.1f} %", f"{rate:.0f}", f"{overdue_seconds:.0f} s"


def measure_offsets(groups: int, seconds: float) -> tuple[str, ...]:
    """Measure ``collect --by offsets``; return a table row: groups, share of a CPU core, requests per second."""
    (port,) = free_ports(1)
    with EmbeddedBroker(properties=PROPERTIES, jvm_options=[_REQUEST_LOG]) as broker:
        create_stable_groups(broker.bootstrap_servers, groups)
        words = ("collect", "--bootstrap-servers", broker.bootstrap_servers, "--metrics-port", str(port))
        with RunningCommand(*words) as collector:
            collector.start()
            while read_metric(port, "events_total") < 2 * groups:  # each is published, and sampled once after its round
                collector.check()
                time.sleep(1)
            time.sleep(80)  # until the groups are at rest, and each has its topic's time of sampling
            begin = time.monotonic()
            cpu_before = cpu_seconds_of(collector.pid)
            log_bytes = broker.log_path.stat().st_size
            time.sleep(seconds)
            elapsed = time.monotonic() - begin
            share = (cpu_seconds_of(collector.pid) - cpu_before) / elapsed
            with broker.log_path.open("rb") as log:
                log.seek(log_bytes)
                text = log.read().decode(errors="replace")
            collector.stop()
    lines = [line for line in text.splitlines() if '"clientId":"rebalance-monitor"' in line]
    counts = [sum(f'"requestApiKeyName":"{name}"' in line for line in lines) for name in _REQUESTS]
    return f"{groups}", f"{100 * share:.1f} %", *(f"{count / elapsed:.1f}" for count in counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--seconds", type=float, default=60.0, help="duration for each number of groups")
    parser.add_argument("--no-document", action="store_true", help="only print the tables")
    options = parser.parse_args()
    rows = [measure_offsets(groups, options.seconds) for groups in options.groups]
    offsets = table(["classic groups at rest", "of a core", *(f"{name} a second" for name in _REQUESTS)], rows)
    print(offsets)
    rows = [measure(groups, options.seconds) for groups in options.groups]
    table_text = table(["classic groups at rest", "of a core", "descriptions a second", "latest overdue"], rows)
    print(table_text)
    if not options.no_document:
        text = (
            "## Groups at rest\n\n`make bench-polling`: `collect` with its defaults, one broker; each group has "
            f"one member and {_PARTITIONS} partitions. {describe_machine()}.\n\nBy offsets; one ListOffsets request a "
            f"second is for the offsets topic itself:\n\n{offsets}\n\nBy polling, at most 50 requests a second:"
            f"\n\n{table_text}"
        )
        write_section("polling", text)


if __name__ == "__main__":
    main()
