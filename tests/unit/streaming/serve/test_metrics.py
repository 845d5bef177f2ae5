import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.freshness import ComponentState, State
from streaming.serve import metrics
from streaming.serve.board import Board, FeedStatus, Stale
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import History
from streaming.serve.metrics import Metrics
from streaming.serve.records import TopicRecord
from tests.support.feed import ASSIGNMENTS, records, story
from tests.support.feed_server import running
from tests.support.histories import Group
from tests.support.incidents import incident
from tests.support.wait import eventually

FEED = "rebalance_monitor_feed"


def stored_board(history: History, rounds: int) -> Board:
    """Return a board over a history with this number of rounds of the group ``g``."""
    history.append(records(Group("g", {"t": 6}, 1).diffs(rounds)))
    return Board(history.round_range, history.groups)


def samples(board: Board) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = generate_latest(Metrics(board)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_group_metrics_have_the_usual_exporter_names(history: History) -> None:
    exported = samples(stored_board(history, 25))
    group = history.groups["g"]
    label = ("consumergroup", "g")
    assert exported["kafka_consumergroup_members", (label,)] == group.members
    assert exported["kafka_consumergroup_state", (label, ("state", group.state))] == 1
    assert exported["kafka_consumergroup_unowned_partitions", (label,)] == group.unassigned
    assert exported["kafka_consumergroup_partitions_moved_total", (label,)] == group.moved_total
    assert exported["kafka_consumergroup_partition_unavailable_seconds_total", (label,)] == group.unavailable_ms / 1000
    assert exported["kafka_consumergroup_rebalance_duration_seconds_count", (label,)] == group.timed_rebalances
    assert exported["kafka_consumergroup_rebalance_duration_seconds_sum", (label,)] == group.rebalance_ms / 1000
    for cause, count in group.causes.items():
        assert exported["kafka_consumergroup_rounds_total", (("cause", cause), label)] == count
    for cause, count in group.rebalance_causes.items():
        assert exported["kafka_consumergroup_rebalances_total", (("cause", cause), label)] == count
    assert sum(group.rebalance_causes.values()) == group.rebalances < group.rounds
    assert exported["kafka_consumergroup_last_rebalance_timestamp_seconds", (label,)] == group.timestamp / 1000
    assert sum(group.causes.values()) == group.rounds == 25
    assert 0 < group.timed_rebalances < group.rebalances
    assert 0 not in (group.unavailable_ms, group.rebalance_ms)  # a zero would not show whether the unit is right


def test_rebalances_of_one_round_have_no_duration(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(25)))
    eager = msgspec.structs.replace(history.groups["g"], rebalances=48, rebalance_ms=0, timed_rebalances=0)
    exported = samples(Board(history.round_range, {"g": eager}))
    assert not [name for name, _ in exported if name.startswith("kafka_consumergroup_rebalance_duration")]


def test_members_in_causes_are_one_series_per_group_and_cause(history: History) -> None:
    board = stored_board(history, 2)
    causes = {"member.fenced": 'the "first" and 2 more', "member.left": "i-4"}
    board.groups = {"g": msgspec.structs.replace(history.groups["g"], cause_members=causes)}
    exported = {labels: value for (name, labels), value in samples(board).items() if "cause_members" in name}
    label = ("consumergroup", "g")
    assert exported == {(("cause", cause), label, ("members", names)): 1 for cause, names in causes.items()}


def test_stale_feed_has_no_group_states(history: History) -> None:
    board = stored_board(history, 2)
    board.progress(FeedStatus(lag=None, stale=Stale("topic-missing", "Topic t is missing", 1_700_000_000_500)))
    exported = samples(board)
    states = [labels for name, labels in exported if name == "kafka_consumergroup_state"]
    assert states == [(("consumergroup", "g"), ("state", "Unknown"))]
    assert {labels[0][1]: value for (name, labels), value in exported.items() if name == f"{FEED}_stale"} == {
        "kafka-unreachable": 0,
        "topic-missing": 1,
        "partition-offline": 0,
        "history-blocked": 0,
        "follower-stalled": 0,
        **{f"{part}-{state}": 0 for part in ("collector", "stream") for state in ("silent", "stopped", "behind")},
    }
    assert exported[f"{FEED}_stale_since_timestamp_seconds", ()] == 1_700_000_000.5
    assert math.isnan(exported[f"{FEED}_lag_records", ()])
    assert exported[f"{FEED}_caught_up", ()] == 0


def test_status_is_one_series_per_group_and_unknown_while_stale(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(2)))
    since = int(time.time() * 1000) - 30_000
    group = msgspec.structs.replace(history.groups["g"], status="rebalancing", since=since)
    board = Board(history.round_range, {"g": group})
    label, name = ("consumergroup", "g"), "kafka_consumergroup_rebalancing_seconds"
    exported = samples(board)
    assert exported["kafka_consumergroup_status", (label, ("status", "rebalancing"))] == 1
    assert 30 <= exported[name, (label,)] < 40
    assert samples(Board(history.round_range, history.groups))[name, (label,)] == 0
    board.progress(FeedStatus(lag=None, stale=Stale("topic-missing", "Topic t is missing", 5)))
    exported = samples(board)
    assert exported["kafka_consumergroup_status", (label, ("status", "unknown"))] == 1
    assert (name, (label,)) not in exported


def test_open_incidents_are_counted_by_kind(history: History) -> None:
    broker = msgspec.structs.replace(incident("cluster", kind="broker-restart"), scope="cluster", groups=["g"])
    incidents = [incident("g", 1), incident("g", 2), incident("g", 3, kind="stuck"), incident("h", closed_at=9), broker]
    history.append([story(value, offset=offset) for offset, value in enumerate(incidents)])
    exported = samples(Board(history.round_range, history.groups, history.current_stories))
    assert {key: value for key, value in exported.items() if "incident_open" in key[0]} == {
        ("kafka_consumergroup_incident_open", (("consumergroup", "g"), ("kind", "storm"))): 2,
        ("kafka_consumergroup_incident_open", (("consumergroup", "g"), ("kind", "stuck"))): 1,
        ("rebalance_monitor_cluster_incident_open", (("kind", "broker-restart"),)): 1,
    }


def test_each_component_has_its_own_metrics(history: History) -> None:
    board = Board(history.round_range, history.groups)
    is_alive: dict[State, int] = {"alive": 1, "behind": 1, "silent": 0, "stopped": 0}
    parts = [
        ComponentState(part="collector", id=state, by=None, state=state, last_heartbeat=9500, up_to=8000)
        for state in is_alive
    ]
    board.progress(FeedStatus(parts=tuple(parts)))
    exported = samples(board)
    for state, alive in is_alive.items():
        label = (("id", state), ("part", "collector"))
        assert exported["rebalance_monitor_part_alive", label] == alive
        assert exported["rebalance_monitor_part_last_heartbeat_timestamp_seconds", label] == 9.5
        assert exported["rebalance_monitor_part_up_to_timestamp_seconds", label] == 8


def test_metric_labels_contain_no_member_id(history: History) -> None:
    label_names = {name for _, labels in samples(stored_board(history, 25)) for name, _ in labels}
    assert label_names == {"consumergroup", "state", "status", "cause", "kind", "protocol"}


def test_feed_exports_its_own_metrics(history: History) -> None:
    board = Board(history.round_range, history.groups)
    board.progress(FeedStatus(caught_up=True, lag=7))
    exported = samples(board)
    assert exported[f"{FEED}_lag_records", ()] == 7
    assert exported[f"{FEED}_caught_up", ()] == 1
    assert exported[f"{FEED}_stale_since_timestamp_seconds", ()] == 0
    with board.listener_event():
        assert samples(board)[f"{FEED}_clients", ()] == 1
    assert samples(board)[f"{FEED}_clients", ()] == 0


def test_stored_repeated_and_refused_records_are_counted(history: History) -> None:
    diffs = records(Group("g", {"t": 6}, 1).diffs(5))
    board = Board(history.round_range, history.groups)
    invalid_records = [msgspec.structs.replace(diff, value=b"{", offset=8) for diff in diffs[:3]]
    again = [msgspec.structs.replace(diff, offset=6) for diff in diffs[:2]]
    board.publish(history.append([*diffs, *again, *invalid_records]))
    board.publish(history.append([msgspec.structs.replace(diffs[0], offset=9)]))
    exported = samples(board)
    names = ("rounds", "repeated_records", "refused_records", "clients_behind", "clients_cut_off")
    assert [exported[f"{FEED}_{name}_total", ()] for name in names] == [5, 3, 3, 0, 0]


def test_deleted_groups_have_no_series(history: History) -> None:
    history.append(records([*Group("g", {"t": 6}, 1).diffs(9), *Group("h", {"t": 6}, 2).diffs(2)]))
    history.append([TopicRecord(ASSIGNMENTS, 0, 0, b"g", None, None)])
    text = generate_latest(Metrics(Board(history.round_range, history.groups))).decode()
    assert ('consumergroup="h"' in text, 'consumergroup="g"' in text) == (True, False)
    assert history.groups["g"].rounds == 9


def test_scrapes_share_one_text_and_leave_the_event_loop_free(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, release_threads = [], threading.Event()

    def slow(_: Metrics) -> bytes:
        threads.append(threading.current_thread())
        release_threads.wait()
        return b"x 1\n" * 1000

    monkeypatch.setattr(metrics, "generate_latest", slow)
    monkeypatch.setattr(metrics, "CACHE_SECONDS", 3600)
    with running(options) as feed, ThreadPoolExecutor(8) as scrapers:
        scrapes = [scrapers.submit(feed.ask, "/metrics") for _ in range(8)]
        eventually(lambda: threads)
        assert feed.ask("/health")[0] == 200
        release_threads.set()
        assert {scrape.result() for scrape in scrapes} == {(200, b"x 1\n" * 1000)}
    assert len(threads) == 1
