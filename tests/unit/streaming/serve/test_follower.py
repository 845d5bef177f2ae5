import threading
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from assignors.errors import MonitorError, OutsideFailure
from streaming.freshness import ComponentState, Freshness, Lateness
from streaming.serve import follower, server
from streaming.serve.board import Stale
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import History, Retention
from streaming.serve.historyfile import HistoryBlocked, HistoryFailure
from streaming.serve.records import TopicRecord
from tests.support.feed import FailingSource, MemorySource, records
from tests.support.feed_server import RunningServer, running
from tests.support.histories import Group
from tests.support.wait import await_unchanged_value, eventually

READY_STATUS = {"ready": True, "lag": 0}


def diff_records(count: int, name: str = "g") -> list[TopicRecord]:
    return records(Group(name, {"t": 6}, 1).diffs(count))


def readiness_document(feed: RunningServer, seq: int) -> bool:
    return feed.ask("/ready")[0] == 200 and feed.get("/ready") == {**READY_STATUS, "seq": seq}


def read_history(feed: RunningServer) -> History:
    (served,) = feed.server._clusters
    assert served._opened is not None
    return served._opened[1]


def wait_for_end(feed: RunningServer) -> MonitorError | None:
    eventually(lambda: feed.ended)
    return feed.ended[0]


@pytest.mark.parametrize(
    "error", [RuntimeError("odd"), OverflowError("too large"), MemoryError(), SystemExit(0), KeyError("x")]
)
def test_failure_of_the_follower_ends_the_process(options: ServeOptions, error: BaseException) -> None:
    source = FailingSource()
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 0))
        source.error = error
        ended = wait_for_end(feed)
    assert isinstance(ended, OutsideFailure)
    assert (ended.exit_status, ended.__cause__) == (3, error)
    assert f"reading the topics ended with {type(error).__name__}" in str(ended)
    assert "\n" not in str(ended)


def test_failure_of_the_source_ends_serve_with_its_message(options: ServeOptions) -> None:
    source = FailingSource(error=OutsideFailure("topic t: not allowed"))
    with running(options, source) as feed:
        assert str(wait_for_end(feed)) == "topic t: not allowed"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP TABLE positions", "no such table: positions"),
        ("CREATE TEMP TRIGGER broken BEFORE DELETE ON rounds BEGIN SELECT RAISE(FAIL, 'no'); END", "no"),
    ],
)
def test_failed_write_or_retention_ends_the_process(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch, statement: str, message: str
) -> None:
    monkeypatch.setattr(follower, "_TRIM_INTERVAL_SECONDS", 0.2)
    with running(replace(options, limits=Retention(1, 2**30))) as feed:
        eventually(lambda: readiness_document(feed, 0))
        read_history(feed)._connection.execute(statement)
        feed.source.put(*diff_records(4))
        ended = wait_for_end(feed)
    assert isinstance(ended, HistoryFailure)
    assert message in str(ended)


def test_full_disk_is_reported_until_space_is_free(options: ServeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_RETRY_SECONDS", 0.05)
    with running(options) as feed:
        eventually(lambda: readiness_document(feed, 0))
        connection = read_history(feed)._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        feed.source.put(*diff_records(300))
        eventually(lambda: feed.ask("/ready")[0] == 503)
        body = feed.get("/ready")
        assert (body["ready"], body["lag"], body["stale"]["kind"]) == (False, None, "history-blocked")
        assert feed.metrics()["rebalance_monitor_feed_caught_up"] == 0
        assert feed.metrics()['rebalance_monitor_feed_stale{cause="history-blocked"}'] == 1
        connection.execute("PRAGMA max_page_count = 100000")
        eventually(lambda: readiness_document(feed, 300))
        eventually(lambda: feed.metrics()['rebalance_monitor_feed_stale{cause="history-blocked"}'] == 0)


def test_full_disk_during_retention_is_reported_and_awaited(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(follower, "_TRIM_INTERVAL_SECONDS", 0.05)
    full = threading.Event()
    full.set()

    def trim(*_: object, **__: object) -> tuple[int, list[str]]:
        if full.is_set():
            raise HistoryBlocked("history h: the disk is full")
        return 0, []

    monkeypatch.setattr(History, "trim", trim)
    with running(options) as feed:
        eventually(lambda: feed.get("/ready").get("stale"))
        full.clear()
        eventually(lambda: readiness_document(feed, 0))


def test_follower_stops_while_the_disk_is_full(options: ServeOptions) -> None:
    source = MemorySource()
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 0))
        connection = read_history(feed)._connection
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
        source.put(*diff_records(300))
        eventually(lambda: feed.ask("/ready")[0] == 503)
    assert feed.ended == [None]
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 300))


def test_a_history_that_is_removed_ends_the_process(options: ServeOptions) -> None:
    source = MemorySource()
    source.put(*diff_records(5))
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 5))
        options.history.unlink()
        assert isinstance(wait_for_end(feed), HistoryFailure)
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 5))


@dataclass
class BlockingSource(MemorySource):
    """A source whose poll blocks until the test releases it."""

    release_event: threading.Event = field(default_factory=threading.Event)

    def poll(self, timeout: float) -> list[TopicRecord]:
        message = super().poll(timeout)
        self.release_event.wait(20)
        return message


def test_stalled_follower_is_reported(options: ServeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "STALLED_AFTER_SECONDS", 0.3)
    source = BlockingSource()
    source.release_event.set()
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 0))
        source.release_event.clear()
        eventually(lambda: feed.ask("/ready")[0] == 503)
        assert feed.get("/ready")["stale"]["kind"] == "follower-stalled"
        source.release_event.set()
        eventually(lambda: readiness_document(feed, 0))


def test_progress_is_reported_until_the_follower_is_lost(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_WATCH_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(server, "_LOST_CONNECTION_SECONDS", 0.5)
    source, heartbeat_times = BlockingSource(), []
    source.release_event.set()
    with running(options, source, beat=lambda: heartbeat_times.append(0)) as feed:
        eventually(lambda: len(heartbeat_times) > 30)  # longer than the time until a component is lost
        source.release_event.clear()
        before = await_unchanged_value(lambda: len(heartbeat_times), 1)
        assert feed.ask("/health")[0] == 200
        source.release_event.set()
        eventually(lambda: len(heartbeat_times) != before)


def test_stale_source_is_reported_until_it_recovers(options: ServeOptions) -> None:
    source = MemorySource()
    source.put(*diff_records(5))
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 5))
        source.stale = Stale("kafka-unreachable", "No contact with Kafka", 1_700_000_000_000)
        eventually(lambda: feed.ask("/ready")[0] == 503)
        stale = msgspec.to_builtins(source.stale)
        assert feed.get("/ready") == {"ready": False, "lag": None, "seq": 5, "stale": stale}
        listed = feed.get("/api/v1/groups")
        assert (listed["caughtUp"], listed["stale"]) == (False, stale)
        assert feed.metrics()['kafka_consumergroup_state{consumergroup="g",state="Unknown"}'] == 1
        assert feed.metrics()["rebalance_monitor_feed_stale_since_timestamp_seconds"] == 1_700_000_000
        source.stale = None
        eventually(lambda: readiness_document(feed, 5))
        assert "stale" not in feed.get("/api/v1/groups")


def test_component_states_are_in_every_api_answer(options: ServeOptions) -> None:
    part = ComponentState(part="collector", id="c", by="offsets", state="alive", last_heartbeat=1000, up_to=900)
    freshness = [Freshness()]
    source = MemorySource()
    source.put(*diff_records(5))

    def parts(**fields: Any) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(part) | fields]

    with running(options, source, lambda: freshness[0]) as feed:
        eventually(lambda: readiness_document(feed, 5))  # no status is reported for missing components
        freshness[0] = Freshness(parts=(part,))
        eventually(lambda: feed.get("/ready") == {**READY_STATUS, "seq": 5, "parts": parts()})
        freshness[0] = Freshness(is_known=False, parts=(part,))
        eventually(lambda: feed.ask("/ready")[0] == 503)
        assert feed.get("/ready") == {"ready": False, "lag": 0, "seq": 5, "parts": parts()}
        silent_component = msgspec.structs.replace(part, state="silent")
        late = Lateness("collector-silent", "No heartbeat from c", 1000)
        freshness[0] = Freshness(parts=(silent_component,), late=late)
        stale = {"kind": "collector-silent", "reason": "No heartbeat from c", "since": 1000}
        status = {"lag": None, "seq": 5, "stale": stale, "parts": parts(state="silent")}
        eventually(lambda: feed.get("/ready") == {"ready": False, **status})
        assert feed.get("/api/v1/groups/g")["standing"] == {"caughtUp": False, **status}
        listed = feed.get("/api/v1/groups")
        del listed["groups"]
        assert listed == {"caughtUp": False, **status, "cluster": "c", "next": None}
        metrics = feed.metrics()
        assert metrics['rebalance_monitor_feed_stale{cause="collector-silent"}'] == 1
        assert metrics['rebalance_monitor_part_alive{id="c",part="collector"}'] == 0
        assert metrics['kafka_consumergroup_state{consumergroup="g",state="Unknown"}'] == 1
        source.stale = Stale("topic-missing", "Topic t is missing", 7)  # the component nearest to the page comes first
        eventually(lambda: feed.get("/ready")["stale"]["kind"] == "topic-missing")
        assert feed.get("/ready")["parts"] == parts(state="silent")


def test_topic_recreated_while_running_is_read_from_its_start(options: ServeOptions) -> None:
    source = MemorySource()
    source.put(*diff_records(9))
    with running(options, source) as feed:
        eventually(lambda: readiness_document(feed, 9))
        source.replace_topic("t-2", *diff_records(20, "h"))
        eventually(lambda: readiness_document(feed, 29))
        groups = feed.get("/api/v1/groups")["groups"]
        assert {group["groupId"]: group["rounds"] for group in groups} == {"g": 9, "h": 20}


def test_retention_runs_while_serving(options: ServeOptions) -> None:
    options = replace(options, limits=Retention(1, 2**30))
    source = MemorySource()
    source.put(*diff_records(4))
    with running(options, source) as feed:
        eventually(lambda: feed.get("/ready")["seq"] == 4)
    with running(options, source) as feed:  # the first step also trims the history
        eventually(lambda: feed.get("/api/v1/rounds")["rounds"] == [])
