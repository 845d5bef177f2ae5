"""Rules about Kafka Streams and Kafka Connect: each on a group with the fault, and on a similar group without it."""

from __future__ import annotations

from streaming.advice.model import AdviceEvidence, Saving
from streaming.records.events import PROBING
from tests.support.advice import history, rules
from tests.support.built_diffs import DiffBuilder


def probing(times: int) -> DiffBuilder:
    builder = DiffBuilder(6)
    builder.kind, builder.assignor = "streams", "stream"
    builder.join("app-1-StreamThread-1-consumer@h1#1", "app-2-StreamThread-1-consumer@h2#1")
    for _ in range(times):
        builder.round(PROBING, after=600)
    return builder


def test_probing_rebalances_of_streams() -> None:
    found = rules(history(probing(3), live=None))
    assert list(found) == ["probing-rebalances"]
    assert found["probing-rebalances"].evidence == [
        AdviceEvidence(
            text="At least 3 probing rebalances in episodes 4, 3, 2", episodes=[4, 3, 2], figures={"probing": 3}
        )
    ]
    assert found["probing-rebalances"].settings["num.standby.replicas"] == "1"
    assert rules(history(probing(2), live=None)) == {}


def workers(delay_ms: int) -> DiffBuilder:
    """Worker ``b`` is away for 20 s; its tasks wait for the whole scheduled delay."""
    builder = DiffBuilder(4)
    builder.kind, builder.assignor = "connect", "sessioned"
    builder.join("a@h1#1", "b@h2#1")
    held = builder.members["a@h1#1"]
    lost = builder.members["b@h2#1"]
    builder.round(
        "member.left", gone=("b@h2#1",), after=600, shares={"a@h1#1": held}, unassigned=lost, delay_ms=delay_ms
    )
    return builder.round(
        "member.joined",
        joined=("b@h2#2",),
        after=20,
        shares={"a@h1#1": held, "b@h2#2": {}},
        unassigned=lost,
        delay_ms=delay_ms - 20_000,
    )


def test_connect_tasks_wait_longer_than_workers_restart() -> None:
    found = rules(history(workers(300_000), live=None))
    assert list(found) == ["scheduled-delay"]
    assert found["scheduled-delay"].severity == "warning"
    assert found["scheduled-delay"].evidence == [
        AdviceEvidence(
            text="Workers were back within 20 s in episode 2; tasks wait 5 min "
            "(scheduled.rebalance.max.delay.ms, the default)",
            episodes=[2],
            figures={"restarts": 1, "slowestRestartMs": 20_000, "delayMs": 300_000},
        )
    ]
    assert found["scheduled-delay"].settings == {"scheduled.rebalance.max.delay.ms": "30000"}
    assert found["scheduled-delay"].saving == Saving(
        text="60 s instead of 10 min of waiting in 1 restart, all tasks together",
        episodes=[2],
        downtime_ms=(600_000, 60_000),
    )
    assert rules(history(workers(40_000), live=None)) == {}
