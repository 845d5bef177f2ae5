"""A monitor through all that was once found broken: it says what is true at every moment, and loses nothing.

One broker as most are set up (it makes each topic that a client asks for); ``collect``, ``stream`` and ``serve`` as
a person starts them; the page in a browser.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.identity import identify
from streaming.kafka.runtime import free_ports
from streaming.monitor.rendering import DiffOutput
from streaming.wire.codec import ce_attributes, decode_event, encode
from streaming.wire.events import Diff, Event
from tests.support.browser import Watched, chromium, open_page
from tests.support.command import Running, run
from tests.support.feed import diff_id, message
from tests.support.histories import Group, play, sample
from tests.support.kafka import PROPERTIES, eventually, read, unique
from tests.support.members import Member
from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import RawLeader
from tests.support.serving import Publisher, Serve

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.browser]

#: A broker that is silent, a topic that is gone, a disk that is full: told within so many seconds.
TOLD_SECONDS = 15.0
#: Longer than the members' sessions.
QUIET_SECONDS = 10.0
#: What a busy machine may take for what is not bounded.
PATIENCE = 120.0
#: An assignment whose partitions are null, as no client writes it: version 0, one topic "t0".
NULL_PARTITIONS = bytes.fromhex("0000 00000001 0002") + b"t0" + bytes.fromhex("ffffffff ffffffff")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system that can be filled; None where this user may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        warnings.warn("no tmpfs may be mounted here: what a full disk does is left out", stacklevel=1)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """No byte is left on the disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            assert shutil.disk_usage(disk).free == 0
    try:
        yield
    finally:
        ballast.unlink()


@dataclass
class Monitor:
    """The parts of a running monitor, and what each of its faces says."""

    broker: EmbeddedBroker
    folder: Path
    serve: Serve
    collect: Running
    stream: Running
    watched: Watched | None = None

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def diffs(self) -> str:
        return self.serve.settings.topics.diffs

    @property
    def history(self) -> Path:
        return Path(self.serve.command[self.serve.command.index("--database") + 1])

    @property
    def common(self) -> tuple[str, ...]:
        """The options that every command takes."""
        prefix = self.serve.settings.topics.prefix
        return ("--bootstrap-servers", self.servers, "--topic-prefix", prefix)

    def member(self, group: str, name: str, topic: str) -> Member:
        return Member(self.servers, group, name, [topic], protocol="cooperative")

    def metrics(self) -> dict[tuple[str, str], float]:
        """``(name, cause)`` → value, of the feed itself."""
        families = text_string_to_metric_families(self.serve.get("/metrics")[1].decode())
        return {
            (one.name, one.labels.get("cause", "")): one.value for found in families for one in found.samples
        }

    def faces(self) -> dict[str, Any]:
        """What page, ``/ready`` and metrics say: None for all is well, else what is wrong."""
        status, ready = self.serve.ask("/ready")
        assert ready["ready"] is (status == 200)
        metrics = self.metrics()
        causes = [
            cause for (name, cause), on in metrics.items() if name == "rebalance_monitor_feed_stale" and on
        ]
        caught_up = metrics["rebalance_monitor_feed_caught_up", ""] == 1
        assert self.watched is not None
        page = self.watched.page
        state = page.get_attribute("#live", "data-state")
        warning = "" if page.is_hidden("#stale") else page.inner_text("#stale")
        since = re.search(r"since [\d:]+.*; what is shown was true then\.", warning)
        return {
            "ready": ready["stale"]["kind"] if "stale" in ready else None if ready["ready"] else "not ready",
            "metrics": causes[0] if causes else None if caught_up else "not caught up",
            "page": None
            if state == "live" and not warning
            else "stale"
            if state == "stale" and since
            else state,
        }

    def says(self, kind: str | None, seconds: float = PATIENCE) -> None:
        """Page, ``/ready`` and metrics say this, in so long, and of one mind."""
        wanted = {"ready": kind, "metrics": kind, "page": kind and "stale"}
        try:
            eventually(lambda: self.faces() == wanted, timeout=seconds, every=0.2)
        except AssertionError as error:
            raise AssertionError(
                f"wanted {wanted}, got {self.faces()}\n{self.serve.said()[-2000:]}"
            ) from error

    def ids(self) -> list[str]:
        """The ids of the stream's diffs that the server has, oldest first."""
        return [one for one in self.serve.ids() if one not in FOREIGN]

    def log(self) -> list[Event]:
        """The membership log, each group's events in their order."""
        return [
            decode_event(one.key(), one.value(), ce_attributes(one.headers()))
            for one in read(self.servers, self.serve.settings.topics.membership)
        ]

    def expected(self) -> list[str]:
        """The ids of the diffs that follow from the membership log, as any replay has them."""
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in self.log():
            groups[event.data.group_id].append(event)
        outputs = [output for events in groups.values() for output in play(events)[1]]
        return sorted(output.id for output in outputs if isinstance(output, DiffOutput))

    def quiet(self) -> None:
        """Nobody has joined or left for longer than a session lasts: nothing is on its way."""

        def newest() -> float:
            return max(event.data.timestamp for event in self.log()) / 1000

        eventually(lambda: time.time() - newest() > QUIET_SECONDS, timeout=PATIENCE, every=0.5)

    def complete(self, more_than: int = 0) -> int:
        """How many diffs there are, once there are more and the server has every one, each once."""

        def found() -> int:
            ids = self.ids()
            return len(ids) if len(ids) > more_than and sorted(ids) == self.expected() else 0

        try:
            return int(str(eventually(found, timeout=PATIENCE, every=0.5)))
        except AssertionError as error:
            served, expected = sorted(self.ids()), self.expected()
            state = f"{len(served)} served, more than {more_than} wanted; {served=}\n{expected=}"
            said = (
                f"{name}: {part.said()[-3000:]}" for name, part in vars(self).items() if hasattr(part, "said")
            )
            raise AssertionError("\n".join([state, *said])) from error


KEEP_HOURS = 1000
ANCIENT = Group("ancient", {"t": 12}, 1).diffs(40)
#: What this test itself writes.
FOREIGN = {*map(diff_id, ANCIENT), "far-away"}


def old() -> list[Diff]:
    """Rounds of which every thirty seconds, from a minute ago on, one more is older than what is kept."""
    begin = int(time.time()) - KEEP_HOURS * 3600 - 60
    return [
        structs.replace(diff, timestamp=(begin + 30 * number) * 1000) for number, diff in enumerate(ANCIENT)
    ]


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    topic_prefix = f"{unique('faults')}."
    with (
        small_disk(tmp_path / "disk") as disk,
        EmbeddedBroker(
            data_dir=tmp_path / "kafka", properties={**PROPERTIES, "auto.create.topics.enable": "true"}
        ) as broker,
    ):
        common = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", topic_prefix)
        checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"), "--buckets", "4")
        with (
            Running("stream", *common, *checkpoint, log=tmp_path / "stream.log") as stream,
            Running("collect", *common, log=tmp_path / "collect.log") as collect,
            Serve(broker.bootstrap_servers, topic_prefix, disk or tmp_path) as serve,
        ):
            serve.log = tmp_path / "serve.log"  # not on the disk that is filled
            serve.command.remove("--verbose")
            stream.start()
            collect.start()
            yield Monitor(broker, tmp_path, serve, collect, stream)
            for one in (stream, collect, serve):
                one.check()
                assert "Traceback" not in one.said()


def refused(monitor: Monitor, database: Path) -> tuple[int, str]:
    """Status and only line of another server on this history."""
    common = monitor.common
    done = run("serve", *common, "--port", str(free_ports(1)[0]), "--database", str(database))
    (line,) = done.stderr.splitlines()
    return done.returncode, line


def a_strangers_file_stays(monitor: Monitor) -> None:
    notes = monitor.folder / "notes.txt"
    notes.write_text("my notes\n")
    status, line = refused(monitor, notes)
    assert (status, "name another file" in line) == (2, True), line
    assert notes.read_text() == "my notes\n"


def a_second_server_is_refused(monitor: Monitor) -> None:
    status, line = refused(monitor, monitor.history)
    assert (status, "another `serve` uses it" in line) == (3, True), line
    monitor.says(None)


def a_diff_of_the_far_future_is_refused_alone(monitor: Monitor) -> None:
    odd = message(sample(group_id="odd"))
    value = encode(sample(group_id="odd", timestamp=123454321)).replace(b"123454321", str(2**70).encode())
    headers = [(name, b"far-away" if name == "ce_id" else text) for name, text in odd["headers"]]
    publisher = Publisher(monitor.serve)
    publisher.producer.produce(monitor.diffs, key=b"odd", value=value, headers=headers)
    publisher.put([])
    refused = "rebalance_monitor_feed_refused_records_total", ""
    eventually(lambda: monitor.metrics()[refused] == 1)
    assert monitor.serve.ask("/api/groups/odd")[0] == 404
    monitor.says(None)


def a_full_disk_is_told_when_retention_runs(monitor: Monitor, disk: Path, topic: str) -> None:
    """And meanwhile a client writes an assignment that no other can read."""
    settings = monitor.serve.settings
    assert monitor.serve.stop() == 0
    monitor.serve.command += ["--keep", f"{KEEP_HOURS}h"]
    monitor.serve.start().await_status("/ready", 200)  # retention runs now, and in a minute
    left = FOREIGN & {*monitor.serve.ids()}
    assert left
    with RawLeader(monitor.servers, "poison", 300_000) as leader:
        with full(disk):
            assert leader.generation(subscription([topic]), NULL_PARTITIONS) == 1
            eventually(lambda: read(monitor.servers, settings.topics.dead_letters))
            monitor.says("history-blocked", 60 + TOLD_SECONDS)
            assert {*monitor.serve.ids()} >= {*monitor.expected()}
        monitor.says(None, 2 * TOLD_SECONDS)
        assert FOREIGN & {*monitor.serve.ids()} < left
        (letter,) = read(monitor.servers, settings.topics.dead_letters)
        assert dict(letter.headers())["dlt_topic"] == b"__consumer_offsets"
        assert leader.generation(subscription([topic]), assignment({topic: [0, 1]})) == 2
        eventually(lambda: monitor.serve.ask("/api/groups/poison")[0] == 200, timeout=PATIENCE)
        leader.leave()
    monitor.collect.check()


def a_full_disk_at_the_start_costs_nothing(monitor: Monitor, disk: Path) -> None:
    known = monitor.ids()
    assert monitor.serve.stop() == 0
    with full(disk):
        assert monitor.serve.start(wait=False).ended() == 3
    monitor.serve.start()
    monitor.says(None)
    assert monitor.ids()[: len(known)] == known


def silence_is_told(monitor: Monitor) -> None:
    assert monitor.broker.pid is not None
    os.kill(monitor.broker.pid, signal.SIGSTOP)
    try:
        monitor.says("kafka-unreachable", 2 * TOLD_SECONDS)
        assert monitor.serve.ids()
    finally:
        os.kill(monitor.broker.pid, signal.SIGCONT)
    monitor.says(None)


def a_topic_removed_after_a_restart_is_told_and_made_right(monitor: Monitor) -> None:
    monitor.quiet()  # what is written to a topic in the moment of its end goes with it
    count = monitor.complete()
    admin = AdminClient({"bootstrap.servers": monitor.servers})
    partitions = len(admin.list_topics(timeout=10).topics[monitor.diffs].partitions)
    admin.delete_topics([monitor.diffs])[monitor.diffs].result(30)
    eventually(lambda: f"topic {monitor.diffs} was deleted" in monitor.stream.said(), timeout=TOLD_SECONDS)
    assert monitor.stream.ended() == 3
    monitor.says("topic-missing", TOLD_SECONDS)
    assert identify(monitor.serve.settings.kafka, [monitor.diffs]) == {monitor.diffs: None}
    assert monitor.complete() == count
    monitor.stream.start()
    monitor.says(None)
    assert len(admin.list_topics(timeout=10).topics[monitor.diffs].partitions) == partitions > 1


@pytest.mark.timeout(900)
def test_what_was_found_broken_is_told_and_nothing_is_lost(monitor: Monitor) -> None:
    topic, group = unique("orders"), unique("checkout")
    admin = AdminClient({"bootstrap.servers": monitor.servers})
    admin.create_topics([NewTopic(topic, 6, 1)])[topic].result(20)
    disk = monitor.folder / "disk"
    a_strangers_file_stays(monitor)
    monitor.serve.start()
    Publisher(monitor.serve).put(old())
    eventually(lambda: len(monitor.serve.ids()) == len(ANCIENT))
    with monitor.member(group, "a", topic) as first, monitor.member(group, "b", topic), chromium() as browser:
        monitor.watched = open_page(browser, monitor.serve.url)
        monitor.complete()
        monitor.says(None)
        a_second_server_is_refused(monitor)
        a_diff_of_the_far_future_is_refused_alone(monitor)
        if disk.is_mount():
            a_full_disk_is_told_when_retention_runs(monitor, disk, topic)
            a_full_disk_at_the_start_costs_nothing(monitor, disk)
        count = monitor.complete()
        with monitor.member(group, "c", topic) as third:
            eventually(lambda: third.owned, timeout=PATIENCE)  # the next diff may be another group's
            count = monitor.complete(count)
        silence_is_told(monitor)
        monitor.broker.restart()
        count = monitor.complete(count)  # c has left
        monitor.says(None)
        a_topic_removed_after_a_restart_is_told_and_made_right(monitor)
        first.crash()
        monitor.complete(count)
        monitor.says(None)
