"""Classic groups (JoinGroup) in simulated scenarios: requests by kind, timeouts, and removed members."""

import pytest

from streaming.protocols import vocabulary
from streaming.protocols.classic.step import SessionExpired
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.protocols.vocabulary import Client, Crash, ShutDown, Start, TopicsChanged
from tests.support.machines import StateMachineDriver, after, played, round_summary, scenario, topics


@pytest.mark.parametrize(("instance", "joins"), [("", 2), (", instance_id: i", 1)])
def test_dynamic_member_receives_its_id_first(instance: str, joins: int) -> None:
    text = f"topics: {{p: 4}}\nevents: [{{at: 0, join: a{instance}}}]"
    assert played(text, "eager")["requests"] == {"FindCoordinator": 1, "JoinGroup": joins, "SyncGroup": 1}
    # The first protocol version has neither member ids before the join nor SyncGroup.
    assert played(text, "eager-v1")["requests"] == {"FindCoordinator": 1, "JoinGroup": 1}


def test_member_that_does_not_rejoin_is_removed_and_restarts() -> None:
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
    assert [(round_summary(entry), after(entry)) for entry in rounds] == [
        ((1, 1, "member.joined", ["a", "b"]), {"a": {"p": [0, 2]}, "b": {"p": [1, 3]}}),
        # The join phase waits for b until b's session ends; b's partitions have no owner at once.
        ((2, 1, "member.joined", ["c"]), {"a": {"p": [0, 2]}, "c": {"p": [1, 3]}, "b": {}}),
        ((3, 1, "member.joined", ["b"]), {"a": {"p": [0, 2]}, "c": {"p": [1]}, "b": {}}),
        ((4, 2, "member.joined", ["b"]), {"a": {"p": [0, 2]}, "c": {"p": [1]}, "b": {"p": [3]}}),
    ]
    assert 60_000 + 10_000 - 3000 <= rounds[1]["at"] <= 60_000 + 10_000 + 10


def test_only_protocol_v0_loses_the_group_with_coordinator() -> None:
    text = scenario("p: 4", "at: 0, join: a", "at: 0, join: b", "at: 60000, coordinator_fails: true")
    results = {protocol: played(text, protocol) for protocol in ("eager-v1", "eager", "cooperative", "consumer")}
    again = {
        name: [round_summary(result) for result in result["rounds"] if result["at"] >= 60_000]
        for name, result in results.items()
    }
    assert again == {"eager-v1": [(2, 1, "member.joined", ["a", "b"])], "eager": [], "cooperative": [], "consumer": []}
    assert {answer["requests"]["FindCoordinator"] for answer in results.values()} == {4}


def test_stop_the_world_is_counted_per_partition() -> None:
    text = scenario("p: 4", "at: 0, join: a", "at: 60000, join: b")
    eager, cooperative = (played(text, protocol)["unavailableMs"]["p"] for protocol in ("eager", "cooperative"))
    start = min(cooperative.values())
    assert all(ms > start for ms in eager.values())
    assert sorted(ms > start for ms in cooperative.values()) == [False, False, True, True]


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_member_frozen_during_join_sends_it_again(protocol: str) -> None:
    driver = StateMachineDriver(protocol, topics(t0=2, t1=2))
    client = Client("a", ("t0",), assignors=("cooperative-sticky", "range"))
    driver.apply(Start(0, (client,)))
    driver.settle()
    assert driver.machine.owned(driver.state) == {"a": {"t0": [0, 1]}}
    driver.apply(vocabulary.Subscribe(driver.now, ("a",), ("t0", "t1")))
    driver.apply(vocabulary.Freeze(driver.now, ("a",)))
    driver.until(driver.now + 5000)
    driver.apply(vocabulary.Thaw(driver.now, ("a",)))
    driver.settle()
    assert driver.machine.owned(driver.state) == {"a": {"t0": [0, 1], "t1": [0, 1]}}


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_resumed_leader_notices_grown_topics(protocol: str) -> None:
    driver = StateMachineDriver(protocol, topics(p=2))
    driver.apply(Start(0, (Client("a", ("p",)), Client("b", ("p",)))))
    driver.until(30_000)
    leader = driver.state.leader
    driver.apply(vocabulary.Freeze(30_000, (leader,)))
    driver.apply(TopicsChanged(30_010, topics(p=4)))
    driver.until(35_000)
    assert driver.state.generation == 1
    driver.apply(vocabulary.Thaw(35_000, (leader,)))
    driver.until(60_000)
    assert driver.state.generation == 2
    shares = driver.machine.owned(driver.state).values()
    assert sorted(number for share in shares for number in share["p"]) == [0, 1, 2, 3]


def test_v0_coordinator_move_forgets_a_frozen_member() -> None:
    driver = StateMachineDriver("eager-v1", topics(p=2), session_timeout_ms=20_000)
    driver.apply(Start(0, (Client("a", ("p",)), Client("b", ("p",)))))
    driver.until(30_000)
    driver.apply(vocabulary.Freeze(30_000, ("b",)))
    call = driver.state.members["b"].call
    driver.apply(vocabulary.CoordinatorFails(30_010))
    frozen = driver.state.members["b"]
    assert (frozen.is_member, frozen.owned, frozen.member_id, frozen.call) == (False, {}, "", call + 1)
    driver.until(45_000)
    assert driver.machine.owned(driver.state) == {"a": {"p": [0, 1]}}  # the group waits for no member's session to end
    driver.apply(vocabulary.Thaw(45_000, ("b",)))
    driver.settle()
    assert driver.machine.owned(driver.state) == {"a": {"p": [0]}, "b": {"p": [1]}}


def test_session_of_member_crashing_at_join_counts_heartbeat() -> None:
    driver = StateMachineDriver("eager", topics(t0=2, t1=2), session_timeout_ms=10_000)
    driver.apply(Start(0, (Client("a", ("t0",)), Client("b", ("t0",)))))
    driver.until(33_000)
    driver.apply(vocabulary.Subscribe(33_000, ("b",), ("t0", "t1")))
    (ended,) = (
        output.event
        for output in driver.apply(Crash(33_000, ("b",)))
        if isinstance(output, vocabulary.EventScheduled) and isinstance(output.event, SessionExpired)
    )
    assert 33_000 - driver.machine.setup.timing.heartbeat_ms < ended.at - 10_000 <= 33_000


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_leader_stays_until_it_leaves_then_a_later_joiner_leads(protocol: str) -> None:
    """Only the leader checks partition counts and requests a rebalance when they change."""
    driver = StateMachineDriver(protocol, topics(p=4))
    leaders = []
    for at, name in enumerate("abc"):
        driver.apply(Start(at * 60_000, (Client(name, ("p",)),)))
        driver.until((at + 1) * 60_000)
        leaders.append(driver.state.leader)
    driver.apply(Crash(180_000, ("a",)))
    driver.until(300_000)
    assert leaders == ["a", "a", "a"]
    assert driver.state.leader in ("b", "c")


@pytest.mark.parametrize(
    ("protocol", "grown", "causes"),
    [
        ("eager-v1", "q", []),
        ("eager-v1", "p", ["topic.partitions_changed"]),
        ("eager", "q", []),
        ("eager", "p", ["topic.partitions_changed"]),
        ("cooperative", "q", []),
        ("cooperative", "p", ["topic.partitions_changed"]),
        ("connect", "q", ["topic.partitions_changed"]),  # workers run every connector
    ],
)
def test_only_added_partitions_of_subscribed_topics_rebalance(protocol: str, grown: str, causes: list[str]) -> None:
    text = scenario(
        "p: 4, q: 2",
        "at: 0, join: a, topics: [p]",
        "at: 0, join: b, topics: [p]",
        f"at: 60000, partitions: {{{grown}: 6}}",
    )
    rounds = played(text, protocol)["rounds"]
    assert [entry["cause"]["kind"] for entry in rounds if entry["at"] >= 60_000 and entry["round"] == 1] == causes


@pytest.mark.parametrize(
    ("protocol", "ways"),
    [
        ("eager", [2, 2, 1, 3000, 1, 2]),  # find the coordinator, get an id, join, wait for the delay, sync
        ("eager-v1", [2, 1, 3000, 1]),
        ("consumer", [2, 1]),  # the coordinator is informed at once
    ],
)
def test_each_simulated_request_takes_network_time(protocol: str, ways: list[int]) -> None:
    (first,) = played(scenario("p: 4", "at: 0, join: a"), protocol)["rounds"]
    assert first["at"] == sum(ways)


@pytest.mark.parametrize("protocol", ["eager-v1", "eager", "cooperative", "consumer"])
def test_restarted_process_has_a_new_member_name(protocol: str) -> None:
    crash_and_join_events = [f"at: {at}, {what}: a" for at in (60_000, 62_000) for what in ("crash", "join")]
    rounds = played(scenario("p: 4", "at: 0, join: a", "at: 0, join: b", *crash_and_join_events), protocol)["rounds"]
    assert {name for entry in rounds for name in entry["members"]} == {"a", "a~1", "a~2", "b"}


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_pause_shorter_than_the_session_changes_nothing(protocol: str) -> None:
    text = scenario(
        "p: 4",
        *("at: 0, join: a", "at: 0, join: b"),
        *(f"at: {at}, pause: b, down_ms: 3000" for at in (60_000, 70_000)),
        session_timeout_ms=10_000,
    )
    assert [round_summary(entry) for entry in played(text, protocol)["rounds"] if entry["at"] >= 60_000] == []


@pytest.mark.parametrize("protocol", [name for name in PROTOCOL_FAMILIES if name != "consumer"])
def test_members_starting_together_are_one_round(protocol: str) -> None:
    """Two processes of one deployment join a millisecond apart.

    A classic coordinator waits group.initial.rebalance.delay.ms for more members; a KIP-848 coordinator does not wait.
    """
    (first,) = played(scenario("p: 4", "at: 0, join: a", "at: 1, join: b"), protocol)["rounds"]
    assert first["cause"]["memberIds"] == ["a", "b"]
    assert sorted(p for share in after(first).values() for p in share["p"]) == [0, 1, 2, 3]
    assert {len(share["p"]) for share in after(first).values()} == {2}


STATIC_JOINS = [f"at: 0, join: {name}, instance_id: i-{name}" for name in "abc"]


@pytest.mark.parametrize(("protocol", "static_partitions"), [("eager", "23"), ("cooperative", "14")])
def test_partitions_of_static_member_wait_for_its_return(protocol: str, static_partitions: str) -> None:
    """A static member that returns after 500 ms keeps its partitions without a rebalance."""
    text = scenario("p: 5", *STATIC_JOINS, "at: 60000, bounce: b, down_ms: 500", session_timeout_ms=10_000)
    answer = played(text, protocol)
    unavailable_ms = answer["unavailableMs"]["p"]
    least = min(unavailable_ms.values())
    assert len(answer["rounds"]) == 1
    assert {name: 500 < ms - least < 520 for name, ms in unavailable_ms.items()} == {
        name: name in static_partitions for name in "01234"
    }


def test_static_consumer_keeps_partitions_while_another_joins() -> None:
    events = "at: 60000, bounce: b, down_ms: 500", "at: 60000, join: d"
    text = scenario("p: 5", *STATIC_JOINS, *events, session_timeout_ms=10_000)
    *_, first, second = played(text, "consumer")["rounds"]
    kept = {"owned": {"p": [2]}, "revoked": {}, "assigned": {}, "kept": {"p": [2]}}
    assert [entry["members"]["b"] for entry in (first, second)] == [kept, kept]


@pytest.mark.parametrize("pause_ms", [60_000, 60_005, 60_010])
def test_consumer_paused_during_a_rebalance_catches_up(pause_ms: int) -> None:
    text = scenario(
        "p: 5",
        *("at: 0, join: a", "at: 0, join: b", "at: 60000, join: c"),
        f"at: {pause_ms}, pause: b, down_ms: 1",
        session_timeout_ms=10_000,
    )
    last = played(text, "zookeeper")["rounds"][-1]
    assert after(last) == {"a": {"p": [0, 1]}, "b": {"p": [2, 3]}, "c": {"p": [4]}}


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_topics_of_only_a_fenced_member_are_unsubscribed(protocol: str) -> None:
    """Partitions of a topic without subscribed members do not count as downtime."""
    driver = StateMachineDriver(protocol, topics(p=2, q=2))
    driver.apply(Start(0, (Client("a", ("p",), "i"), Client("b", ("q",)))))
    driver.settle()
    driver.outputs.clear()
    driver.apply(Start(driver.now, (Client("c", ("q",), "i"),)))
    driver.settle()
    ended = [output for output in driver.outputs if isinstance(output, vocabulary.FatalErrors)]
    wanted = [output for output in driver.outputs if isinstance(output, vocabulary.SubscribedTopics)]
    assert (ended, wanted) == ([vocabulary.FatalErrors(("a",))], [vocabulary.SubscribedTopics(frozenset({"q"}))])


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
@pytest.mark.parametrize("stays", ["a", "b", "c"])
def test_present_member_leads_while_static_members_are_away(protocol: str, stays: str) -> None:
    driver = StateMachineDriver(protocol, topics(p=3, q=1), session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
    driver.apply(Start(0, tuple(Client(name, ("p",), f"i-{name}") for name in "abc")))
    driver.until(60_000)
    driver.apply(ShutDown(60_000, tuple(name for name in "abc" if name != stays)))
    driver.apply(vocabulary.Subscribe(60_001, (stays,), ("p", "q")))
    driver.until(95_000)
    rounds = [output for output in driver.outputs if isinstance(output, vocabulary.NewRound)]
    assert [entry.number for entry in rounds] == [1, 2]
    assert rounds[1].after[stays]["q"] == [0]
    assert driver.machine.owned(driver.state) == {stays: rounds[1].after[stays]}
    assert {name for name, share in rounds[1].after.items() if share} == {"a", "b", "c"}


def test_connect_delay_ends_after_the_assignment_arrives() -> None:
    timing = {"heartbeat_ms": 4, "processing_ms": 4, "initial_rebalance_delay_ms": 0}
    driver = StateMachineDriver("connect", topics(t=8), scheduled_rebalance_delay_ms=11, **timing)
    returning_worker = Client("e", (), "i-e")
    driver.apply(Start(0, (Client("d", ()),)))
    driver.until(100)
    driver.apply(Start(100, (returning_worker,)))
    driver.until(201)
    driver.apply(ShutDown(201, ("e",)))
    driver.until(205)
    # The rest of the delay ends while the leader's new assignment is on its way.
    driver.apply(Start(205, (returning_worker,)))
    driver.settle()
    assert {name: len(share["t"]) for name, share in driver.machine.owned(driver.state).items()} == {"d": 4, "e": 4}
