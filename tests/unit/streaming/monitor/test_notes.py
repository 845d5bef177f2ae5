"""Tests of the downtime bounds that a group's events prove."""

from collections.abc import Iterable

from streaming.monitor.bucket_state import Bucket
from streaming.records.episodes import Downtime, PartitionDowntime
from streaming.records.events import POLLING, Event, Evidence, PartitionsStopped, Stop
from tests.support.histories import Log
from tests.support.pure_stream import apply_events, written_episodes


def downtime(events: Iterable[Event]) -> Downtime | None:
    return written_episodes(apply_events(Bucket(), events))[0].downtime


def rounds(log: Log, *evidence: Evidence) -> list[Event]:
    return [
        log.observe(1, {"a": {"t": [0]}}, evidence=evidence),
        log.acknowledge("a", generation=-1, owned={}, revoked={"t": [0]}),
        log.acknowledge("b", generation=2, owned={"t": [0]}, assigned={"t": [0]}),
        log.observe(2, {"a": {}, "b": {"t": [0]}}, evidence=evidence),
        log.event(
            PartitionsStopped,
            source="offset-commits",
            stops=[Stop(partitions={"t": [0]}, stopped_after=1500, resumed_before=4900)],
            generation=2,
        ),
    ]


def test_callbacks_and_commits_bound_their_round() -> None:
    assert downtime(rounds(Log())) == Downtime(
        lower_ms=1000,
        upper_ms=3400,
        longest_ms=(1000, 3400),
        total_ms=(1000, 3400),
        stops=(1, 1),
        worst=PartitionDowntime(
            topic="t", partition=0, lower_ms=1000, upper_ms=3400, longest_ms=(1000, 3400), stops=(1, 1)
        ),
        evidence=["group-records", "listener", "offset-commits"],
        partitions=1,
        bounded_ms=3400,
    )


def test_polled_rounds_have_no_downtime_bounds() -> None:
    assert downtime(rounds(Log(), Evidence(source=POLLING, reason="asked for"))) == Downtime(
        lower_ms=0,
        upper_ms=None,
        longest_ms=(0, None),
        total_ms=(0, None),
        stops=(1, None),
        worst=PartitionDowntime(
            topic="t", partition=0, lower_ms=0, upper_ms=None, longest_ms=(0, None), stops=(1, None)
        ),
        partitions=1,
        unbounded=1,
    )
