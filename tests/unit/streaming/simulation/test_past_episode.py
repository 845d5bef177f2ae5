from typing import Any

import pytest
from msgspec import structs

from streaming.records.diffs import Diff
from streaming.records.episodes import Downtime, Episode
from streaming.records.events import Evidence
from streaming.simulation.changes import BEGIN_MS, NoForecast
from streaming.simulation.forecast import forecast_change
from streaming.simulation.past_episode import find_episode, forecast_past_episode, past_change
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import checkout_group, episode_records


def episodes(builder: DiffBuilder) -> list[Episode]:
    return [record.episode for record in episode_records(builder)]


def rounds(builder: DiffBuilder, episode: Episode) -> list[Diff]:
    diff_by_id = dict(builder.diffs)
    return [diff_by_id[diff_id] for diff_id in episode.rounds]


def replay_episode(builder: DiffBuilder, which: str = "last", **more: Any) -> Any:
    episode = find_episode(builder.group_id, episodes(builder), which)
    episode = structs.replace(episode, **more)
    return past_change(episode, rounds(builder, episode), None, {"processing_ms": 0})


def test_rejoined_member_restarted_with_its_measured_pause() -> None:
    replay = replay_episode(checkout_group())
    assert replay.document["events"] == [
        {"at": BEGIN_MS, "bounce": "pay (h1)", "down_ms": 5000},
        {"at": BEGIN_MS + 10_000, "bounce": "pay (h2)", "down_ms": 5000},
    ]
    assert sorted(replay.start.members) == ["pay (h1)", "pay (h2)", "web-0"]
    assert replay.document["topics"] == {"t": {"partitions": 6, "racks": None}}
    assert replay.what.startswith("The rolling-restart of 2023-11-14T22:23:21")
    assert replay.measured is None
    answer = forecast_change(replay)
    assert answer.own == "eager"
    assert answer.costs[0].simulation.result.rebalances == 4


def test_joins_leaves_and_crashes_become_scenario_events() -> None:
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1", "c@h3#1")
    builder.join("d@h4#1", after=600).leave("b@h2#1", after=10)
    assert replay_episode(builder).document["events"] == [
        {"at": BEGIN_MS, "join": "d", "instance_id": None},
        {"at": BEGIN_MS + 10_000, "leave": "b"},
    ]
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1", "c@h3#1").fence("b@h2#1", after=600)
    assert replay_episode(builder).document["events"] == [{"at": BEGIN_MS, "crash": "b"}]


def test_measured_values_are_listed_beside_the_forecast() -> None:
    answer = forecast_change(replay_episode(checkout_group(), downtime=Downtime(lower_ms=4000, upper_ms=None)))
    assert answer.sentence.endswith(" When it happened, at least 4.0 s were measured.")
    assert not any("believe the measurement" in line for line in answer.unsure)


@pytest.mark.parametrize(("lower_ms", "upper_ms"), [(0, 2000), (9_000_000, None), (0, 0)])
def test_forecast_outside_the_measured_bounds_is_marked(lower_ms: int, upper_ms: int | None) -> None:
    answer = forecast_change(replay_episode(checkout_group(), downtime=Downtime(lower_ms=lower_ms, upper_ms=upper_ms)))
    assert sum("believe the measurement" in line for line in answer.unsure) == 1


def test_returning_killed_group_was_down_for_its_session_too() -> None:
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1")
    builder.fence("a@h1#1", "b@h2#1", after=600).join("a@h1#2", "b@h2#2", after=5)
    replay = replay_episode(builder)
    kinds = [next(key for key in event if key in ("crash", "join", "bounce")) for event in replay.document["events"]]
    assert kinds == ["crash", "crash", "join", "join"]
    crash_time, back = (replay.document["events"][number]["at"] for number in (0, 3))
    assert back - crash_time >= replay.document["session_timeout_ms"]
    assert forecast_change(replay).costs[0].worst_ms >= replay.document["session_timeout_ms"]


def test_replay_lists_unknown_rounds_and_a_deleted_group() -> None:
    unknown_parts = replay_episode(checkout_group(), round_count=9).start.unsure
    assert any("the group is gone" in line for line in unknown_parts)
    assert "4 of the episode's 9 rounds are known, the last ones" in unknown_parts


def test_episode_is_found_by_number_or_last() -> None:
    known_episodes = episodes(checkout_group())
    assert find_episode("g", known_episodes, "1").kind == "first-start"
    assert find_episode("g", known_episodes, "last").kind == "rolling-restart"
    with pytest.raises(NoForecast, match="--from 9: group g has no such episode; there are 1 to 2"):
        find_episode("g", known_episodes, "9")
    with pytest.raises(NoForecast, match="--from last: group g has no episode in which members"):
        find_episode("g", [], "last")


def test_episode_without_rounds_or_members_is_not_replayed() -> None:
    builder = checkout_group()
    first, second = episodes(builder)
    with pytest.raises(NoForecast, match="episode 2: the diff topic no longer has any of its rounds"):
        past_change(second, [], None, {})
    with pytest.raises(NoForecast, match="group team/checkout: it has no members now"):
        past_change(first, rounds(builder, first), None, {})


def forecast_numbers(builder: DiffBuilder, **more: Any) -> tuple[int, int] | None:
    """Simulate the last episode of the built group; return the numbers of rebalances and of moved partitions."""
    episode = structs.replace(find_episode("g", episodes(builder), "last"), **more)
    cost = forecast_past_episode(episode, rounds(builder, episode), None, {"processing_ms": 0})
    return None if cost is None else (cost.simulation.result.rebalances, cost.simulation.result.moved)


def test_episode_is_replayed_as_it_happened() -> None:
    episode = find_episode("g", episodes(checkout_group()), "last")
    rebalances, _ = forecast_numbers(checkout_group()) or (None, None)
    assert rebalances == episode.rebalances


def test_migration_is_replayed_as_a_migration() -> None:
    builder = checkout_group()
    ce_id, last = builder.diffs[-1]
    builder.diffs[-1] = (ce_id, structs.replace(last, protocol="consumer", assignor="uniform"))
    assert forecast_numbers(builder, kind="protocol-migration") is not None


def test_assignor_change_or_missing_rounds_give_no_replay() -> None:
    assert forecast_numbers(checkout_group(), kind="assignor-change") is None
    assert forecast_numbers(checkout_group(), round_count=99) is None


def test_successor_joining_before_session_end_follows_a_crash() -> None:
    """A crash and the successor's join are in one round, as the rebalance waits until the crashed session expires."""
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1")
    ended = Evidence(source="group-records", reason="ended", member_ids=["a@h1#1"], kind="member.fenced")
    builder.round("member.joined", joined=("a@h9#2",), gone=("a@h1#1",), after=600, evidence=(ended,))
    assert replay_episode(builder).document["events"] == [
        {"at": BEGIN_MS, "crash": "a"},
        {"at": BEGIN_MS + 45_000, "join": "a", "instance_id": None},
    ]
