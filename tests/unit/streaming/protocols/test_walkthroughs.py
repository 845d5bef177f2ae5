"""The published walkthroughs of the protocols, round by round; whole values are compared."""

from tests.support.machines import after, played, round_summary, scenario, shares_of_p


def test_third_consumer_gets_partitions_after_revocation() -> None:
    joins = [f"at: {at}, join: consumer{number}, topics: [p]" for number, at in ((1, 0), (2, 0), (3, 60_000))]
    text = scenario("p: 6", *joins)
    answer = played(text, "cooperative")
    first, revoke, assign = answer["rounds"]
    # Java's hash order of the names decides which member owns which three partitions; the sizes don't depend on it.
    assert {name: len(share["p"]) for name, share in after(first).items()} == {"consumer1": 3, "consumer2": 3}
    assert round_summary(revoke) == (2, 1, "member.joined", ["consumer3"])
    assert revoke["members"]["consumer3"] == {"owned": {}, "revoked": {}, "assigned": {}, "kept": {}}
    first_revoked, second_revoked = (revoke["members"][name]["revoked"]["p"] for name in ("consumer1", "consumer2"))
    assert (len(first_revoked), len(second_revoked)) == (1, 1)
    assert all(not member["assigned"] for member in revoke["members"].values())
    assert round_summary(assign) == (3, 2, "member.joined", ["consumer3"])
    revoked = sorted(first_revoked + second_revoked)
    assigned = {name: member["assigned"] for name, member in assign["members"].items()}
    assert assigned == shares_of_p(consumer1=[], consumer2=[], consumer3=revoked)
    assert after(assign)["consumer3"] == {"p": revoked}
    # Only moved partitions are without a consumer; under eager all partitions are without a consumer.
    initial_ms = min(answer["unavailableMs"]["p"].values())
    unavailable_partitions = {int(p) for p, ms in answer["unavailableMs"]["p"].items() if ms > initial_ms}
    assert unavailable_partitions == set(revoked)
    assert answer["moved"] == 2
    eager = played(text, "eager")
    assert all(ms > initial_ms for ms in eager["unavailableMs"]["p"].values())
    assert [round_summary(entry)[0] for entry in eager["rounds"]] == [1, 2]


WORKER_JOINS = [f"at: 0, join: {name}, topics: [p]" for name in ("c1", "c2", "c3")]
WORKERS = scenario("p: 6", *WORKER_JOINS, scheduled_rebalance_delay_ms=300000)


def test_worker_back_within_the_delay_gets_its_tasks_back() -> None:
    text = WORKERS + "  - {at: 60000, crash: c2}\n  - {at: 150000, join: c2, topics: [p]}\n"
    start, lost, back, assigned = played(text, "connect")["rounds"]
    assert after(start) == shares_of_p(c1=[0, 3], c2=[1, 4], c3=[2, 5])
    assert round_summary(lost) == (2, 1, "member.fenced", ["c2"])
    assert 60_000 + 45_000 - 3000 <= lost["at"] <= 60_000 + 45_000 + 4100
    assert after(lost) == shares_of_p(c1=[0, 3], c2=[], c3=[2, 5])
    assert round_summary(back) == (3, 1, "member.joined", ["c2"])
    assert after(back) == shares_of_p(c1=[0, 3], c2=[], c3=[2, 5])
    assert round_summary(assigned)[0] == 4
    assert assigned["at"] >= lost["at"] + 300_000 - 10
    assert after(assigned) == shares_of_p(c1=[0, 3], c2=[1, 4], c3=[2, 5])


def test_tasks_of_a_gone_worker_spread_after_the_delay() -> None:
    text = WORKERS + "  - {at: 60000, crash: c2}\n"
    answer = played(text, "connect")
    _, lost, assigned = answer["rounds"]
    assert after(lost) == shares_of_p(c1=[0, 3], c2=[], c3=[2, 5])
    assert round_summary(assigned)[:2] == (3, 2)
    assert assigned["at"] >= lost["at"] + 300_000 - 10
    assert after(assigned) == shares_of_p(c1=[0, 1, 3], c3=[2, 4, 5])
    # The other members never stop.
    unavailable_ms = answer["unavailableMs"]["p"]
    assert {p for p, ms in unavailable_ms.items() if ms > 7000} == {"1", "4"}


def test_static_member_restart_is_not_a_rebalance() -> None:
    text = scenario(
        "p: 4",
        "at: 0, join: c1, topics: [p], instance_id: i-1",
        "at: 0, join: c2, topics: [p], instance_id: i-2",
        "at: 60000, bounce: c1, down_ms: 40000",
        session_timeout_ms=45000,
    )
    has_rounds = {"eager": False, "cooperative": False, "eager-v1": True, "connect": True, "consumer": False}
    for protocol, has_round in has_rounds.items():
        later = [entry for entry in played(text, protocol)["rounds"] if entry["at"] > 60_000]
        assert bool(later) is has_round, protocol
    # A member that stays away longer is fenced; one rebalance assigns its partitions, another one returns some.
    late = played(text.replace("down_ms: 40000", "down_ms: 50000"), "eager")
    assert [round_summary(entry)[2:] for entry in late["rounds"][1:]] == [
        ("member.fenced", ["c1"]),
        ("member.joined", ["c1"]),
    ]


def test_leaving_static_member_and_rejoining_leader_rebalance() -> None:
    text = scenario(
        "p: 4",
        "at: 0, join: c1, topics: [p], instance_id: i-1",
        "at: 0, join: c2, topics: [p], instance_id: i-2",
        "at: 60000, partitions: {p: 6}",
        "at: 90000, leave: c2",
    )
    kinds = [round_summary(entry)[2] for entry in played(text, "eager")["rounds"]]
    # The leader notices new partitions and rejoins.
    assert kinds == ["member.joined", "topic.partitions_changed", "member.left"]


def test_crash_is_detected_after_the_session_timeout() -> None:
    text = scenario(
        "p: 4",
        "at: 0, join: c1, topics: [p]",
        "at: 0, join: c2, topics: [p]",
        "at: 60000, crash: c2",
        session_timeout_ms=10000,
    )
    for protocol in ("zookeeper", "eager-v1", "eager", "cooperative", "consumer"):
        last = played(text, protocol)["rounds"][-1]
        assert round_summary(last)[2:] == ("member.fenced", ["c2"]), protocol
        assert 60_000 + 10_000 - 5000 <= last["at"] <= 60_000 + 10_000 + 6100, protocol
        assert after(last) == {"c1": {"p": [0, 1, 2, 3]}, "c2": {}}, protocol


def _group(count: int) -> str:
    joins = "".join(f"  - {{at: 0, join: c{number}, topics: [p]}}\n" for number in range(count))
    return f"topics: {{p: 12}}\nevents:\n{joins}"


def test_one_change_notifies_every_zookeeper_consumer() -> None:
    for count in (2, 5, 9):
        before = played(_group(count), "zookeeper")["requests"]
        more = played(_group(count) + "  - {at: 60000, partitions: {p: 13}}\n", "zookeeper")["requests"]
        assert more["WatchNotification"] - before["WatchNotification"] == count
        assert more["GetChildren"] - before["GetChildren"] == count


def test_late_zookeeper_read_costs_another_rebalance() -> None:
    text = _group(4) + "  - {at: 60000, join: late, topics: [p]}\n"

    def attempts(**more: int) -> int:
        return int(played(text, "zookeeper", **more)["requests"]["GetChildren"])

    assert attempts(view_lag_ms=0) < min(attempts(view_lag_ms=3000, seed=seed) for seed in (1, 2, 3))
    group_with_lag = played(text, "zookeeper", view_lag_ms=3000, seed=1)
    assert after(group_with_lag["rounds"][-1]) == after(played(text, "zookeeper")["rounds"][-1])
    assert group_with_lag == played(text, "zookeeper", view_lag_ms=3000, seed=1)


def test_two_rolling_bounces_switch_eager_to_cooperative() -> None:
    from streaming.simulation.builtin_scenarios import load_builtin_scenario
    from streaming.simulation.event_loop import run_scenario

    result = run_scenario(load_builtin_scenario("two-bounces", 3, 9), "cooperative").result
    # Range is chosen while any member has only range; once every member has only cooperative-sticky, no member stops.
    assert result.rounds[0].reason.kind == "member.joined"
    assert set(result.rounds[-1].after) == {"c1", "c2", "c3"}
    assert [record.round for record in result.rounds[:7]] == [1] * 7
    assert any(record.round == 2 for record in result.rounds[7:])
