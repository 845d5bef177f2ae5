"""``range`` of the old consumer (kafka.consumer.RangeAssignor, the same from 0.8.2 to 1.1).

Goal: each topic's partitions in contiguous ranges over its sorted threads. The thread at position i of n takes from
(P div n)·i + min(i, P mod n). O(threads log threads + topics × threads).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol
from assignors.zookeeper.threads import DEFAULT_KAFKA_VERSION, threads_by_topic, version

NAME = "range"
#: ZooKeeper's own watches drive it: no client protocol carries it.
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ()


def assign(
    topics: Mapping[str, Topic], members: Sequence[Member], *, kafka_version: str = DEFAULT_KAFKA_VERSION
) -> Assignment:
    """Every thread's share, by thread id.

    Raises:
        BadInput: an unknown version; as ``threads_by_topic`` says.
    """
    version(kafka_version)
    threads = threads_by_topic(topics, members)
    answer: Assignment = {}
    alike: dict[tuple[int, int], list[str]] = {}
    for name, ids in threads.items():
        partitions = topics[name].partitions if name in topics else 0
        alike.setdefault((id(ids), partitions), []).append(name)
        if len(alike[id(ids), partitions]) == 1:
            for thread in ids:
                answer.setdefault(thread, {})
    for (_, partitions), names in alike.items():
        ids = threads[names[0]]
        base, extra = divmod(partitions, len(ids))
        start = 0
        for position, thread in enumerate(ids[:partitions]):
            end = start + base + (position < extra)
            answer[thread].update(dict.fromkeys(names, range(start, end)))
            start = end
    return answer
