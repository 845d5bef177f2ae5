"""Rules about the rebalance protocol: each is tested on a group with the fault and on a similar group without it."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from streaming.advice.clients import JAVA, LIBRDKAFKA
from streaming.advice.model import CostSaving
from streaming.simulation.live_group import LiveGroup
from tests.support.advice import deploy, evidence, history, members, rules
from tests.support.built_diffs import DiffBuilder
from tests.support.incidents import incident

STRATEGY = "partition.assignment.strategy"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def group_with_ten_members(assignor: str = "range", client: str = "pay-{0}@h{0}#1") -> DiffBuilder:
    builder = DiffBuilder(60)
    builder.assignor = assignor
    return builder.join(*[client.format(number) for number in range(10)])


def test_eager_groups_get_cooperative_assignor_advice() -> None:
    advice = rules(history(deploy(deploy(group_with_ten_members())), downtime_ms=20_000))["cooperative-assignor"]

    assert (advice.severity, advice.confidence, advice.episodes) == ("warning", "high", [3, 2])
    assert advice.evidence == evidence(
        "range revokes every partition in each rebalance: 40 rebalances in episodes 3, 2 since 2023-11-14 "
        "23:13 UTC; the longest stop of a partition in each adds up to at least 40 s",
        3,
        2,
        rebalances=40,
        longestStopsMs=40_000,
        moved=120,
    )
    assert advice.change == (
        "Put cooperative-sticky before range in partition.assignment.strategy and restart all members one by one; "
        "then remove range and restart them again"
    )
    assert advice.settings == {STRATEGY: COOPERATIVE}
    assert advice.saving == CostSaving(
        text="722 s instead of 1125 s of downtime in 2 replayed episodes, all partitions together; 60 instead of "
        "40 rounds, 240 instead of 844 moves; by how fast members react, 15 s to 24 min instead of 30 s to 37 min "
        "(measured then: 40 s to 80 s)",
        episodes=[3, 2],
        rounds=(40, 60),
        moved=(844, 240),
        downtime_ms=(1_124_820, 722_160),
        downtime_range_ms=((29_850, 2_233_320), (15_300, 1_433_160)),
        measured_ms=(40_000, 80_000),
    )
    assert advice.docs == "docs/reference/advice.md#cooperative-assignor"

    assert "cooperative-assignor" not in rules(history(deploy(deploy(group_with_ten_members("cooperative-sticky")))))
    assert "cooperative-assignor" not in rules(history(group_with_ten_members()))


def test_no_cooperative_advice_without_savings() -> None:
    """Cooperative rebalancing would save nothing in a group of four members with three partitions each."""
    group_of_four = DiffBuilder(12).join(*[f"pay-{number}@h{number}#1" for number in range(4)])
    assert rules(history(deploy(deploy(group_of_four)))) == {}


def test_librdkafka_has_no_rolling_path_to_cooperative() -> None:
    advice = rules(history(deploy(group_with_ten_members(client="rdkafka@h{0}#1"))))["cooperative-assignor"]
    assert advice.client == LIBRDKAFKA.name
    assert advice.change.startswith("Stop all members, set partition.assignment.strategy=cooperative-sticky")
    assert advice.settings == {STRATEGY: "cooperative-sticky"}


def test_clients_without_cooperative_get_no_such_advice() -> None:
    advice = rules(history(deploy(group_with_ten_members(client="aiokafka-0.12.0@h{0}#1"))))
    assert "cooperative-assignor" not in advice
    assert "consumer-protocol" not in advice


def test_rounds_that_were_not_read_lower_the_confidence() -> None:
    advice = rules(history(deploy(deploy(group_with_ten_members())), rounds={}))["cooperative-assignor"]
    assert (advice.saving, advice.confidence) == (None, "medium")
    assert advice.unsure == ["no saving computed: the rounds of its episodes were not read, or are too many to replay"]


def test_classic_groups_get_consumer_protocol_advice() -> None:
    advice = rules(history(deploy(deploy(group_with_ten_members("cooperative-sticky")))))["consumer-protocol"]
    assert (advice.severity, advice.confidence) == ("info", "medium")
    assert advice.settings == {"group.protocol": "consumer"}
    assert advice.saving is not None
    assert advice.saving.downtime_ms == (722_160, 594_000)

    modern = group_with_ten_members("uniform")
    modern.protocol = "consumer"
    assert "consumer-protocol" not in rules(history(deploy(modern)))


def group_of_twelve(client: str = "pay-{0}@h{0}#1") -> DiffBuilder:
    return DiffBuilder(96).join(*[client.format(number) for number in range(12)])


def test_short_restarts_get_static_membership_advice() -> None:
    advice = rules(history(deploy(group_of_twelve(), downtime_s=2), session_ms=45_000))["static-membership"]
    assert (advice.severity, advice.confidence) == ("info", "high")
    assert advice.evidence == evidence(
        "12 restarts in episode 2 took up to 2.0 s; the session timeout is 45 s",
        2,
        restarts=12,
        slowestRestartMs=2000,
        sessionTimeoutMs=45_000,
    )
    assert advice.change.endswith("which survives its restarts: its client id does")
    assert advice.settings == {"group.instance.id": "<an id that the member keeps across restarts>"}
    assert advice.saving is not None
    assert (advice.saving.rounds, advice.saving.moved[1] if advice.saving.moved else None) == ((16, 0), 0)

    static = group_of_twelve("pay-{0}@h{0}#1=i{0}")
    assert "static-membership" not in rules(history(deploy(static, downtime_s=2), session_ms=45_000))


def test_long_restarts_get_no_static_membership_advice() -> None:
    """If restarts take a minute, static members would keep their partitions unconsumed, so they are not advised."""
    assert "static-membership" not in rules(history(deploy(group_of_twelve(), downtime_s=60), session_ms=45_000))


def test_advice_warns_of_deployment_pod_names_as_instance_ids() -> None:
    pods = DiffBuilder(96).join(*[f"pay-7d9f5b6c8d-bcdf{number}@10.0.0.{number}#1" for number in "2456789bcdfg"])
    wait = 3600.0
    for number, member_id in enumerate(list(pods.members)):
        pods.leave(member_id, after=wait).join(
            f"pay-86c4d7b9f5-zxvw{'2456789bcdfg'[number]}@10.1.0.{number}#1", after=2
        )
        wait = 30
    advice = rules(history(pods, session_ms=45_000))["static-membership"]
    assert "The pod name of a Deployment does not help, as no successor has it" in advice.change


def pods_with_new_instance_id(first: str, second: str) -> DiffBuilder:
    """Return a group in which a new pod joins under a new instance id before the old pod's session ends."""
    builder = DiffBuilder(12).join("b@h2#1=b", "c@h3#1=c", f"{first}@10.0.0.2#1={first}")
    builder.join(f"{second}@10.0.0.9#2={second}", after=3600)
    return builder.fence(f"{first}@10.0.0.2#1={first}", after=30)


def test_changing_instance_ids_get_advice() -> None:
    old, new = "pay-7d9f5b6c8d-bcdf2", "pay-86c4d7b9f5-xzvw2"
    advice = rules(history(pods_with_new_instance_id(old, new), session_ms=45_000))
    assert advice["static-ids-change"].severity == "warning"
    assert advice["static-ids-change"].evidence == evidence(
        f"Static members came back under other instance ids in episode 2: {old} as {new}",
        2,
        departed=[old],
        joined=[new],
    )
    assert "static-slot-held" not in advice


def static_group() -> DiffBuilder:
    return DiffBuilder(12).join("b@h2#1=b", "c@h3#1=c", "a@h1#1=a")


def test_unchanged_ids_and_stateful_set_ordinals_get_no_advice() -> None:
    unchanged = static_group().fence("a@h1#1=a", after=3600).join("a@h1#2=a", after=10)
    for builder in (unchanged, pods_with_new_instance_id("pay-3", "pay-4")):
        assert "static-ids-change" not in rules(history(builder, session_ms=45_000))


def test_expired_static_member_gets_slot_held_advice() -> None:
    builder = static_group().fence("a@h1#1=a", after=3600)
    advice = rules(history(builder, session_ms=45_000))["static-slot-held"]
    assert advice.severity == "info"
    assert advice.evidence == evidence(
        "Static members stopped for good without LeaveGroup in episode 2 (a): partitions waited for the "
        "session timeout of 45 s",
        2,
        instanceIds=["a"],
        longestStopsMs=0,
    )

    left = static_group().leave("a@h1#1=a", after=3600)
    assert "static-slot-held" not in rules(history(left, session_ms=45_000))


def test_one_by_one_restarts_get_rolling_batches_advice() -> None:
    advice = rules(history(deploy(group_with_ten_members())))["rolling-batches"]
    assert (advice.severity, advice.evidence[0].figures) == ("info", {"rebalances": 20, "members": 10})
    assert advice.change == "Restart 2 members at once (maxUnavailable: 2), if the others can carry the load"
    assert advice.saving is not None
    assert advice.saving.rounds == (20, 10)

    restarted_group = group_with_ten_members()
    both = list(restarted_group.members)[:5]
    restarted_group.leave(*both, after=3600).join(*[member_id.replace("#1", "#2") for member_id in both], after=10)
    assert "rolling-batches" not in rules(history(restarted_group))


def listing(builder: DiffBuilder, **lists: Sequence[tuple[str, ...]]) -> LiveGroup:
    """Return the live group, in which a field of each member has the value from the list."""
    group = members(builder)
    assert group is not None
    ((field, values),) = lists.items()
    pairs = zip(group.members, values, strict=True)
    return group._replace(members=tuple(structs.replace(member, **{field: value}) for member, value in pairs))


def test_unused_cooperative_assignor_gets_half_migration_advice() -> None:
    builder = deploy(group_with_ten_members())
    lists = [("cooperative-sticky", "range")] * 9 + [("range",)]
    assert "half-migration" not in rules(history(builder))

    advice = rules(history(builder, live=listing(builder, assignors=lists)))
    assert "cooperative-assignor" not in advice
    half = advice["half-migration"]
    assert half.evidence[0].figures == {"assignors": ["cooperative-sticky, range", "range"]}
    assert half.settings == {STRATEGY: COOPERATIVE}


@pytest.mark.parametrize(("age_ms", "has_advice"), [(86_400_000, True), (3_600_000, False)])
def test_half_migrated_group_gets_advice_after_a_day(age_ms: int, has_advice: bool) -> None:
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1")
    opened = builder.now + 60_000 - age_ms
    open_incident = incident("g", 4, kind="half-migration", opened_at=opened, story="g is half migrated.", episode=1)
    advice = rules(history(builder, incidents=[open_incident]))
    assert ("half-migration" in advice) == has_advice
    if has_advice:
        assert advice["half-migration"].evidence == evidence("Incident 4: g is half migrated.", 1, incident=4)


def test_mixed_subscriptions_get_advice() -> None:
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1", "c@h3#1")
    topics = (("orders", "bills"), ("orders", "bills"), ("clicks",))
    advice = rules(history(builder, live=listing(builder, topics=topics)))
    assert advice["mixed-subscriptions"].evidence == evidence(
        "Members subscribe to different topics: a and b to bills, orders; c to clicks", subscriptions=2
    )
    assert "mixed-subscriptions" not in rules(history(builder))


def test_java_clients_are_recognised_by_their_default_ids() -> None:
    assert history(group_with_ten_members(client="consumer-pay-{0}@h{0}#1")).client is JAVA
