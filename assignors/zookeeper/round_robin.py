"""``roundrobin`` of the old consumer (kafka.consumer.RoundRobinAssignor), by era.

Goal: partitions in the order of the signed hash code of their text, dealt to the sorted threads in a circle.
- 0.8.2 to 0.10.1: every topic must have the same threads, else an error;
- 0.10.2 to 0.11 (KAFKA-2434): all threads of the group in one circle, non-subscribers skipped;
- 1.0 and 1.1: the same over another text, so in another order.

Partitions with equal hash codes ("[Aa,0]" and "[BB,0]") have no order in Kafka: there it follows the layout of a
Scala map. Here they keep the order of the topics' names, then of partitions.
O(partitions log partitions + threads log threads); skipping costs at most the threads between two subscribers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from assignors.errors import InvalidGroup
from assignors.java import in_string_order, string_hash
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol
from assignors.zookeeper.threads import DEFAULT_KAFKA_VERSION, dashed, same_threads_required, threads_by_topic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

NAME = "roundrobin"
#: ZooKeeper's own watches drive it: no client protocol carries it.
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ()


def assign(
    topics: Mapping[str, Topic], members: Sequence[Member], *, kafka_version: str = DEFAULT_KAFKA_VERSION
) -> Assignment:
    """Every thread's share, by thread id.

    Raises:
        BadInput: an unknown version; as ``threads_by_topic`` says; topics with different threads where the
            version doesn't allow them.
    """
    threads = threads_by_topic(topics, members)
    if same_threads_required(kafka_version):
        _check_same(threads)
    circle = in_string_order(set(chain.from_iterable(threads.values())))
    sizes = {name: topics[name].partitions for name in in_string_order(threads) if name in topics}
    in_order = _hash_order(sizes, dashed=dashed(kafka_version))
    if all(len(ids) == len(circle) for ids in threads.values()):
        return _circle(in_order, list(sizes), circle)
    return _deal(hash_ordered(sizes, dashed=dashed(kafka_version)), threads, circle)


def _circle(in_order: tuple[Numbers, Numbers], names: Sequence[str], circle: Sequence[str]) -> Assignment:
    """Everyone has every topic: the k-th partition goes to the k-th thread, modulo their number."""
    import numpy as np

    topics, partitions = in_order
    answer: Assignment = {thread: {} for thread in circle}
    if not len(topics):
        return answer
    size = int(partitions.max()) + 1
    # thread, topic and partition as one number: sorted, each thread's topics are runs of ascending partitions
    numbers = np.sort((np.arange(len(topics)) % len(circle) * len(names) + topics) * size + partitions)
    shares, given = np.divmod(numbers, size)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(shares)) + 1))
    firsts, listed = starts.tolist(), given.tolist()
    ends = [*firsts[1:], len(listed)]
    for start, end, share in zip(firsts, ends, shares[starts].tolist(), strict=True):
        place, topic = divmod(share, len(names))
        answer[circle[place]][names[topic]] = listed[start:end]
    return answer


def _deal(
    in_order: Sequence[tuple[str, int]], threads: Mapping[str, Sequence[str]], circle: Sequence[str]
) -> Assignment:
    """To the next thread in the circle that has the topic; the next search starts behind it."""
    place = {thread: at for at, thread in enumerate(circle)}
    places = {name: [place[thread] for thread in ids] for name, ids in threads.items()}
    shares: list[dict[str, list[int]]] = [{} for _ in circle]
    at = 0
    for name, partition in in_order:
        subscribed = places[name]
        found = bisect_left(subscribed, at)
        at = subscribed[found] if found < len(subscribed) else subscribed[0]
        shares[at].setdefault(name, []).append(partition)
        at += 1
    return {
        thread: {name: sorted(partitions) for name, partitions in share.items()}
        for thread, share in zip(circle, shares, strict=True)
    }


def hash_ordered(sizes: Mapping[str, int], *, dashed: bool) -> list[tuple[str, int]]:
    """All partitions of the topics, by the signed hash code of "[topic,partition]" or "topic-partition"."""
    topics, partitions = _hash_order(sizes, dashed=dashed)
    names = list(sizes)
    return [
        (names[topic], partition)
        for topic, partition in zip(topics.tolist(), partitions.tolist(), strict=True)
    ]


def _hash_order(sizes: Mapping[str, int], *, dashed: bool) -> tuple[Numbers, Numbers]:
    """The same as two columns: the topic's position in ``sizes``, and the partition."""
    import numpy as np

    opening, comma, closing = ("", "-", "") if dashed else ("[", ",", "]")
    rests = [f"{partition}{closing}" for partition in range(max(sizes.values(), default=0))]
    # the hash of a text is that of its start · 31^(length of its rest) + that of its rest, modulo 2^32
    rest_hashes = np.array([string_hash.__wrapped__(rest) for rest in rests], dtype=np.int64)
    powers = np.array([31 ** len(rest) & 0xFFFFFFFF for rest in rests], dtype=np.int64)
    hashes = [
        (string_hash(f"{opening}{name}{comma}") * powers[:size] + rest_hashes[:size]).astype(np.int32)
        for name, size in sizes.items()
    ]
    order = np.argsort(np.concatenate([np.empty(0, np.int32), *hashes]), kind="stable")
    counts = np.array([*sizes.values()], dtype=np.int64)
    topics = np.repeat(np.arange(len(counts)), counts)
    partitions = np.concatenate([np.empty(0, np.int64), *map(np.arange, sizes.values())]).astype(np.int64)
    return topics[order], partitions[order]


def _check_same(threads: Mapping[str, Sequence[str]]) -> None:
    """Conditions (a) and (b) of the class: the same number of streams, and the same topics, everywhere."""
    names = list(threads)
    for name in names[1:]:
        if threads[name] != threads[names[0]]:
            raise InvalidGroup(
                "members.streams: round robin before Kafka 0.10.2 needs every consumer to subscribe to the same "
                "topics, each with the same number of streams. "
                f"Topic {name} has the consumer streams {{{', '.join(threads[name])}}}, "
                f"topic {names[0]} has {{{', '.join(threads[names[0]])}}}"
            )
