"""Outputs for random logs with rebalances in progress: independent of batches and buckets, with consistent statuses."""

from collections.abc import Iterator
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from streaming.records.events import Event, GroupProgress, GroupRebalancing, IncidentAcknowledged
from tests.support.histories import log_by_partition
from tests.support.pure_stream import SINKS, by_key, run, written_episodes
from tests.support.recorded import membership_log


def log_with_rebalances(count: int, seed: int) -> Iterator[Event]:
    """Yield a log with random reports of rebalances, which are early, late, repeated, ended or never ended."""
    random = Random(seed)
    last: dict[str, Event] = {}
    for event in membership_log(count, 9, seed):
        yield event
        group_id, at = event.data.group_id, event.data.timestamp
        draw = random.random()
        if draw < 0.3:
            data = GroupRebalancing(
                group_id=group_id,
                timestamp=at + random.randrange(3000),
                since=max(0, at + random.randrange(-5000, 3000)),
                awaited=random.sample(["c-001", "c-002", "c-003"], random.randrange(3)),
                ended=random.random() < 0.2,
            )
            last[group_id] = Event("collector", f"{event.id}/rebalancing", data)
            yield last[group_id]
        elif draw < 0.4 and group_id in last:
            yield last[group_id]
        elif draw < 0.6:
            end = at // 100
            offsets = {str(p): (end - random.choice((0, 0, 7, 400)), end) for p in range(3)}
            starts = {"topic-0": {"0": end - 3}} if random.random() < 0.2 else UNSET
            samples = GroupProgress(group_id=group_id, timestamp=at, partitions={"topic-0": offsets}, starts=starts)
            yield Event("collector", f"{event.id}/progress", samples)
        elif draw < 0.65:
            acknowledgement = IncidentAcknowledged(group_id=group_id, timestamp=at, incident=random.randrange(3))
            yield Event("cli", f"{event.id}/ack", acknowledgement)


@given(seed=st.integers(0, 10**9), batch=st.integers(1, 60), buckets=st.integers(1, 6))
@settings(max_examples=10)
def test_output_does_not_depend_on_batches_or_buckets(seed: int, batch: int, buckets: int) -> None:
    log = log_by_partition(list(log_with_rebalances(150, seed)), 4)
    assert by_key(run(log, batch=batch, buckets=buckets)) == by_key(run(log, batch=10_000, buckets=1))


@given(seed=st.integers(0, 10**9))
@settings(max_examples=10)
def test_only_rebalancing_episodes_have_a_rebalance(seed: int) -> None:
    log = list(log_with_rebalances(150, seed))
    writes = run(log_by_partition(log, 4), batch=1, buckets=1)
    refused = [dict(write.headers).get("ce_type") for write in writes if write.topic == SINKS.dead_letters]
    assert not {b"group.rebalancing", b"group.progress", b"incident.acknowledged"}.intersection(refused)
    for episode in written_episodes(writes):
        assert (episode.rebalancing is not None) == (episode.status == "rebalancing")
        assert episode.closed_at is None or episode.rebalancing is None
        assert episode.status != "settling" or episode.waiting_for
