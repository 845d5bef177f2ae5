"""Tests that the collector combines snapshots while a member of a large KIP-848 group restarts."""

from collections.abc import Iterator
from random import Random

import pytest

from streaming.collect.coordinator.records import RawRecord
from streaming.collect.fold import CollectedEvent, Fold, Outcome
from streaming.collect.followed_group import COALESCE_MS
from streaming.records.diffs import Diff
from streaming.records.events import Event, GroupObserved
from tests.support.coordinated import SimulatedConsumerGroup, topic_ids
from tests.support.histories import Log, diffs, partitions_after, play

#: Partitions of each member, one of each topic.
PARTITIONS_PER_MEMBER = 10
START_MS = 1_700_000_000_000


class Restart:
    """The records of one member's restart, which the coordinator writes at intervals of ``every_ms``.

    Args:
        members: number of members of the group.
        every_ms: time between two writes of the coordinator, ms.
    """

    def __init__(self, members: int, every_ms: int) -> None:
        ids = topic_ids(PARTITIONS_PER_MEMBER, Random(7))
        self.names = {topic_id: f"topic-{number}" for number, topic_id in enumerate(ids)}
        self.topics = dict.fromkeys(self.names.values(), members)
        group = SimulatedConsumerGroup("g", members, dict.fromkeys(ids, members), self.names)
        self.rows: list[RawRecord] = []
        for number, write in enumerate([group.start(), *group.restart_member(3, unchanged=5)]):
            for key, value in write:
                self.rows.append(RawRecord(0, len(self.rows), START_MS + number * every_ms, key, value))

    def fold(self) -> Fold:
        return Fold("collector", 0, self.names.__getitem__)

    def published(self, fold: Fold) -> list[Event]:
        outcomes = [outcome for row in self.rows for outcome in fold.add(row)]
        return events([*outcomes, *fold.settle(), *fold.flush()])

    def diffs(self) -> list[Diff]:
        topics = Log("g").topics(**self.topics)
        return diffs(play([topics, *self.published(self.fold())])[1])


def events(outcomes: list[Outcome]) -> list[Event]:
    return [outcome.event for outcome in outcomes if isinstance(outcome, CollectedEvent)]


def views(events: list[Event]) -> Iterator[GroupObserved]:
    for event in events:
        assert isinstance(event.data, GroupObserved)
        yield event.data


@pytest.mark.parametrize(("members", "every_ms"), [(30, 1), (100, 1), (300, COALESCE_MS)])
def test_every_step_of_a_small_or_slow_group_is_published(members: int, every_ms: int) -> None:
    first, *rounds = Restart(members, every_ms).diffs()
    assert (len(first.members), first.unassigned) == (members, {})
    moved = [size for diff in rounds for member in diff.members.values() for size in map(len, member.assigned.values())]
    assert (
        sum(moved) == 2 * PARTITIONS_PER_MEMBER
    )  # moves to the members that take over, and back to the member that rejoins
    assert len(rounds) <= 2 + 2 * PARTITIONS_PER_MEMBER + 1
    assert [len(share) for share in partitions_after(rounds[-1]).values()] == [PARTITIONS_PER_MEMBER] * members


@pytest.mark.parametrize("every_ms", [1, 40, 400])
def test_large_rebalancing_group_is_published_once_a_second(every_ms: int) -> None:
    restart = Restart(300, every_ms)
    shown = list(views(restart.published(restart.fold())))
    rebalancing = [snapshot for snapshot in shown if snapshot.state != "Stable"]
    assert len(rebalancing) <= 2 + (restart.rows[-1].timestamp - START_MS) // COALESCE_MS
    assert shown[-1].timestamp == restart.rows[-1].timestamp
    (*_, last) = restart.diffs()
    there = [member for member in last.members if last.members[member].present]
    assert [len(partitions_after(last)[member_id]) for member_id in there] == [PARTITIONS_PER_MEMBER] * 300


def test_snapshots_depend_only_on_record_times() -> None:
    restart = Restart(300, 40)
    fold, outcomes = restart.fold(), list[Outcome]()
    whole = restart.published(restart.fold())
    for row, after in zip(restart.rows, [*restart.rows[1:], None], strict=True):
        outcomes += fold.add(row)
        if after is None or after.timestamp != row.timestamp:  # here the source has read the partition to its end
            outcomes += fold.settle()
    assert events([*outcomes, *fold.flush()]) == whole


@pytest.mark.parametrize("has_flushed_producer", [False, True])
def test_restarted_collector_publishes_pending_snapshot_once(has_flushed_producer: bool) -> None:
    restart = Restart(300, 40)
    for at in range(2400, len(restart.rows), 7):
        fold = restart.fold()
        outcomes = [outcome for row in restart.rows[:at] for outcome in fold.add(row)] + fold.settle()
        if has_flushed_producer:
            outcomes += fold.flush()
        again = restart.fold()
        again.start, again.was_pending = at, bool(fold.held)
        outcomes += [outcome for row in restart.rows for outcome in again.add(row)] + again.settle() + again.flush()
        ids = [event.id for event in events(outcomes)]
        assert len(set(ids)) == len(ids)
        assert list(views(events(outcomes)))[-1].timestamp == restart.rows[-1].timestamp
