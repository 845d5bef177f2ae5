"""The closest bounds of an episode's cost that commits allow, with end offsets known at every moment.

The bounds of an outage come from the same commits and rounds as in the monitor's reports. Only the times at which
records were sent are exact instead of sampled. So no sampling can narrow the bounds further.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET

from streaming.episodes.cost import PartitionCost
from streaming.episodes.downtime import Outage
from streaming.records.episodes import Bounds
from streaming.records.events import Event, GroupProgress
from tests.acceptance.situations.groups import Place

#: Partition → times of commits (ms) and committed offsets, oldest first.
CommitsByPartition = Mapping[Place, Sequence[tuple[int, int]]]


def read_commits(events: Iterable[Event]) -> CommitsByPartition:
    """Return the commits of each partition that samples of a group's progress show."""
    commits: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        data = event.data
        if not isinstance(data, GroupProgress):
            continue
        times = {} if data.committed_at is UNSET else data.committed_at
        for topic, by_name in data.partitions.items():
            for name, (offset, _) in by_name.items():
                if offset is not None:
                    at = times.get(topic, {}).get(name, data.timestamp)
                    commits[topic, int(name)].append((at, offset))
    return commits


def best_cost(
    outage: Outage, reported: PartitionCost, sent: Sequence[int], commits: Sequence[tuple[int, int]]
) -> tuple[Bounds, Bounds]:
    """Return the closest bounds of the delayed records and the worst delay of an outage that its commits allow.

    Args:
        outage: the outage, as the monitor knew it in the end.
        reported: its reported cost.
        sent: when each record of the partition was sent, by offset.
        commits: the partition's commits.
    """
    fewest_messages = shortest_delay_ms = 0
    for stopped, resumed in (outage.longest_interval or (None, None), (outage.stopped_before, outage.resumed_after)):
        if stopped is not None and resumed is not None and stopped < resumed:
            first, last = bisect_left(sent, stopped), bisect_left(sent, resumed)
            fewest_messages += last - first
            shortest_delay_ms = max(shortest_delay_ms, resumed - sent[first] if first < last else 0)
    until = outage.resumed_after or outage.stopped_before or 0
    start = max((offset for at, offset in commits if at <= until), default=None)
    if outage.committed is not None:
        start = max(start or 0, outage.committed)
    if start is None or outage.resumed_before is None:
        return (fewest_messages, reported.delayed[1]), (shortest_delay_ms, reported.worst[1])
    end = bisect_left(sent, outage.resumed_before)
    most = max(fewest_messages, end - start)
    longest = _longest_delay(sent, start, end, commits, until)
    return (fewest_messages, _min_known(most, reported.delayed[1])), (
        shortest_delay_ms,
        _min_known(longest, reported.worst[1]),
    )


def _min_known(first: int | None, second: int | None) -> int | None:
    return min((bound for bound in (first, second) if bound is not None), default=None)


def _longest_delay(
    sent: Sequence[int], start: int, end: int, commits: Sequence[tuple[int, int]], resumed: int
) -> int | None:
    """Return the longest time from the sending of these records to the commit that proves their consumption."""
    longest = 0
    later = [(at, offset) for at, offset in commits if at >= resumed]
    for record in range(start, end):
        consumed = next((at for at, offset in later if offset > record), None)
        if consumed is None:
            return None
        longest = max(longest, consumed - sent[record])
    return longest
