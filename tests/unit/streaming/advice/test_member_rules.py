"""Rules about members and partitions: each is tested on a group with the fault and on a similar group without it."""

import pytest
from msgspec import structs

from streaming.records.events import PROBING, Holding
from tests.support.advice import evidence, history, rules
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import latest
from tests.support.incidents import incident


def test_shared_instance_id_gets_advice() -> None:
    builder = DiffBuilder(6).join("a@h1#1=a", "b@h2#1=b")
    shared_id_incident = incident(
        "g", 2, kind="duplicate-instance-id", opened_at=builder.now, story="a of g rejoined 4 times.", sure=False
    )
    advice = rules(history(builder, incidents=[shared_id_incident]))["duplicate-instance-id"]
    assert (advice.severity, advice.confidence) == ("critical", "medium")
    assert advice.evidence == evidence("Incident 2: a of g rejoined 4 times.", incident=2)
    assert advice.unsure == ["one process that restarts again and again looks the same"]
    assert rules(history(builder)) == {}


def test_idle_members_get_advice() -> None:
    advice = rules(history(DiffBuilder(2).join("a@h1#1", "b@h2#1", "c@h3#1")))["idle-members"]
    assert advice.severity == "info"
    assert advice.evidence == evidence(
        "1 of 3 members without a partition, as there are 2: a", members=3, partitions=2, idle=1
    )
    assert rules(history(DiffBuilder(3).join("a@h1#1", "b@h2#1", "c@h3#1"))) == {}


def test_uneven_partition_counts_get_advice() -> None:
    all_advice = rules(history(DiffBuilder(5).join("a@h1#1", "b@h2#1", "c@h3#1")))
    assert "range-skew" not in all_advice  # there is only one topic
    advice = all_advice["uneven-partitions"]
    assert advice.evidence == evidence(
        "5 partitions for 3 members: 2 have 2, the others 1", partitions=5, members=3, most=2, least=1
    )
    assert advice.change == ("Run 5 members, or grow to 6 partitions in all: the busiest members fall behind first")
    assert "uneven-partitions" not in rules(history(DiffBuilder(10).join("a@h1#1", "b@h2#1", "c@h3#1")))


@pytest.mark.parametrize(("same", "severity"), [(False, "warning"), (True, "info")])
def test_range_skew_over_several_topics_gets_advice(same: bool, severity: str) -> None:
    """A skew of ``range`` over topics of equal size is only information: their partitions may be joined."""
    builder = DiffBuilder(3).join("a@h1#1", "b@h2#1")
    first: Holding = {"t": [0, 1], "u": [0, 1], "v": [0, 1] if same else [0, 1, 2]}
    second: Holding = {"t": [2], "u": [2], "v": [2] if same else [3, 4]}
    shares = {"a@h1#1": first, "b@h2#1": second}
    advice = rules(history(builder, latest=structs.replace(latest(builder), members=shares)))["range-skew"]
    most, least = (6, 3) if same else (7, 4)
    assert advice.severity == severity
    assert advice.evidence == evidence(
        f"Range over 3 topics gives a {most} partitions, and others {least}", topics=3, most=most, least=least
    )
    assert bool(advice.unsure) == same


def grown(times: int) -> DiffBuilder:
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1")
    for number in range(times):
        builder.partitions += 1
        builder.round("topic.partitions_changed", after=3600 + number)
    return builder


def test_repeatedly_growing_topics_get_advice() -> None:
    advice = rules(history(grown(3)))["metadata-rebalances"]
    assert advice.severity == "info"
    assert advice.evidence == evidence(
        "Changed topics or subscriptions in 3 of 4 episodes: episodes 4, 3, 2", 4, 3, 2, longestStopsMs=0
    )
    assert "metadata-rebalances" not in rules(history(grown(2)))


UNEXPLAINED = "explicit `LeaveGroup` request; client reason: not provided"


def idle_member_left(client: str, partitions: int = 3) -> DiffBuilder:
    """Return a group of four in which a member leaves after ten minutes: the one without any of three partitions."""
    builder = DiffBuilder(partitions).join(f"{client}@h1#1", f"{client}@h2#1", f"{client}@h3#1", f"{client}@h4#1")
    return builder.leave(f"{client}@h1#1", after=600, reason=UNEXPLAINED)


def test_client_fault_is_detected_from_history() -> None:
    once = idle_member_left("aiokafka-0.12.0")
    advice = rules(history(once))["known-fault"]
    assert (advice.severity, advice.confidence) == ("info", "medium")
    assert advice.unsure == ["that nobody stopped these members: aiokafka gives no reason for a LeaveGroup"]
    assert advice.evidence == evidence(
        "Members without partitions left in episode 2, as aiokafka takes them for stuck "
        "(https://github.com/aio-libs/aiokafka/issues/720)",
        2,
        link="https://github.com/aio-libs/aiokafka/issues/720",
    )
    again = once.join("aiokafka-0.12.0@h1#1", after=600).leave("aiokafka-0.12.0@h2#1", after=600, reason=UNEXPLAINED)
    assert rules(history(again))["known-fault"].severity == "warning"
    assert "known-fault" not in rules(history(idle_member_left("kafka-python-3.0.12")))
    assert "known-fault" not in rules(history(idle_member_left("aiokafka-0.12.0", partitions=4)))


def probing_rounds(times: int) -> DiffBuilder:
    builder = DiffBuilder(6)
    builder.kind, builder.assignor = "streams", "stream"
    builder.join("app-1-StreamThread-1-consumer@h1#1", "app-2-StreamThread-1-consumer@h2#1")
    for _ in range(times):
        builder.round(PROBING, after=600)
    return builder


def test_repeated_probing_rebalances_get_advice() -> None:
    advice = rules(history(probing_rounds(3), live=None))
    assert list(advice) == ["probing-rebalances"]
    assert advice["probing-rebalances"].evidence == evidence(
        "At least 3 probing rebalances in episodes 4, 3, 2", 4, 3, 2, probing=3
    )
    assert advice["probing-rebalances"].settings["num.standby.replicas"] == "1"
    assert rules(history(probing_rounds(2), live=None)) == {}
