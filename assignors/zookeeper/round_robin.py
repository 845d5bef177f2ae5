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

from assignors.errors import InvalidGroup
from assignors.java import in_string_order, string_hash
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol
from assignors.zookeeper.threads import DEFAULT_KAFKA_VERSION, dashed, same_threads_required, threads_by_topic

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
    return _deal(hash_ordered(sizes, dashed=dashed(kafka_version)), threads, circle)


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
    """Return all partitions of the topics by the signed hash code of "[topic,partition]" or "topic-partition"."""
    opening, comma, closing = ("", "-", "") if dashed else ("[", ",", "]")
    partitions = [(name, partition) for name, size in sizes.items() for partition in range(size)]
    return sorted(partitions, key=lambda one: string_hash(f"{opening}{one[0]}{comma}{one[1]}{closing}"))


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
