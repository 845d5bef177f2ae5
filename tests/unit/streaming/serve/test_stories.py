"""Episodes and incidents in the history: their numbers, updates and retention, and the same content after a restart."""

import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from prometheus_client import generate_latest

from streaming.records.downtime import total_downtime
from streaming.records.episodes import Downtime
from streaming.records.events import CLUSTER
from streaming.serve import stories as stories_module
from streaming.serve.archive import Archive, PageQuery
from streaming.serve.board import Board
from streaming.serve.history import History, Retention
from streaming.serve.historyfile import HistoryFailure
from streaming.serve.metrics import Metrics
from streaming.serve.records import TopicRecord, apply_assignment
from streaming.serve.stories import DowntimeTotals
from tests.support.compacted import RESTARTED_MS, checkout_group, episode_records, latest
from tests.support.feed import ASSIGNMENTS, EPISODES, assignment, stories, story
from tests.support.incidents import incident

GROUP = "team/checkout"


def open_history(folder: Path) -> closing[History]:
    """Return a new history in this folder, or the existing one after it was closed."""
    return closing(History(folder / "again.sqlite", cluster_id="c-1", diffs_topic="rebalance.diffs"))


def numbers(history: History, sort: stories_module.Sort, **wanted: bool) -> list[int]:
    page = Archive(history.path).stories(sort, PageQuery(limit=500), **wanted)
    return [json.loads(item)[sort] for item in page.items]


def test_story_update_replaces_the_previous_one_with_a_new_seq(history: History) -> None:
    stored = stories(checkout_group())
    batch = history.append(stored)
    shown = [(stored.seq, stored.sort, stored.id) for stored in batch.stories]
    assert shown == [(number, "episode", record.id) for number, record in enumerate(stored, 1)]
    assert history.current_stories.last == len(stored)
    newest = [record.value for record in episode_records(checkout_group())]
    assert [stored.body for stored in Archive(history.path).stories_after(0, 100, 2**20)] == newest
    assert batch.current_stories == history.current_stories
    assert history.current_stories.newest[GROUP].story == episode_records(checkout_group())[-1].episode.story


def test_repeated_record_is_not_stored_again(history: History) -> None:
    newest = stories(checkout_group())[-1]
    history.append([newest])
    again = history.append([msgspec.structs.replace(newest, offset=9)])
    assert (again.stories, again.repeated) == ([], 1)
    assert history.current_stories.last == 1
    assert history.positions() == {(EPISODES, 0): 10}


@pytest.mark.parametrize("is_incident_first", [True, False])
def test_a_cluster_incident_explains_an_episode(tmp_path: Path, is_incident_first: bool) -> None:
    crash = msgspec.structs.replace(episode_records(checkout_group())[-1].episode, kind="crash", sure=True)
    text = "Broker 1 away: coordinator of 1 group (from 2023-11-14 22:23 to 2023-11-14 22:23 UTC)."
    times = {"opened_at": crash.opened_at, "closed_at": crash.opened_at + 9000}
    away = incident(CLUSTER, kind="broker-restart", scope="cluster", groups=[GROUP], story=text, **times)
    order = [story(away), story(crash)] if is_incident_first else [story(crash), story(away)]
    with open_history(tmp_path) as history:
        sent = [stored for record in order for stored in history.append([record]).stories]
        assert [stored.seq for stored in sent] == list(range(1, len(sent) + 1))
        last = json.loads(sent[-1].body)
        assert (last["kind"], last["sure"], last["cause"]) == ("coordinator-move", False, "(cluster)/1")
        start = "Broker 1 away: coordinator of 1 group (cluster incident 1); pay (h1) and pay (h2)"
        assert last["story"].startswith(start)
        (kept,) = Archive(history.path).stories("episode", PageQuery(limit=5)).items
        assert kept == sent[-1].body
        before = history.current_stories
        assert before.newest[GROUP].cause == "(cluster)/1"
    with open_history(tmp_path) as history:
        assert history.current_stories == before


def test_open_incidents_survive_a_restart(tmp_path: Path) -> None:
    with open_history(tmp_path) as history:
        history.append([story(incident("g", 1)), story(incident("h", 1), offset=1)])
        assert set(history.current_stories.open) == {("g", 1), ("h", 1)}
        before = history.current_stories
    with open_history(tmp_path) as history:
        assert history.current_stories == before
        history.append([story(incident("g", 1, closed_at=700), offset=2)])
        assert set(history.current_stories.open) == {("h", 1)}
        assert history.current_stories.last == 3
        assert numbers(history, "incident", opened=False) == [1]


def test_records_of_a_removed_partition_are_dropped(history: History) -> None:
    newest = story(episode_records(checkout_group())[-1].episode)
    history.append([newest])
    batch = history.append([msgspec.structs.replace(newest, offset=1, value=None, id=None)])
    assert (batch.current_stories, batch.stories, numbers(history, "episode")) == (history.current_stories, [], [])
    assert history.current_stories.newest == {}


@pytest.mark.parametrize(
    ("key", "value", "ce_id"),
    [
        (b"g", b"{}", "i"),
        (b"g/1", b"{", "i"),
        (b"g/1", None, None),
        (b"team/checkout/7", episode_records(checkout_group())[0].value, "i"),
        (b"team/checkout/1", episode_records(checkout_group())[0].value, None),
        (b"team/checkout/1", episode_records(checkout_group())[0].value[:-1] + b',"x":"\xff"}', "i"),
    ],
)
def test_invalid_story_is_skipped(history: History, key: bytes, value: bytes | None, ce_id: str | None) -> None:
    batch = history.append([TopicRecord(EPISODES, 0, 4, key, value, ce_id)])
    assert (batch.stories, numbers(history, "episode")) == ([], [])
    assert batch.refused == (value is not None)
    assert history.positions() == {(EPISODES, 0): 5}


def test_newest_entries_of_a_group_are_kept(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories_module, "MAX_STORIES", 2)
    incidents = [incident("g", number, opened_at=number, closed_at=number) for number in range(1, 6)]
    history.append([story(value, offset=offset) for offset, value in enumerate(incidents)])
    history.append([story(incident("h", 1, opened_at=1), offset=9)])
    assert sorted(numbers(history, "incident")) == [1, 4, 5]


def test_retention_keeps_open_stories_and_the_newest_episode(history: History) -> None:
    history.append([assignment(checkout_group()), *stories(checkout_group())])
    history.append([story(incident("g", 1, closed_at=5)), story(incident("g", 2, opened_at=6), offset=1)])
    history.trim(Retention(0, 2**40), 2**60)
    assert (numbers(history, "episode"), numbers(history, "incident")) == ([2], [2])


def test_stories_from_a_recreated_topic_are_dropped(history: History) -> None:
    history.reset_changed_topics({EPISODES: "t-1"})
    history.append([*stories(checkout_group()), story(incident("g"))])
    history.reset_changed_topics({EPISODES: "t-2"})
    assert (numbers(history, "episode"), numbers(history, "incident")) == ([], [1])
    assert history.current_stories.newest == {}
    assert (EPISODES, 0) not in history.positions()


def test_failed_transaction_keeps_the_old_stories(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append([story(incident("g", 1))])
    before = history.current_stories
    monkeypatch.setattr(History, "_store_assignment", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        history.append([story(incident("g", 2), offset=1), TopicRecord(ASSIGNMENTS, 0, 0, b"g", None, None)])
    assert history.current_stories == before
    assert numbers(history, "incident") == [1]


def test_episode_with_a_future_time_is_not_the_newest(tmp_path: Path) -> None:
    first, second = (record.episode for record in episode_records(checkout_group()))
    ahead = msgspec.structs.replace(first, opened_at=first.opened_at + 1000 * 31_557_600_000)
    with open_history(tmp_path) as history:
        history.append([story(ahead), story(second, offset=1)])
        assert history.current_stories.newest[GROUP].episode == 2
        page = Archive(history.path).stories("episode", PageQuery(group=GROUP))
        assert [json.loads(item)["episode"] for item in page.items] == [2, 1]
        history.append([story(incident("g", 1, opened_at=ahead.opened_at)), story(incident("h", 1), offset=1)], 9)
    with open_history(tmp_path) as history:
        assert history.current_stories.newest[GROUP].episode == 2


def test_forgotten_group_starts_again_at_episode_one(history: History) -> None:
    first, second = (record.episode for record in episode_records(checkout_group()))
    again = msgspec.structs.replace(first, opened_at=second.updated_at + 1)
    history.append([story(first), story(second, offset=1), story(again, offset=2)])
    assert history.current_stories.newest[GROUP].opened_at == again.opened_at
    assert numbers(history, "episode") == [1]


def test_older_record_of_another_partition_is_ignored(history: History) -> None:
    first, over = incident("g", 1), incident("g", 1, closed_at=5)
    newer = msgspec.structs.replace(story(over), partition=1, timestamp=20)
    history.append([newer, msgspec.structs.replace(story(first), timestamp=10)])
    assert history.current_stories.open == {}
    history.append([msgspec.structs.replace(story(first), partition=2, timestamp=30)])
    assert [*history.current_stories.open] == [("g", 1)]


def test_undecodable_story_is_reported_as_damage(tmp_path: Path) -> None:
    with open_history(tmp_path) as history:
        history.append([story(incident("g"))])
        history._connection.execute("UPDATE stories SET body = x'00'")
        with pytest.raises(HistoryFailure, match="is damaged"):
            Archive(history.path).stories("incident", PageQuery())
    with pytest.raises(HistoryFailure, match="is damaged"):
        open_history(tmp_path)


def episodes_with_downtime(first: Downtime | None, second: Downtime | None, *, over: bool = True) -> list[TopicRecord]:
    earlier_episode, later = (record.episode for record in episode_records(checkout_group()))
    last = later if over else msgspec.structs.replace(later, closed_at=None, status="settling")
    return [
        story(msgspec.structs.replace(earlier_episode, downtime=first, closed_at=None, status="settling")),
        story(msgspec.structs.replace(earlier_episode, downtime=first), offset=1),
        story(msgspec.structs.replace(last, downtime=second), offset=2),
    ]


def test_downtime_totals_survive_a_restart(tmp_path: Path) -> None:
    bounded_downtime = Downtime(lower_ms=500, upper_ms=2000, bounded_ms=2000)
    half = Downtime(lower_ms=40, upper_ms=None, total_ms=(40, None), bounded_ms=70, unbounded=3)
    with open_history(tmp_path) as history:
        history.append(episodes_with_downtime(bounded_downtime, half, over=False))
        assert history.current_stories.downtime == {GROUP: DowntimeTotals(lower_ms=500, upper_ms=2000)}
        before = history.current_stories
    both = {GROUP: DowntimeTotals(lower_ms=540, upper_ms=2070, unbounded=3)}
    with open_history(tmp_path) as history:
        assert history.current_stories == before
        history.append(episodes_with_downtime(bounded_downtime, half)[2:])
        assert history.current_stories.downtime == both
        # The episodes' topic is created again, and the episodes' records are written again.
        history.reset_changed_topics({EPISODES: "t-1"})
        history.reset_changed_topics({EPISODES: "t-2"})
        history.append(episodes_with_downtime(bounded_downtime, half))
        assert history.current_stories.downtime == both
        archive = Archive(history.path)
        assert archive.group(GROUP, RESTARTED_MS)["downtimeToday"] == half
        assert archive.group(GROUP, 0)["downtimeToday"] == total_downtime([bounded_downtime, half])
        assert archive.group("another", 0)["downtimeToday"] is None


def test_downtime_metrics_exclude_unknown_bounds(history: History) -> None:
    groups = {name: apply_assignment(None, latest(checkout_group(name))) for name in ("g", GROUP, "connect-x")}
    groups["connect-x"] = msgspec.structs.replace(groups["connect-x"], kind="connect")
    history.append(episodes_with_downtime(Downtime(lower_ms=500, upper_ms=None, bounded_ms=2000, unbounded=2), None))
    text = generate_latest(Metrics(Board(history.round_range, groups, history.current_stories))).decode()
    name = "kafka_consumergroup_downtime"
    assert [line for line in text.splitlines() if line.startswith(name) and "_created" not in line] == [
        f'{name}_lower_seconds_total{{consumergroup="g"}} 0.0',
        f'{name}_lower_seconds_total{{consumergroup="{GROUP}"}} 0.5',
        f'{name}_upper_seconds_total{{consumergroup="g"}} 0.0',
        f'{name}_unbounded_partitions_total{{consumergroup="g"}} 0.0',
        f'{name}_unbounded_partitions_total{{consumergroup="{GROUP}"}} 2.0',
    ]
