"""The reported bounds of a rebalance's cost contain the true cost, computed from all sent and consumed records.

``make test-costs`` runs ten groups of three client libraries at two commit intervals, and writes the tables of
``docs/explanation/episodes.md``.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streaming.kafka.broker import EmbeddedBroker
from streaming.records.events import Event
from tests.acceptance.situations import cost_table
from tests.acceptance.situations.comparison import EVIDENCE
from tests.acceptance.situations.cost_comparison import ComparedCost, compared, summary
from tests.acceptance.situations.cost_groups import CLIENTS, change_all_groups
from tests.acceptance.situations.true_costs import record_times
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.kafka import LONG_BROKER_SESSION, PROPERTIES, unique_name
from tests.support.live_stream import LiveStream
from tests.support.processes import process_lock
from tests.support.topics import configure_topic, create_topic
from tests.support.wait import TIMEOUT_SECONDS, eventually

_log = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(1200)]

#: Auto-commit intervals, ms: a short one, and the clients' default.
COMMIT_INTERVALS_MS = (500, 5000)
#: Least number of changes at each interval.
MIN_CHANGE_COUNT = 100
#: Retention deletes old segments soon, not only after five minutes.
RETENTION = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
HOUR_MS = 3_600_000
GROUPS = [(client, protocol) for client, protocols in CLIENTS.items() for protocol in protocols]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    with process_lock("crowd"), EmbeddedBroker(properties=PROPERTIES | LONG_BROKER_SESSION | RETENTION) as broker:
        yield broker


@pytest.fixture(scope="module")
def costs_by_interval() -> Iterator[dict[int, list[ComparedCost]]]:
    """Yield a dict for the compared costs by commit interval; at the end, the tables are written from it."""
    costs: dict[int, list[ComparedCost]] = {}
    yield costs
    if os.environ.get("WRITE_COSTS") and costs.keys() == {*COMMIT_INTERVALS_MS}:
        cost_table.write(costs)


@pytest.mark.parametrize("commit_ms", COMMIT_INTERVALS_MS)
def test_true_cost_lies_inside_the_bounds(
    cluster: EmbeddedBroker, costs_by_interval: dict[int, list[ComparedCost]], commit_ms: int, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    with CollectorProcess(
        servers, "(java|confluent|kafka-python|connect)-.*", log=tmp_path / "collect.log"
    ) as collecting:
        prefix = collecting.settings.topics.prefix
        played = change_all_groups(servers, tmp_path, commit_ms, GROUPS, prefix=prefix)
        assert collecting.stop() == 0, collecting.output()
    events: dict[str, list[Event]] = defaultdict(list)
    for event in filter(EVIDENCE["commits"], collecting.events()):
        events[event.data.group_id].append(event)
    costs = [
        item
        for (client, protocol), future in played.items()
        for topic, changes in [future.result()]
        for item in compared(client, protocol, changes, events[changes.group], record_times(servers, topic))
    ]
    costs_by_interval[commit_ms] = costs
    items_outside_bounds = [item for item in costs if not (item.inside and item.is_each_inside)]
    numbers = summary(costs)
    _log.info("%s; outside: %s", numbers, items_outside_bounds)
    assert numbers.changes >= MIN_CHANGE_COUNT, numbers
    assert min(numbers.counts_by_figure.values()) >= 0.95 * numbers.changes, (numbers, items_outside_bounds)
    assert numbers.inside_per_partition >= 0.95 * numbers.changes, (numbers, items_outside_bounds)


def test_records_deleted_by_retention_are_counted(cluster: EmbeddedBroker, tmp_path: Path) -> None:
    servers, group = cluster.bootstrap_servers, unique_name("stopped")
    topic = create_topic(servers, unique_name("retained"), retention_ms=-1, segment_ms=60_000)
    producer = Producer({"bootstrap.servers": servers})
    now = time.time_ns() // 1_000_000
    for records, at in ((400, now - 2 * HOUR_MS), (100, now)):  # two segments, as their times are far apart
        for _ in range(records):
            producer.produce(topic, b"v", partition=0, timestamp=at)
        assert producer.flush(TIMEOUT_SECONDS) == 0
    collecting = CollectorProcess(servers, group, log=tmp_path / "collect.log")
    with collecting, LiveStream(collecting.settings) as stream:
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": servers} | settings)
        consumer.subscribe([topic])
        assert sum(message.error() is None for message in consumer.consume(90, TIMEOUT_SECONDS)) == 90
        consumer.commit(offsets=[TopicPartition(topic, 0, 90)], asynchronous=False)
        eventually(lambda: stream.ids(group))
        consumer.close()
        configure_topic(servers, topic, retention_ms=HOUR_MS)
        eventually(lambda: stream.incidents(group))
        [incident] = stream.incidents(group)
    assert (incident.kind, incident.partitions) == ("data-loss", {topic: [0]})
    assert incident.story.startswith(f"Retention deleted 310 records of {topic} 0 before they were consumed")
