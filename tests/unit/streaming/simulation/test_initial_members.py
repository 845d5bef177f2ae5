"""Scenarios whose members own partitions at the start."""

from typing import Any

import pytest

from streaming.protocols.vocabulary import UnsupportedPair
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario, parse_scenario
from streaming.simulation.results import simulation_document as as_json
from streaming.simulation.scenario import InvalidScenario
from tests.support.machines import after, played, round_summary

_START_MS = 600_000
TWO_OWNERS = "topics: {t0: 2}\nmembers: {a: {owned: {t0: [0]}}, b: {owned: {t0: [1]}}}\n"


def _changes(at: int) -> list[dict[str, Any]]:
    return [
        {"at": at, "bounce": "c1", "down_ms": 20_000},
        {"at": at + 70_000, "crash": "c3"},
        {"at": at + 200_000, "join": "c4"},
        {"at": at + 270_000, "subscribe": "c2", "topics": ["t1"]},
        {"at": at + 340_000, "partitions": {"t0": 9}},
        {"at": at + 410_000, "leave": "c4"},
    ]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(
    ("protocol", "assignor"),
    [
        ("eager-v1", "range"),
        ("eager", "range"),
        ("eager", "sticky"),
        ("cooperative", "cooperative-sticky"),
        ("consumer", "uniform"),
        ("consumer", "range"),
    ],
)
def test_initial_members_rebalance_like_joined_members(protocol: str, assignor: str, *, static: bool) -> None:
    topics = {"t0": 7, "t1": 3}
    clients = {f"c{n}": {"instance_id": f"i-{n}"} if static else {} for n in (1, 2, 3)}
    joins = [{"at": 0, "join": name, **more} for name, more in clients.items()]
    whole = _simulate({"topics": topics, "events": joins + _changes(_START_MS)}, protocol, assignor)
    first = [round_entry for round_entry in whole["rounds"] if round_entry["at"] < _START_MS]
    settled, last = after(first[-1]), round_summary(first[-1])[0]
    members = {name: {"owned": settled[name], **more} for name, more in clients.items()}
    begun = _simulate(
        {"topics": topics, "members": members, "generation": last, "events": _changes(1000)}, protocol, assignor
    )
    later = [round_entry for round_entry in whole["rounds"] if round_entry["at"] >= _START_MS]
    assert [(round_summary(round_entry), round_entry["members"]) for round_entry in begun["rounds"]] == [
        (round_summary(round_entry), round_entry["members"]) for round_entry in later
    ]


def _simulate(document: dict[str, Any], protocol: str, assignor: str) -> dict[str, Any]:
    return as_json(run_scenario(parse_scenario(document), protocol, assignor))


def test_initial_ownership_gives_no_round_and_no_move() -> None:
    result = played(f"{TWO_OWNERS}events: []\n", "cooperative")
    assert (result["rounds"], result["moved"], result["unavailableMs"]) == ([], 0, {"t0": {"0": 0, "1": 0}})


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("{a: {owned: {t0: [0]}}, b: {owned: {t0: [0]}}}", "members.'b': owned.t0: 0 is also owned by a"),
        ("{a: {owned: {t0: [2]}}}", "members.'a': owned.t0: 2 is not a partition of the topic"),
        ("{a: {owned: {t9: [0]}}}", "members.'a': owned: 't9' is not a topic of this scenario"),
        ("{a: {owned: [0]}}", "members.'a': owned: Expected `object . null`, got `array`"),
        ("{a: {owned: {t0: 0}}}", "members.'a': owned.*: Expected `array`, got `int`"),
        ("{a~1: }", "members.'a~1': a member's name is text without ~"),
        ("{a: {own: {}}}", "own: unknown"),
        ("[a]", "members: Expected `object . null`, got `array`"),
        ("{a: 1}", "members.'a': Expected `object`, got `int`"),
    ],
)
def test_invalid_members_are_refused(members: str, message: str) -> None:
    with pytest.raises(InvalidScenario, match=message):
        load_scenario(f"topics: {{t0: 2}}\nmembers: {members}\nevents: []\n")


def test_initial_member_cannot_join_again() -> None:
    with pytest.raises(InvalidScenario, match="'a' is a member since 0 ms"):
        load_scenario("topics: {t0: 2}\nmembers: {a: }\nevents: [{at: 5, join: a}]\n")


@pytest.mark.parametrize("protocol", ["zookeeper", "connect"])
def test_zookeeper_and_connect_refuse_initial_members(protocol: str) -> None:
    with pytest.raises(UnsupportedPair, match=f"members: {protocol} can't start"):
        played("topics: {t0: 2}\nmembers: {a: }\nevents: []\n", protocol)


def test_scenario_topic_keeps_its_topic_id() -> None:
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    plan = load_scenario(f"topics: {{t0: {{partitions: 1, topic_id: {topic_id}}}}}\nevents: []\n")
    assert plan.topics["t0"].topic_id == topic_id
    with pytest.raises(InvalidScenario, match="topic_id"):
        load_scenario("topics: {t0: {partitions: 1, topic_id: x}}\nevents: []\n")


def test_timing_comes_from_the_scenario_if_set() -> None:
    text = f"{TWO_OWNERS}heartbeat_ms: 500\nprocessing_ms: 0\nevents: [{{at: 600, leave: a}}]\n"
    assert played(text, "eager")["longestGapMs"] < 500
