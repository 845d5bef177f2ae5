"""An hour without events, and half a minute without one of the components, on a clock that the test sets.

The tests write the heartbeats of the collector and the stream, and check the status that every interface computes
from these heartbeats: `/ready`, `/api/v1/groups`, the feed that the page shows, `/metrics` and `watch`.
``tests/integration/streaming/serve/test_freshness.py`` tests the same with real processes, for some seconds.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from anyio import CapacityLimiter

from streaming.cli import stories
from streaming.cli.stories import FreshnessWarnings
from streaming.freshness import STREAM_ID
from streaming.kafka import heartbeats
from streaming.kafka.heartbeats import HeartbeatTracker, HeartbeatWriter
from streaming.kafka.metadata import Identity
from streaming.serve import follower, metrics, page
from streaming.serve.app import build
from streaming.serve.archive import Archive
from streaming.serve.board import Board
from streaming.serve.clusters import ServeOptions
from streaming.serve.feed import Feed, FeedTimes
from streaming.serve.follower import Follower
from streaming.serve.history import History, Retention
from streaming.serve.security import Access
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from streaming.spark.job import _StreamJob
from streaming.spark.progress import batch_report
from streaming.spark.start import StreamOptions
from streaming.spark.supervisor import Supervisor
from tests.support.asgi import ask
from tests.support.feed import MemorySource, cluster_of, records
from tests.support.histories import Group
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
TOPIC = SETTINGS.topics.signs
HOUR_SECONDS, HALF_MINUTE_SECONDS = 3600, 30
#: Seconds between two progress reports of an idle Spark query (``spark.sql.streaming.noDataProgressEventInterval``).
SPARK_CHECK_INTERVAL_SECONDS = 10


class Clock:
    """A fake of the module ``time``, whose clock the test advances."""

    def __init__(self) -> None:
        self.elapsed_seconds = 0

    def monotonic(self) -> float:
        return 50_000.0 + self.elapsed_seconds

    def time(self) -> float:
        return 1_700_000_000.0 + self.elapsed_seconds

    def time_ns(self) -> int:
        return int(self.time()) * 10**9


class QuietStream:
    """The stream component while Spark finds no new records; only its heartbeats are written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        options = StreamOptions(checkpoint="c")
        self._supervisor = Supervisor(options, "m", {"m": Identity("id-m", 1)}, partitions=1)
        writer, setup = HeartbeatWriter(SETTINGS, "stream", STREAM_ID), SimpleNamespace(options=options)
        self._job = SimpleNamespace(_heartbeats=writer, _supervisor=self._supervisor, _setup=setup)

    def write(self) -> None:
        if self._clock.elapsed_seconds % SPARK_CHECK_INTERVAL_SECONDS == 0:
            source = {"description": "KafkaV2[Assign[m]]", "numInputRows": 0, "endOffset": {"m": {"0": 9}}}
            source["metrics"] = {"maxOffsetsBehindLatest": "0"}
            at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self._clock.time()))
            progress = {"batchId": 7, "timestamp": at, "sources": [source]}
            self._supervisor.add_batch(progress, {}, batch_report(progress))
        _StreamJob._write_heartbeat(cast("Any", self._job), self._clock.time())


class MonitorUnderTest:
    def __init__(self, kafka: MemoryKafka, clock: Clock, history: History, printed_warnings: Callable[[], str]) -> None:
        self.kafka, self.clock, self.printed_warnings = kafka, clock, printed_warnings
        # The collector has read the offsets topic to its end, and receives no new records.
        collector = HeartbeatWriter(SETTINGS, "collector", "c", by="offsets")
        self.parts: dict[str, Callable[[], None]] = {
            "collector": lambda: collector.write(up_to=clock.time(), positions={0: 9}),
            "stream": QuietStream(clock).write,
        }
        self.tracker = HeartbeatTracker(SETTINGS)
        self.warnings = FreshnessWarnings(self.tracker.freshness)
        self.board = Board(history.round_range, history.groups)
        loop = asyncio.new_event_loop()
        source = MemorySource(read=0)
        self.follower = Follower(
            *(source, history, self.board, Retention(2**50, 2**40)),
            loop=loop,
            failed=lambda error: pytest.fail(str(error)),
            freshness=self.tracker.freshness,
        )
        loop.close()
        self.follower._run_on_loop = lambda work: work()  # type: ignore[method-assign]
        feed = Feed(self.board, Archive(history.path), CapacityLimiter(2), FeedTimes())
        self.app = build([cluster_of(feed)], ServeOptions(max_clients=10), Access())
        self._tracker_position = 0

    def second(self) -> None:
        self.clock.elapsed_seconds += 1
        for write_heartbeat in self.parts.values():
            write_heartbeat()
        left = self.kafka.records(TOPIC) if TOPIC in self.kafka.topics else []
        self.tracker._add_heartbeats(left[self._tracker_position :], behind=False)
        self._tracker_position = len(left)
        contact = SimpleNamespace(missing=(), leaderless_partitions=(), silent_since=None, at_end=True)
        self.tracker._update_contact(cast("Any", contact))
        self.follower._last_pass_at = self.clock.monotonic()
        self.follower._store_records([])
        self.follower.watch()
        self.warnings.poll(self.clock.monotonic(), self.clock.time())

    def shown(self) -> dict[str, Any]:
        ready, listed = ask(self.app, "/ready"), ask(self.app, "/api/v1/groups").json
        metrics = ask(self.app, "/metrics").body.decode()
        samples = re.findall(r"^rebalance_monitor_(?:feed_stale|part_alive)\{(.*)\} (.*)$", metrics, re.MULTILINE)
        page_data = json.loads(self.board.snapshot().event.partition(b"data: ")[2])
        return {
            "ready": (ready.status, ready.json.get("stale", {}).get("kind")),
            "groups": (listed["caughtUp"], listed.get("stale", {}).get("kind")),
            "page": (page_data["caughtUp"], page_data.get("stale", {}).get("kind")),
            "parts": [part["state"] for part in listed["parts"]],
            "metrics": {name for name, value in samples if (float(value) == 1) == ("cause=" in name)},
            "watch": self.printed_warnings(),
        }


HEALTHY_STATUS = {
    "ready": (200, None),
    "groups": (True, None),
    "page": (True, None),
    "parts": ["alive", "alive"],
    "metrics": set[str](),
    "watch": "",
}


@pytest.fixture
def monitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MonitorUnderTest:
    clock = Clock()
    warnings: list[str] = []
    # Standard error is not compared: threads of other tests may write to it.
    monkeypatch.setattr(stories, "warn", warnings.append)

    def printed_warnings() -> str:
        text = "\n".join(warnings)
        warnings.clear()
        return text

    for module in (heartbeats, follower, metrics):
        monkeypatch.setattr(module, "time", clock)
    kafka = MemoryKafka(monkeypatch)
    kafka.clock_ms = lambda: int(clock.time() * 1000)
    kafka.create(TOPIC)
    history = History(tmp_path / "h", cluster_id="c", diffs_topic="rebalance.diffs")
    history.append(records(Group("g", {"t": 6}, 1).diffs(3)))
    monitor = MonitorUnderTest(kafka, clock, history, printed_warnings)
    for _ in range(SPARK_CHECK_INTERVAL_SECONDS + HALF_MINUTE_SECONDS):  # all components have begun
        monitor.second()
    monitor.printed_warnings()
    return monitor


def test_quiet_hour_is_not_reported_as_outdated(monitor: MonitorUnderTest) -> None:
    shown = []
    for _ in range(HOUR_SECONDS):
        monitor.second()
        since_check = monitor.clock.elapsed_seconds % SPARK_CHECK_INTERVAL_SECONDS
        if since_check == SPARK_CHECK_INTERVAL_SECONDS - 1:  # the longest time since Spark's last check
            shown.append(monitor.shown())
    assert shown == [HEALTHY_STATUS] * (HOUR_SECONDS // SPARK_CHECK_INTERVAL_SECONDS)
    late = [(part.last_heartbeat - part.up_to) / 1000 for part in monitor.board.status.parts]
    assert max(late) < SPARK_CHECK_INTERVAL_SECONDS + 5


@pytest.mark.parametrize("part", ["collector", "stream"])
def test_component_stopped_after_an_hour_is_reported_in_30_s(monitor: MonitorUnderTest, part: str) -> None:
    for _ in range(HOUR_SECONDS):
        monitor.second()
    assert monitor.shown() == HEALTHY_STATUS
    del monitor.parts[part]
    for _ in range(HALF_MINUTE_SECONDS):
        monitor.second()
    silent_reason = f"{part}-silent"
    shown = monitor.shown()
    assert "groups may have changed since" in shown.pop("watch")
    assert shown == {
        "ready": (503, silent_reason),
        "groups": (False, silent_reason),
        "page": (False, silent_reason),
        "parts": ["silent" if name == part else "alive" for name in ("collector", "stream")],
        "metrics": {f'cause="{silent_reason}"', f'id="{"c" if part == "collector" else STREAM_ID}",part="{part}"'},
    }


def test_page_waits_longer_than_the_keep_alive_interval() -> None:
    """The page reports the server as lost only after twice the feed's keep-alive interval without data."""
    script = (Path(page.__path__[0]) / "core" / "stream.js").read_text()
    (silence_ms,) = re.findall(r"^const SILENCE_MS = ([\d_]+);", script, re.MULTILINE)
    assert int(silence_ms) / 1000 > 2 * FeedTimes().keep_alive_seconds
