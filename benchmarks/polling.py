"""Cost of ``collect --by polling`` while thousands of groups are stable: its CPU time, as a share of one core.

The groups are real to the broker: members that joined, were assigned a partition each, and have half an hour until
their sessions end. The collector is the command as a person runs it, with its defaults.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks._document import machine, put, table
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.runtime import free_ports
from tests.support.command import Running
from tests.support.kafka import PROPERTIES
from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import RawLeader

_HALF_AN_HOUR_MS = 1_800_000
_TOPIC = "orders"


def rest(servers: str, groups: int) -> None:
    """Groups of one member each, at rest."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result()
    for number in range(groups):
        leader = RawLeader(servers, f"team-{number % 40}.service-{number}", _HALF_AN_HOUR_MS)
        leader.generation(subscription([_TOPIC]), assignment({_TOPIC: [0]}))
        leader.close()


def figure(port: int, name: str) -> float:
    """A metric of the collector; 0 while it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    except OSError:
        return 0.0
    found = re.search(rf"^rebalance_monitor_collect_{name} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(groups: int, seconds: float) -> tuple[str, ...]:
    """One row: groups, share of a core, descriptions a second, how late the latest is."""
    (port,) = free_ports(1)
    with EmbeddedBroker(properties=PROPERTIES) as broker:
        servers = broker.bootstrap_servers
        rest(servers, groups)
        words = ("collect", "--by", "polling", "--bootstrap-servers", servers, "--metrics-port", str(port))
        with Running(*words) as collector:
            collector.start()
            while figure(port, "answers_total") < 1.1 * groups:  # each was seen, and is at rest
                collector.check()
                time.sleep(1)
            began, used, answers = time.monotonic(), cpu_seconds(collector.pid), figure(port, "answers_total")
            time.sleep(seconds)
            took = time.monotonic() - began
            share = (cpu_seconds(collector.pid) - used) / took
            rate = (figure(port, "answers_total") - answers) / took
            late = figure(port, "overdue_seconds")
            collector.stop()
    return f"{groups}", f"{100 * share:.1f} %", f"{rate:.0f}", f"{late:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--seconds", type=float, default=60.0, help="of measuring, for each number of groups")
    parser.add_argument("--no-document", action="store_true", help="print only")
    options = parser.parse_args()
    rows = [measure(groups, options.seconds) for groups in options.groups]
    found = table(["classic groups at rest", "of a core", "descriptions a second", "latest overdue"], rows)
    print(found)
    if not options.no_document:
        put(
            "polling",
            "## Polling groups at rest\n\n`make bench-polling`: `collect --by polling` with its defaults (50 "
            f"requests a second), one broker. {machine()}.\n\n{found}",
        )


if __name__ == "__main__":
    main()
