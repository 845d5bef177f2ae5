"""The documented scenario, its JSON format, and consistent rounds (after = kept + assigned) under every protocol."""

from typing import Any

import pytest

from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.simulation.builtin_scenarios import BUILTIN_SCENARIOS, load_builtin_scenario
from streaming.simulation.event_loop import protocol_assignor_pairs, run_scenario
from streaming.simulation.parse import load_scenario
from streaming.simulation.results import simulation_document as as_json
from streaming.simulation.scenario import InvalidScenario
from tests.support.machines import after, played, round_summary, scenario

CONTRACT_SCENARIO = scenario(
    "t0: 6, t1: 3",
    "at: 0, join: c1, topics: [t0, t1]",
    "at: 0, join: c2, topics: [t0, t1], instance_id: i-2, rack_id: r1",
    "at: 10000, bounce: c1, down_ms: 4000",
    "at: 20000, crash: c2",
    "at: 30000, leave: c1",
    "at: 40000, subscribe: c1, topics: [t1]",
    "at: 50000, partitions: {t0: 8}",
    session_timeout_ms=45000,
    rebalance_timeout_ms=60000,
    scheduled_rebalance_delay_ms=300000,
)
CAUSES = {
    *("member.joined", "member.left", "member.fenced", "member.subscription_changed"),
    *("topic.partitions_changed", "coordinator.failed"),
}
CHANGE_FIELDS = ("owned", "revoked", "assigned", "kept")


def topic_partitions(share: dict[str, list[int]]) -> set[tuple[str, int]]:
    return {(topic, partition) for topic, partitions in share.items() for partition in partitions}


def check_diff_algebra(answer: dict[str, Any], number: str) -> None:
    owned_before: dict[str, set[tuple[str, int]]] = {}
    last = (-1, -1)
    for entry in answer["rounds"]:
        assert set(entry) == {"at", number, "round", "cause", "members"}
        assert set(entry["cause"]) == {"kind", "memberIds"}
        assert entry["cause"]["kind"] in CAUSES
        assert (entry["at"], entry[number]) >= last
        last = (entry["at"], entry[number])
        owners: list[tuple[str, int]] = []
        for name, member in entry["members"].items():
            assert set(member) == set(CHANGE_FIELDS)
            owned, revoked, assigned, kept = map(topic_partitions, (member[key] for key in CHANGE_FIELDS))
            assert kept == owned - revoked
            assert revoked <= owned
            assert not assigned & owned
            assert owned == owned_before.get(name, set())
            owned_before[name] = kept | assigned
            owners += owned_before[name]
            for share in member.values():
                assert all(partitions == sorted(partitions) and partitions for partitions in share.values())
        assert len(owners) == len(set(owners))
        assert {name for name, share in owned_before.items() if share} <= set(entry["members"])
    assert answer["rebalances"] == sum(entry["round"] == 1 for entry in answer["rounds"])


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_simulation_result_has_the_fields_of_the_contract(protocol: str) -> None:
    answer = played(CONTRACT_SCENARIO, protocol)
    assert set(answer) == {"rounds", "requests", "rebalances", "moved", "unavailableMs", "longestGapMs"}
    check_diff_algebra(answer, "groupEpoch" if protocol == "consumer" else "generation")
    last = after(answer["rounds"][-1])
    all_partitions = {(topic, p) for topic, count in (("t0", 8), ("t1", 3)) for p in range(count)}
    wanted = all_partitions if protocol == "connect" else {("t1", 0), ("t1", 1), ("t1", 2)}
    assert topic_partitions(last["c1"]) == wanted
    assert answer["longestGapMs"] <= max(ms for topic in answer["unavailableMs"].values() for ms in topic.values())


@pytest.mark.parametrize("name", BUILTIN_SCENARIOS)
@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_built_in_scenario_assigns_every_partition_repeatably(name: str, protocol: str) -> None:
    scenario = load_builtin_scenario(name)
    simulation = run_scenario(scenario, protocol)
    check_diff_algebra(as_json(simulation), "groupEpoch" if protocol == "consumer" else "generation")
    last = simulation.result.rounds[-1].after
    count = simulation.result.counts["orders"]
    assert sorted(p for share in last.values() for p in share.get("orders", ())) == list(range(count))
    assert as_json(run_scenario(scenario, protocol)) == as_json(simulation)


def test_protocols_rank_as_documented_in_downtime_and_moves() -> None:
    scenario = load_builtin_scenario("rolling-restart", 6, 24)
    total = {protocol: run_scenario(scenario, protocol).unavailable_ms for protocol in PROTOCOL_FAMILIES}
    assert total["cooperative"] < total["eager"]
    assert total["consumer"] < total["eager"]
    deploy = load_builtin_scenario("deploy-static", 4, 12)
    moved = {protocol: run_scenario(deploy, protocol).result.moved for protocol in PROTOCOL_FAMILIES}
    assert (moved["eager"], moved["cooperative"]) == (0, 0)
    assert moved["eager-v1"] > 0


def test_joins_in_the_initial_delay_are_one_generation() -> None:
    text = scenario("t: 4", *(f"at: {at}, join: c{at}, topics: [t]" for at in (0, 500, 2500, 5000, 20_000)))
    rounds = played(text, "eager")["rounds"]
    assert [round_summary(entry) for entry in rounds] == [
        (1, 1, "member.joined", ["c0", "c500", "c2500", "c5000"]),
        (2, 1, "member.joined", ["c20000"]),
    ]


def test_pause_within_the_session_timeout_gives_no_rebalance() -> None:
    text = "topics: {t: 2}\nevents: [{at: 0, join: a}, {at: 0, join: b}, {at: 60000, pause: b, down_ms: %d}]"
    for protocol in PROTOCOL_FAMILIES:
        short_simulation = played(text % 20_000, protocol)
        assert [entry for entry in short_simulation["rounds"] if entry["at"] > 60_000] == [], protocol
        assert short_simulation["longestGapMs"] >= 20_000
    kinds = [round_summary(entry)[2] for entry in played(text % 70_000, "eager")["rounds"]]
    assert kinds == ["member.joined", "member.fenced", "member.joined"]


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_scenario_may_last_for_days(protocol: str) -> None:
    """A group must become stable within a day after the scenario's last event, however long the scenario lasts."""
    day_ms = 24 * 3600 * 1000
    text = scenario("t: 4", "at: 0, join: a", f"at: {2 * day_ms}, join: b", f"at: {4 * day_ms}, leave: b")
    last = played(text, protocol)["rounds"][-1]
    assert last["at"] >= 4 * day_ms
    assert {name: share for name, share in after(last).items() if share} == {"a": {"t": [0, 1, 2, 3]}}


def test_duplicate_instance_id_fences_the_earlier_member() -> None:
    text = scenario(
        "t: 4",
        "at: 0, join: c1, topics: [t], instance_id: i-1",
        "at: 0, join: c2, topics: [t], instance_id: i-2",
        "at: 60000, join: c9, topics: [t], instance_id: i-2",
        "at: 90000, join: c4, topics: [t]",
    )
    answer = played(text, "eager")
    # The replacement causes no rebalance; in the next round the new process owns the partitions.
    assert [round_summary(entry)[2:] for entry in answer["rounds"]] == [
        ("member.joined", ["c1", "c2"]),
        ("member.joined", ["c4"]),
    ]
    assert answer["rounds"][1]["members"]["c9"]["owned"] == {"t": [2, 3]}
    assert "c2" not in answer["rounds"][1]["members"]


def test_simulation_options_give_protocol_assignor_pairs() -> None:
    assert protocol_assignor_pairs([], []) == [(name, family.default) for name, family in PROTOCOL_FAMILIES.items()]
    assert dict(protocol_assignor_pairs(["all"], ["roundrobin", "consumer=range"])) == {
        "zookeeper": "roundrobin",
        "eager-v1": "roundrobin",
        "eager": "roundrobin",
        "cooperative": "cooperative-sticky",
        "connect": "incremental",
        "consumer": "range",
    }
    assert protocol_assignor_pairs(["eager", "eager"], ["sticky"]) == [("eager", "sticky")]
    with pytest.raises(Exception, match="no protocol can run 'best'"):
        protocol_assignor_pairs(["all"], ["best"])
    with pytest.raises(Exception, match="cooperative can't run 'range'"):
        protocol_assignor_pairs(["eager", "cooperative"], ["range"])


def test_members_without_topics_count_as_members() -> None:
    text = "topics: {t: 4}\nevents: [{at: 0, join: a, topics: []}]"
    for protocol in PROTOCOL_FAMILIES:
        rounds = played(text, protocol)["rounds"]
        share = {"t": [0, 1, 2, 3]} if protocol == "connect" else {}  # workers run every connector
        assert [after(entry) for entry in rounds] == [{"a": share}], protocol


def test_missing_common_assignor_names_the_event() -> None:
    text = scenario("t: 4", "at: 0, join: a, assignors: [range]", "at: 9000, join: b, assignors: [sticky]")
    with pytest.raises(
        InvalidScenario, match=r"^event 2 \(join b\): assignors: the members have no assignor in common"
    ):
        run_scenario(load_scenario(text), "eager")


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_process_ended_by_a_duplicate_instance_id_stays_ended(protocol: str) -> None:
    text = scenario(
        "t: 4",
        "at: 0, join: a, instance_id: i",
        "at: 60000, join: b, instance_id: i",
        "at: 90000, subscribe: a, topics: [t]",
        "at: 91000, leave: b",
        "at: 99000, leave: a",
    )
    last = played(text, protocol)["rounds"][-1]
    assert {share for member_share in after(last).values() for share in member_share} == set()


@pytest.mark.parametrize(("members", "gone"), [(2, 1), (3, 1), (7, 1), (8, 2), (13, 3)])
def test_quarter_of_the_members_leaves_on_scale_in(members: int, gone: int) -> None:
    leaves = [event for event in load_builtin_scenario("scale-in", members, 4).events if event.kind == "leave"]
    assert len({event.member for event in leaves}) == len(leaves) == gone
