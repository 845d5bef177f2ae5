from typing import Any

import pytest

from assignors.errors import BadInput
from streaming.simulation import changes
from streaming.simulation.changes import RollingRestart, request_change
from streaming.simulation.scenario import InvalidScenario


def test_rolling_restart_takes_batches_of_members_in_turn() -> None:
    assert changes.rolling_restart(["a", "b", "c"], parallel=2, down_ms=20_000, between_ms=30_000) == [
        {"at": changes.BEGIN_MS, "bounce": "a", "down_ms": 20_000},
        {"at": changes.BEGIN_MS, "bounce": "b", "down_ms": 20_000},
        {"at": changes.BEGIN_MS + 50_000 + 5 * 625, "bounce": "c", "down_ms": 20_000},
    ]


def test_scale_out_uses_new_names_and_scale_in_the_last() -> None:
    assert [event["join"] for event in changes.scale_events(["a", "new-2"], 4)] == ["new-1", "new-3"]
    assert [event["leave"] for event in changes.scale_events(["a", "b", "c"], 1)] == ["b", "c"]


@pytest.mark.parametrize("to", [0, 2])
def test_scale_to_the_same_or_no_size_is_refused(to: int) -> None:
    with pytest.raises(InvalidScenario, match=f"--scale {to}: the group has 2 members"):
        changes.scale_events(["a", "b"], to)


CONFIGS = {"a": {"topics": ["t"], "rack_id": "r1", "instance_id": "i"}, "b": {}, "c": {}}


def rollout(strategy: str, parallel: int | None = None) -> list[dict[str, Any]]:
    restart = RollingRestart(parallel, down_ms=20_000, between_ms=10_000)
    return changes.Rollout(strategy, restart).events(["c", "a", "b"], CONFIGS)


def test_surge_successors_join_before_members_leave() -> None:
    assert rollout("surge", 2) == [
        {"at": changes.BEGIN_MS, "join": "new-1", "topics": ["t"], "rack_id": "r1"},
        {"at": changes.BEGIN_MS, "join": "new-2"},
        {"at": changes.BEGIN_MS + 10_000, "leave": "a"},
        {"at": changes.BEGIN_MS + 10_000, "leave": "b"},
        {"at": changes.BEGIN_MS + 30_000, "join": "new-3"},
        {"at": changes.BEGIN_MS + 40_000, "leave": "c"},
    ]


def test_blue_green_doubles_the_group_for_a_while() -> None:
    events = rollout("blue-green")
    assert [event["join"] for event in events[:3]] == ["new-1", "new-2", "new-3"]
    assert events[3:] == [{"at": changes.BEGIN_MS + 10_000, "leave": name} for name in "abc"]


def test_recreate_stops_all_members_at_once() -> None:
    assert rollout("recreate") == [{"at": changes.BEGIN_MS, "bounce": name, "down_ms": 20_000} for name in "abc"]


def test_rollouts_are_requested_by_name() -> None:
    requested_change = request_change(BASELINE, {}, changes.Rollout("blue-green"))
    assert requested_change.what == "This blue-green rollout"
    assert [event.get("leave") for event in requested_change.document["events"]] == [None, None, "a", "b"]


GROUP = {"topics": {"t": {"partitions": 2}}, "members": {"b": {}, "a": {}}, "session_timeout_ms": 6000}
BASELINE = changes.Baseline(GROUP, "eager", "eager", "range")


def test_members_restart_in_the_order_of_their_names() -> None:
    change = request_change(BASELINE, {"processing_ms": 0}, RollingRestart(1, 1000, 2000))
    assert (change.what, change.start, change.measured) == ("This rolling restart", BASELINE, None)
    assert [event["bounce"] for event in change.document.pop("events")] == ["a", "b"]
    assert change.document == {**GROUP, "processing_ms": 0}


def test_deploy_file_sets_events_times_and_new_topics() -> None:
    document = {"topics": {"t": 9, "u": 1}, "events": [{"at": 5, "leave": "a"}], "session_timeout_ms": 7}
    expected = GROUP | document | {"topics": {"t": {"partitions": 2}, "u": 1}}
    assert request_change(BASELINE, {}, changes.Deploy(document)).document == expected


@pytest.mark.parametrize("document", [None, [], {"members": {}}, {"topics": [], "events": []}])
def test_invalid_deploy_file_is_rejected(document: object) -> None:
    with pytest.raises(InvalidScenario, match=r"^--deploy: "):
        request_change(BASELINE, {}, changes.Deploy(document))


def test_exactly_one_change_is_required() -> None:
    assert changes.single_change(None, changes.ScaleChange(3)) == changes.ScaleChange(3)
    for options in ((), (None,), (changes.ScaleChange(3), changes.ScaleChange(4))):
        with pytest.raises(BadInput, match="give exactly one of --rolling-restart"):
            changes.single_change(*options)


def test_twentieth_of_a_large_group_restarts_at_once() -> None:
    names = [f"m{number:03}" for number in range(100)]
    events = RollingRestart().events(names, len(names))
    assert [event["bounce"] for event in events] == names
    assert len({event["at"] for event in events}) == 20
    assert [changes.usual_batch_size(size) for size in (1, 39, 40, 1000)] == [1, 1, 2, 50]
