"""The JoinGroup protocols' finer points, each from a scenario: requests by kind, timeouts, who is out when."""

from __future__ import annotations

import pytest

from streaming.protocols.classic.group import SessionExpired
from streaming.protocols.vocabulary import After, Client, Crash, Freeze, Start, Subscribe, Thaw
from tests.support.machines import Driver, after, played, scenario, told, topics


@pytest.mark.parametrize(("instance", "joins"), [("", 2), (", instance_id: i", 1)])
def test_a_dynamic_member_is_told_its_id_first(instance: str, joins: int) -> None:
    text = f"topics: {{p: 4}}\nevents: [{{at: 0, join: a{instance}}}]"
    assert played(text, "eager")["requests"] == {"FindCoordinator": 1, "JoinGroup": joins, "SyncGroup": 1}
    # The first version knows neither member ids in advance nor SyncGroup.
    assert played(text, "eager-v1")["requests"] == {"FindCoordinator": 1, "JoinGroup": 1}


def test_a_member_that_does_not_rejoin_is_out_with_its_session_and_comes_back_with_nothing() -> None:
    text = scenario(
        "p: 4",
        "at: 0, join: a",
        "at: 0, join: b",
        "at: 60000, pause: b, down_ms: 100000",
        "at: 61000, join: c",
        session_timeout_ms=10000,
        rebalance_timeout_ms=20000,
    )
    rounds = played(text, "cooperative")["rounds"]
    assert [(told(one), after(one)) for one in rounds] == [
        ((1, 1, "member.joined", ["a", "b"]), {"a": {"p": [0, 2]}, "b": {"p": [1, 3]}}),
        # The join phase waits for b until its session is over; its partitions are free at once.
        ((2, 1, "member.joined", ["c"]), {"a": {"p": [0, 2]}, "c": {"p": [1, 3]}, "b": {}}),
        ((3, 1, "member.joined", ["b"]), {"a": {"p": [0, 2]}, "c": {"p": [1]}, "b": {}}),
        ((4, 2, "member.joined", ["b"]), {"a": {"p": [0, 2]}, "c": {"p": [1]}, "b": {"p": [3]}}),
    ]
    assert 60_000 + 10_000 - 3000 <= rounds[1]["at"] <= 60_000 + 10_000 + 10


def test_only_the_first_version_loses_the_group_with_its_coordinator() -> None:
    text = scenario("p: 4", "at: 0, join: a", "at: 0, join: b", "at: 60000, coordinator_fails: true")
    answers = {
        protocol: played(text, protocol) for protocol in ("eager-v1", "eager", "cooperative", "consumer")
    }
    again = {
        name: [told(one) for one in one["rounds"] if one["at"] >= 60_000] for name, one in answers.items()
    }
    assert again == {
        "eager-v1": [(2, 1, "member.joined", ["a", "b"])],
        "eager": [],
        "cooperative": [],
        "consumer": [],
    }
    assert {answer["requests"]["FindCoordinator"] for answer in answers.values()} == {4}


def test_stop_the_world_is_counted_per_partition() -> None:
    text = scenario("p: 4", "at: 0, join: a", "at: 60000, join: b")
    eager, cooperative = (
        played(text, protocol)["unavailableMs"]["p"] for protocol in ("eager", "cooperative")
    )
    start = min(cooperative.values())
    assert all(ms > start for ms in eager.values())
    assert sorted(ms > start for ms in cooperative.values()) == [False, False, True, True]


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_a_member_that_freezes_while_its_join_group_is_on_its_way_sends_it_again(protocol: str) -> None:
    driver = Driver(protocol, topics(t0=2, t1=2))
    client = Client("a", ("t0",), assignors=("cooperative-sticky", "range"))
    driver.tell(Start(0, (client,)))
    driver.settle()
    assert driver.machine.owned(driver.state) == {"a": {"t0": [0, 1]}}
    driver.tell(Subscribe(driver.now, ("a",), ("t0", "t1")))
    driver.tell(Freeze(driver.now, ("a",)))
    driver.until(driver.now + 5000)
    driver.tell(Thaw(driver.now, ("a",)))
    driver.settle()
    assert driver.machine.owned(driver.state) == {"a": {"t0": [0, 1], "t1": [0, 1]}}


def test_the_session_of_a_member_that_crashes_as_it_joins_counts_from_its_last_heartbeat() -> None:
    driver = Driver("eager", topics(t0=2, t1=2), session_timeout_ms=10_000)
    driver.tell(Start(0, (Client("a", ("t0",)), Client("b", ("t0",)))))
    driver.until(33_000)
    driver.tell(Subscribe(33_000, ("b",), ("t0", "t1")))
    (ended,) = (
        output.event
        for output in driver.tell(Crash(33_000, ("b",)))
        if isinstance(output, After) and isinstance(output.event, SessionExpired)
    )
    assert 33_000 - driver.machine.setup.timing.heartbeat_ms < ended.at - 10_000 <= 33_000


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_the_leader_stays_until_it_goes_and_whoever_joins_then_takes_over(protocol: str) -> None:
    """It is the leader alone that looks at partition counts and asks for a rebalance when they change."""
    driver = Driver(protocol, topics(p=4))
    leaders = []
    for at, name in enumerate("abc"):
        driver.tell(Start(at * 60_000, (Client(name, ("p",)),)))
        driver.until((at + 1) * 60_000)
        leaders.append(driver.state.leader)
    driver.tell(Crash(180_000, ("a",)))
    driver.until(300_000)
    assert leaders == ["a", "a", "a"]
    assert driver.state.leader in ("b", "c")


@pytest.mark.parametrize(
    ("protocol", "grown", "causes"),
    [
        ("eager", "q", []),
        ("eager", "p", ["topic.partitions_changed"]),
        ("cooperative", "q", []),
        ("cooperative", "p", ["topic.partitions_changed"]),
        ("connect", "q", ["topic.partitions_changed"]),  # workers run every connector
    ],
)
def test_only_what_the_group_subscribes_to_makes_it_rebalance_when_it_grows(
    protocol: str, grown: str, causes: list[str]
) -> None:
    text = scenario(
        "p: 4, q: 2",
        "at: 0, join: a, topics: [p]",
        "at: 0, join: b, topics: [p]",
        f"at: 60000, partitions: {{{grown}: 6}}",
    )
    rounds = played(text, protocol)["rounds"]
    assert [one["cause"]["kind"] for one in rounds if one["at"] >= 60_000 and one["round"] == 1] == causes
