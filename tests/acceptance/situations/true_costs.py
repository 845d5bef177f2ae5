"""The true cost of a group's rebalances, from what its consumers recorded and when each record was sent."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.acceptance.situations.groups import AppliedChange, ConsumedOffset, Place
from tests.support.kafka import read

#: Partition → when the broker appended each of its records (ms), by offset.
RecordTimesByPartition = Mapping[Place, Sequence[int]]


@dataclass
class TrueCost:
    """The cost of one change for a partition, or for all partitions of the group; times in ms.

    A record was delayed if it was sent before a member got its partition, and first consumed after that.

    Attributes:
        delayed: number of delayed records.
        worst_ms: the longest time from sending to first consumption of a delayed record.
        resumed_at: when a member last got the partition.
        consumed_at: when the last delayed record was consumed; 0 if no record was delayed.
        unconsumed_records: number of delayed records that nobody has consumed.
    """

    delayed: int = 0
    worst_ms: int = 0
    resumed_at: int = 0
    consumed_at: int = 0
    unconsumed_records: int = 0

    @property
    def catch_up_ms(self) -> int:
        return max(0, self.consumed_at - self.resumed_at)


def record_times(servers: str, topic: str) -> dict[Place, list[int]]:
    """Return the time at which the broker appended each record of a topic to its log.

    A record's key has the time of the producer's call; a busy producer sends up to half a second later.
    """
    sent: dict[Place, list[int]] = defaultdict(list)
    for message in sorted(read(servers, topic), key=lambda message: message.offset()):
        sent[topic, message.partition()].append(message.timestamp()[1])
    return dict(sent)


def measured_costs(
    marks: Iterable[ConsumedOffset], sent: RecordTimesByPartition, changes: Sequence[AppliedChange]
) -> dict[int, dict[Place, TrueCost]]:
    """Return the true cost of each change (by its index) for the partitions whose owner changed after it."""
    by_place: dict[Place, list[ConsumedOffset]] = defaultdict(list)
    for mark in marks:
        by_place[mark.partition].append(mark)
    costs: dict[int, dict[Place, TrueCost]] = defaultdict(dict)
    for place, marks_of_partition in by_place.items():
        consumption_times = _first_consumption_times(marks_of_partition, len(sent.get(place, ())))
        assignments = sorted(mark.at for mark in marks_of_partition if mark.first < 0)
        counted: set[int] = set()
        for at in assignments[1:]:  # nobody consumed the partition before the first one
            number = sum(change.at <= at for change in changes) - 1
            if number < 0:
                continue
            cost = costs[number].setdefault(place, TrueCost())
            cost.resumed_at = max(cost.resumed_at, at)
            for offset, sent_ms in enumerate(sent.get(place, ())):
                first = consumption_times[offset]
                if sent_ms >= at or offset in counted or (first is not None and first < at):
                    continue
                counted.add(offset)
                cost.delayed += 1
                if first is None:
                    cost.unconsumed_records += 1
                else:
                    cost.worst_ms, cost.consumed_at = max(cost.worst_ms, first - sent_ms), max(cost.consumed_at, first)
    return costs


def _first_consumption_times(marks: Iterable[ConsumedOffset], records: int) -> list[int | None]:
    """Return the time at which each record was first consumed, by offset."""
    consumption_times: list[int | None] = [None] * records
    for mark in marks:
        for offset in range(max(0, mark.first), min(mark.next_offset, records)):
            first = consumption_times[offset]
            consumption_times[offset] = mark.at if first is None else min(first, mark.at)
    return consumption_times


def total(costs: Iterable[TrueCost]) -> TrueCost:
    """Return the cost of a change for all partitions together: the sum or the maximum of each figure."""
    costs = [*costs]
    return TrueCost(
        delayed=sum(cost.delayed for cost in costs),
        worst_ms=max((cost.worst_ms for cost in costs), default=0),
        resumed_at=max((cost.resumed_at for cost in costs), default=0),
        consumed_at=max((cost.consumed_at for cost in costs), default=0),
        unconsumed_records=sum(cost.unconsumed_records for cost in costs),
    )
