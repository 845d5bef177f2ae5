"""Rules about members and partitions: each on a group with the fault, and on a similar group without it."""

from __future__ import annotations

import pytest
from msgspec import structs

from streaming.advice.model import AdviceEvidence
from streaming.records.events import Holding
from tests.support.advice import history, rules
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import latest
from tests.support.incidents import incident


def test_two_processes_share_an_instance_id() -> None:
    builder = DiffBuilder(6).join("a@h1#1=a", "b@h2#1=b")
    shared = incident(
        "g", 2, kind="duplicate-instance-id", opened_at=builder.now, story="a of g rejoined 4 times.", sure=False
    )
    found = rules(history(builder, incidents=[shared]))["duplicate-instance-id"]
    assert (found.severity, found.confidence) == ("critical", "medium")
    assert found.evidence == [AdviceEvidence(text="Incident 2: a of g rejoined 4 times.", figures={"incident": 2})]
    assert found.unsure == ["one process that restarts again and again looks the same"]
    assert rules(history(builder)) == {}


def test_members_without_partitions() -> None:
    found = rules(history(DiffBuilder(2).join("a@h1#1", "b@h2#1", "c@h3#1")))["idle-members"]
    assert found.severity == "info"
    assert found.evidence == [
        AdviceEvidence(
            text="1 of 3 members without a partition, as there are 2: a",
            figures={"members": 3, "partitions": 2, "idle": 1},
        )
    ]
    assert rules(history(DiffBuilder(3).join("a@h1#1", "b@h2#1", "c@h3#1"))) == {}


def test_partitions_that_do_not_divide_by_members() -> None:
    found = rules(history(DiffBuilder(5).join("a@h1#1", "b@h2#1", "c@h3#1")))["uneven-partitions"]
    assert found.evidence == [
        AdviceEvidence(
            text="5 partitions for 3 members: 2 have 2, the others 1",
            figures={"partitions": 5, "members": 3, "most": 2, "least": 1},
        )
    ]
    assert found.change == ("Run 5 members, or grow to 6 partitions in all: the busiest members fall behind first")
    assert "uneven-partitions" not in rules(history(DiffBuilder(10).join("a@h1#1", "b@h2#1", "c@h3#1")))


@pytest.mark.parametrize(("same", "severity"), [(False, "warning"), (True, "info")])
def test_range_over_several_topics(same: bool, severity: str) -> None:
    """Topics that may be joined by partition have equal partition counts."""
    builder = DiffBuilder(3).join("a@h1#1", "b@h2#1")
    first: Holding = {"t": [0, 1], "u": [0, 1], "v": [0, 1] if same else [0, 1, 2]}
    second: Holding = {"t": [2], "u": [2], "v": [2] if same else [3, 4]}
    shares = {"a@h1#1": first, "b@h2#1": second}
    found = rules(history(builder, latest=structs.replace(latest(builder), members=shares)))["range-skew"]
    most, least = (6, 3) if same else (7, 4)
    assert found.severity == severity
    assert found.evidence == [
        AdviceEvidence(
            text=f"Range over 3 topics gives a {most} partitions, and others {least}",
            figures={"topics": 3, "most": most, "least": least},
        )
    ]
    assert bool(found.unsure) == same


def test_one_topic_has_no_range_skew() -> None:
    assert "range-skew" not in rules(history(DiffBuilder(5).join("a@h1#1", "b@h2#1", "c@h3#1")))


def grown(times: int) -> DiffBuilder:
    builder = DiffBuilder(6).join("a@h1#1", "b@h2#1")
    for number in range(times):
        builder.partitions += 1
        builder.round("topic.partitions_changed", after=3600 + number)
    return builder


def test_topics_that_grow_again_and_again() -> None:
    found = rules(history(grown(3)))["metadata-rebalances"]
    assert found.severity == "info"
    assert found.evidence == [
        AdviceEvidence(
            text="Changed topics or subscriptions in 3 of 4 episodes: episodes 4, 3, 2",
            episodes=[4, 3, 2],
            figures={"longestStopsMs": 0},
        )
    ]
    assert "metadata-rebalances" not in rules(history(grown(2)))


OVERRAN = "explicit `LeaveGroup` request; client reason: consumer poll timeout has expired."


def left_idle(client: str) -> DiffBuilder:
    """A member without partitions leaves after its poll interval."""
    builder = DiffBuilder(2).join(f"{client}@h1#1", f"{client}@h2#1", f"{client}@h3#1", f"{client}@h4#1")
    return builder.leave(f"{client}@h4#1", after=600, reason=OVERRAN)


def test_client_fault_is_detected_from_history() -> None:
    found = rules(history(left_idle("aiokafka-0.12.0")))["known-fault"]
    assert (found.severity, found.confidence) == ("warning", "medium")
    assert found.evidence == [
        AdviceEvidence(
            text="Members without partitions left in episode 2, as aiokafka takes them for stuck "
            "(https://github.com/aio-libs/aiokafka/issues/720)",
            episodes=[2],
            figures={"link": "https://github.com/aio-libs/aiokafka/issues/720"},
        )
    ]
    assert "known-fault" not in rules(history(left_idle("kafka-python-3.0.12")))
    assert "known-fault" not in rules(history(DiffBuilder(4).join("aiokafka-0.12.0@h1#1", "aiokafka-0.12.0@h2#1")))
