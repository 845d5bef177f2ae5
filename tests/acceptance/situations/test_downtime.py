"""Reported bounds of downtime contain the downtime that is measured from the times of consumed records.

``DOWNTIME_ROUNDS=15`` for the full comparison, 135 rounds of nine groups; with ``WRITE_DOWNTIME=1`` its table goes
into ``docs/explanation/downtime.md``.
"""

import os
from collections.abc import Iterator
from math import floor
from pathlib import Path

import pytest

from streaming.kafka.broker import EmbeddedBroker
from tests.acceptance.situations.comparison import EVIDENCE, DowntimeLine, compared, line, table
from tests.acceptance.situations.groups import JavaGroup, PythonGroup, apply_changes_to_groups, traffic
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.kafka import PROPERTIES
from tests.support.processes import process_lock

# Needs an idle machine: a member without processor time consumes nothing.
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(900)]

ROUNDS = int(os.environ.get("DOWNTIME_ROUNDS", "4"))
#: From this many on, medians describe the bounds rather than other load of the machine.
MIN_MEDIAN_ROUNDS = 10
DOCUMENT = Path(__file__).parents[3] / "docs/explanation/downtime.md"
#: A round in which a member got no processor time for this long is not measured.
MAX_CPU_WAIT_MS = 1000
#: Names of the protocols in the table.
NAMES = {"consumer": "KIP-848", "static": "eager, static"}
CLIENTS = {
    "java": ("eager", "static", "cooperative", "consumer"),
    "confluent": ("eager", "cooperative", "consumer"),
    "kafka-python": ("eager", "cooperative"),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    with process_lock("crowd"), EmbeddedBroker(properties=PROPERTIES) as broker:
        yield broker


@pytest.fixture(scope="module")
def lines() -> Iterator[dict[str, list[DowntimeLine]]]:
    """Yield a dict for the lines of the downtime table, by client; afterwards, write the table into the document."""
    lines_by_client: dict[str, list[DowntimeLine]] = {}
    yield lines_by_client
    if os.environ.get("WRITE_DOWNTIME") and lines_by_client.keys() == CLIENTS.keys():
        begin, end = "<!-- downtime: start -->\n", "<!-- downtime: end -->"
        before, _, rest = DOCUMENT.read_text().partition(begin)
        after = rest.partition(end)[2]
        DOCUMENT.write_text(
            before
            + begin
            + table(line for round_count in lines_by_client.values() for line in round_count)
            + end
            + after
        )


@pytest.mark.parametrize("client", CLIENTS)
def test_measured_downtime_lies_inside_the_bounds(
    cluster: EmbeddedBroker, lines: dict[str, list[DowntimeLine]], client: str, tmp_path: Path
) -> None:
    servers, protocols = cluster.bootstrap_servers, CLIENTS[client]
    log_options = ("--coordinator-log", str(cluster.log_path))
    with (
        traffic(servers) as topic,
        CollectorProcess(servers, f"{client}-.*", *log_options, log=tmp_path / "collect.log") as collecting,
    ):
        prefix = collecting.settings.topics.prefix
        played = apply_changes_to_groups(
            [
                JavaGroup(protocol, servers, topic, tmp_path)
                if client == "java"
                else PythonGroup(client, protocol, servers, topic, tmp_path, prefix=prefix)
                for protocol in protocols
            ],
            ROUNDS,
        )
        assert collecting.stop() == 0, collecting.output()
    measured_lines, items_outside_bounds = [], []
    for changes, protocol in zip(played, protocols, strict=True):
        events = collecting.events(changes.group)
        for evidence, wanted in EVIDENCE.items():
            if (evidence == "commits, log" and protocol not in ("eager", "static")) or (
                evidence == "commits, listener" and client == "java"
            ):
                continue
            partitions = compared(changes, filter(wanted, events))
            if ROUNDS < MIN_MEDIAN_ROUNDS:
                partitions = [item for item in partitions if item.pause < MAX_CPU_WAIT_MS]
                if not partitions:
                    continue
            measured_lines.append(line(f"{client}, {NAMES.get(protocol, protocol)}", evidence, ROUNDS, partitions))
            items_outside_bounds += [item for item in partitions if not item.inside]
    lines[client] = measured_lines
    assert measured_lines, "members were starved in every round: nothing was measured"
    round_count = sum(line.rounds for line in measured_lines)
    assert sum(line.measurable_rounds for line in measured_lines) >= floor(0.95 * round_count), items_outside_bounds
    if ROUNDS >= MIN_MEDIAN_ROUNDS:
        assert sum(line.inside for line in measured_lines) >= 0.95 * round_count, items_outside_bounds
        lines_with_log_evidence = [
            line for line in measured_lines if line.evidence != "commits" or NAMES["consumer"] in line.group
        ]
        assert not [line for line in lines_with_log_evidence if line.excess_ms > 0]
