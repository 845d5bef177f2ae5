"""Regression tests of a running monitor under faults: its status is always right, and no diff is lost.

One broker with the usual settings (it creates each topic that a client requests); ``collect``, ``stream`` and ``serve``
as users start them; the page in a browser.
"""

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.metadata import request_identities
from streaming.kafka.runtime import free_ports
from streaming.records.codec import encode
from tests.support.browser import chromium, open_page
from tests.support.command import run
from tests.support.disks import full, small_disk
from tests.support.feed import diff_id, message
from tests.support.histories import Group, sample
from tests.support.kafka import PROPERTIES, eventually, read, unique_name
from tests.support.monitor import TIMEOUT_SECONDS, Monitor, running_monitor
from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import RawLeader
from tests.support.serving import Publisher
from tests.support.topics import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.browser]

#: Seconds within which a silent broker, a deleted topic or a full disk is reported.
REPORT_SECONDS = 15.0
#: An assignment whose partitions are null, as no client writes it: version 0, one topic "t0".
NULL_PARTITIONS = bytes.fromhex("0000 00000001 0002") + b"t0" + bytes.fromhex("ffffffff ffffffff")


RETENTION_HOURS = 1000
EXPIRED_DIFFS = Group("ancient", {"t": 12}, 1).diffs(40)
#: Ids of diffs that this test writes itself.
TEST_DIFF_IDS = {*map(diff_id, EXPIRED_DIFFS), "far-away"}


def backdate_rounds(history: Path) -> None:
    """Change the times of stored rounds: the first is older than the retention time now, and one more every 30 s."""
    begin = int(time.time()) - RETENTION_HOURS * 3600 - 60
    with closing(sqlite3.connect(history)) as file, file:
        for number, diff in enumerate(EXPIRED_DIFFS):
            stored = (begin + 30 * number) * 1000
            update_result = file.execute("UPDATE rounds SET stored = ? WHERE ce_id = ?", (stored, diff_id(diff)))
            assert update_result.rowcount == 1


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    topic_prefix = f"{unique_name('faults')}."
    with (
        small_disk(tmp_path / "disk") as disk,
        EmbeddedBroker(
            data_dir=tmp_path / "kafka", properties={**PROPERTIES, "auto.create.topics.enable": "true"}
        ) as broker,
        running_monitor(broker, tmp_path, topic_prefix, history=disk) as monitor,
    ):
        monitor.test_diff_ids |= TEST_DIFF_IDS
        yield monitor
        for component in (monitor.stream, monitor.collect, monitor.serve):
            component.check()
            assert "Traceback" not in component.output()


def start_second_server(monitor: Monitor, database: Path) -> tuple[int, str]:
    """Return the exit status and the only log line of a second server that uses the same history."""
    common = monitor.common
    done = run("serve", *common, "--port", str(free_ports(1)[0]), "--database", str(database))
    (line,) = done.stderr.splitlines()
    return done.returncode, line


def unrelated_file_is_kept(monitor: Monitor) -> None:
    notes = monitor.folder / "notes.txt"
    notes.write_text("my notes\n")
    status, line = start_second_server(monitor, notes)
    assert (status, "name another file" in line) == (2, True), line
    assert notes.read_text() == "my notes\n"


def second_server_is_rejected(monitor: Monitor) -> None:
    status, line = start_second_server(monitor, monitor.history)
    assert (status, "another `serve` uses it" in line) == (3, True), line
    monitor.await_status(None)


def far_future_diff_is_rejected_alone(monitor: Monitor) -> None:
    invalid_message = message(sample(group_id="odd"))
    value = encode(sample(group_id="odd", timestamp=123454321)).replace(b"123454321", str(2**70).encode())
    headers = [(name, b"far-away" if name == "ce_id" else text) for name, text in invalid_message["headers"]]
    publisher = Publisher(monitor.serve)
    publisher.producer.produce(monitor.diffs, key=b"odd", value=value, headers=headers)
    publisher.put([])
    start_second_server = "rebalance_monitor_feed_refused_records_total", ""
    eventually(lambda: monitor.metrics()[start_second_server] == 1)
    assert monitor.serve.ask("/api/v1/groups/odd")[0] == 404
    monitor.await_status(None)


def full_disk_is_reported_when_retention_runs(monitor: Monitor, disk: Path, topic: str) -> None:
    """Fill the disk until retention reports it, while a client writes an assignment that the collector can't read."""
    settings = monitor.serve.settings
    assert monitor.serve.stop() == 0
    backdate_rounds(monitor.history)
    monitor.serve.command += ["--keep", f"{RETENTION_HOURS}h"]
    monitor.serve.start().await_status("/ready", 200)  # retention runs now, and in a minute
    left = TEST_DIFF_IDS & {*monitor.serve.ids()}
    assert left
    with RawLeader(monitor.servers, "poison", 900_000) as leader:
        with full(disk):
            assert leader.generation(subscription([topic]), NULL_PARTITIONS) == 1
            eventually(lambda: read(monitor.servers, settings.topics.dead_letters))
            monitor.await_status("history-blocked", 60 + REPORT_SECONDS)
            assert {*monitor.serve.ids()} >= {*monitor.expected()}
        monitor.await_status(None)
        # The failed write may have been another topic's record: then retention runs only a minute later.
        eventually(lambda: TEST_DIFF_IDS & {*monitor.serve.ids()} < left, timeout=60 + REPORT_SECONDS)
        (letter,) = read(monitor.servers, settings.topics.dead_letters)
        assert dict(letter.headers())["dlt_topic"] == b"__consumer_offsets"
        assert leader.generation(subscription([topic]), assignment({topic: [0, 1]})) == 2
        eventually(lambda: monitor.serve.ask("/api/v1/groups/poison")[0] == 200, timeout=TIMEOUT_SECONDS)
        leader.end()
    monitor.collect.check()


def full_disk_at_the_start_has_no_effect(monitor: Monitor, disk: Path) -> None:
    ids = monitor.ids()
    assert monitor.serve.stop() == 0
    with full(disk):
        assert monitor.serve.start(wait=False).ended() == 3
    monitor.serve.start()
    monitor.await_status(None)
    assert monitor.ids()[: len(ids)] == ids


def unresponsive_broker_is_reported(monitor: Monitor) -> None:
    assert monitor.broker.pid is not None
    os.kill(monitor.broker.pid, signal.SIGSTOP)
    try:
        monitor.await_status("kafka-unreachable", 2 * REPORT_SECONDS)
        assert monitor.serve.ids()
    finally:
        os.kill(monitor.broker.pid, signal.SIGCONT)
    monitor.await_status(None)


def deleted_topic_after_a_restart_is_reported_and_healed(monitor: Monitor) -> None:
    monitor.quiet()  # records written while a topic is deleted are deleted with it
    count = monitor.complete()
    admin = AdminClient({"bootstrap.servers": monitor.servers})
    partitions = len(admin.list_topics(timeout=TIMEOUT_SECONDS).topics[monitor.diffs].partitions)
    admin.delete_topics([monitor.diffs])[monitor.diffs].result(TIMEOUT_SECONDS)
    eventually(lambda: f"topic {monitor.diffs} was deleted" in monitor.stream.output(), timeout=REPORT_SECONDS)
    assert monitor.stream.ended() == 3
    monitor.await_status("topic-missing", REPORT_SECONDS)
    assert request_identities(monitor.serve.settings.kafka, [monitor.diffs]) == {monitor.diffs: None}
    assert monitor.complete() == count
    monitor.stream.start()
    monitor.await_status(None)
    assert len(admin.list_topics(timeout=TIMEOUT_SECONDS).topics[monitor.diffs].partitions) == partitions > 1


@pytest.mark.timeout(900)
def test_damage_is_reported_and_nothing_is_lost(monitor: Monitor) -> None:
    topic, group = create_topic(monitor.servers, unique_name("orders"), 6), unique_name("checkout")
    disk = monitor.folder / "disk"
    unrelated_file_is_kept(monitor)
    monitor.serve.start()
    Publisher(monitor.serve).put(EXPIRED_DIFFS)
    eventually(lambda: len(monitor.serve.ids()) == len(EXPIRED_DIFFS))
    with monitor.member(group, "a", topic) as first, monitor.member(group, "b", topic), chromium() as browser:
        monitor.watched = open_page(browser, monitor.serve.url)
        monitor.complete()
        monitor.await_status(None)
        second_server_is_rejected(monitor)
        far_future_diff_is_rejected_alone(monitor)
        if disk.is_mount():
            full_disk_is_reported_when_retention_runs(monitor, disk, topic)
            full_disk_at_the_start_has_no_effect(monitor, disk)
        count = monitor.complete()
        with monitor.member(group, "c", topic) as third:
            eventually(lambda: third.owned, timeout=TIMEOUT_SECONDS)  # the next diff may belong to another group
            count = monitor.complete(count)
        unresponsive_broker_is_reported(monitor)
        monitor.broker.restart()
        count = monitor.complete(count)  # c has left
        monitor.await_status(None)
        deleted_topic_after_a_restart_is_reported_and_healed(monitor)
        first.crash()
        monitor.complete(count)
        monitor.await_status(None)
