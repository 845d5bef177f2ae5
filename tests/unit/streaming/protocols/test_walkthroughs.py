"""The published walkthroughs of the protocols, round by round; whole values are compared."""

from tests.support.machines import after, played, round_summary, scenario

THIRD_CONSUMER_SCENARIO = scenario(
    "p: 6",
    "at: 0, join: consumer1, topics: [p]",
    "at: 0, join: consumer2, topics: [p]",
    "at: 60000, join: consumer3, topics: [p]",
)


def assignment_of_members(**shares: list[int]) -> dict[str, dict[str, list[int]]]:
    return {name: {"p": share} if share else {} for name, share in shares.items()}


def test_third_consumer_gets_partitions_after_revocation() -> None:
    text = THIRD_CONSUMER_SCENARIO
    answer = played(text, "cooperative")
    first, revoke, assign = answer["rounds"]
    shares_after = after(first)
    # Java's hash order of the names decides which member owns which three partitions; the sizes don't depend on it.
    assert {name: len(share["p"]) for name, share in shares_after.items()} == {"consumer1": 3, "consumer2": 3}
    assert round_summary(revoke) == (2, 1, "member.joined", ["consumer3"])
    revoked_by_member = {name: member["revoked"] for name, member in revoke["members"].items()}
    assert {name: sum(map(len, share.values())) for name, share in revoked_by_member.items()} == {
        "consumer1": 1,
        "consumer2": 1,
        "consumer3": 0,
    }
    assert revoke["members"]["consumer3"] == {"owned": {}, "revoked": {}, "assigned": {}, "kept": {}}
    assert all(not member["assigned"] for member in revoke["members"].values())
    assert round_summary(assign) == (3, 2, "member.joined", ["consumer3"])
    revoked = sorted(revoked_by_member["consumer1"]["p"] + revoked_by_member["consumer2"]["p"])
    assert {name: member["assigned"] for name, member in assign["members"].items()} == {
        "consumer1": {},
        "consumer2": {},
        "consumer3": {"p": revoked},
    }
    assert after(assign)["consumer3"] == {"p": revoked}
    # Only moved partitions are without a consumer; under eager all partitions are without a consumer.
    initial_ms = min(answer["unavailableMs"]["p"].values())
    unavailable_partitions = {int(p) for p, ms in answer["unavailableMs"]["p"].items() if ms > initial_ms}
    assert unavailable_partitions == set(revoked)
    assert answer["moved"] == 2
    eager = played(text, "eager")
    assert all(ms > initial_ms for ms in eager["unavailableMs"]["p"].values())
    assert [round_summary(entry)[0] for entry in eager["rounds"]] == [1, 2]


def test_third_consumer_takes_a_partition_of_each_other_one() -> None:
    # The same rebalance from the state in the walkthrough's drawing, P1–P3 and P4–P6 (0–2 and 3–5).
    from streaming.protocols import families
    from streaming.protocols.classic.step import ClassicMember, ClassicPhase, ClassicState
    from streaming.protocols.vocabulary import Client, EventScheduled, GroupEvent, NewRound, Setup, Stage, Start
    from tests.support.machines import topics

    model = families.machine("cooperative", Setup(assignor="cooperative-sticky"))

    def member(name: str, share: list[int]) -> ClassicMember:
        client = Client(name, ("p",))
        return ClassicMember(
            client,
            Stage.STABLE,
            incarnation=1,
            member_id=name,
            is_member=True,
            subscription=("p",),
            owned={"p": share},
            generation=1,
            last={"p": share},
            beat_from=0,
            assignors=("cooperative-sticky",),
            assigned={"p": share},
        )

    members = {"consumer1": member("consumer1", [0, 1, 2]), "consumer2": member("consumer2", [3, 4, 5])}
    metadata = topics(p=6)
    state = ClassicState(
        members,
        metadata,
        phase=ClassicPhase.STABLE,
        generation=1,
        leader="consumer1",
        assignor="cooperative-sticky",
        topics_at_assignment=metadata,
        announced=1,
    )
    scheduled_events: list[GroupEvent] = [Start(10_000, (Client("consumer3", ("p",)),))]
    rounds = []
    while scheduled_events:
        scheduled_events.sort(key=lambda event: event.at)
        state, outputs = model.apply(state, scheduled_events.pop(0))
        scheduled_events += [output.event for output in outputs if isinstance(output, EventScheduled)]
        rounds += [output for output in outputs if isinstance(output, NewRound)]
    assert [(entry.number, dict(entry.after)) for entry in rounds] == [
        (2, assignment_of_members(consumer1=[0, 1], consumer2=[3, 4], consumer3=[])),
        (3, assignment_of_members(consumer1=[0, 1], consumer2=[3, 4], consumer3=[2, 5])),
    ]


WORKERS = scenario(
    "p: 6",
    "at: 0, join: c1, topics: [p]",
    "at: 0, join: c2, topics: [p]",
    "at: 0, join: c3, topics: [p]",
    scheduled_rebalance_delay_ms=300000,
)


def test_worker_back_within_the_delay_gets_its_tasks_back() -> None:
    text = WORKERS + "  - {at: 60000, crash: c2}\n  - {at: 150000, join: c2, topics: [p]}\n"
    start, lost, back, assigned = played(text, "connect")["rounds"]
    assert after(start) == assignment_of_members(c1=[0, 3], c2=[1, 4], c3=[2, 5])
    assert round_summary(lost) == (2, 1, "member.fenced", ["c2"])
    assert 60_000 + 45_000 - 3000 <= lost["at"] <= 60_000 + 45_000 + 4100
    assert after(lost) == assignment_of_members(c1=[0, 3], c2=[], c3=[2, 5])
    assert round_summary(back) == (3, 1, "member.joined", ["c2"])
    assert after(back) == assignment_of_members(c1=[0, 3], c2=[], c3=[2, 5])
    assert round_summary(assigned)[0] == 4
    assert assigned["at"] >= lost["at"] + 300_000 - 10
    assert after(assigned) == assignment_of_members(c1=[0, 3], c2=[1, 4], c3=[2, 5])


def test_tasks_of_a_gone_worker_spread_after_the_delay() -> None:
    text = WORKERS + "  - {at: 60000, crash: c2}\n"
    answer = played(text, "connect")
    _, lost, assigned = answer["rounds"]
    assert after(lost) == assignment_of_members(c1=[0, 3], c2=[], c3=[2, 5])
    assert round_summary(assigned)[:2] == (3, 2)
    assert assigned["at"] >= lost["at"] + 300_000 - 10
    assert after(assigned) == assignment_of_members(c1=[0, 1, 3], c3=[2, 4, 5])
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
    for protocol, has_round in (("eager", False), ("cooperative", False), ("eager-v1", True), ("connect", True)):
        answer = played(text, protocol)
        later = [entry for entry in answer["rounds"] if entry["at"] > 60_000]
        assert bool(later) is has_round, protocol
    consumer = played(text, "consumer")
    assert [entry for entry in consumer["rounds"] if entry["at"] > 60_000] == []
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
        answer = played(text, protocol)
        last = answer["rounds"][-1]
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
