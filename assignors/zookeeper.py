"""Assignors of the old consumer (``kafka.consumer.PartitionAssignor``, 0.8.2 to 1.1), over consumer threads.

Each consumer computed the whole group's assignment from ZooKeeper and used its own part; these functions return the
whole assignment. Keys of the assignment are thread ids, in the format ``consumer-n``.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain

from assignors.assignment import even_ranges
from assignors.errors import BadInput, InvalidGroup
from assignors.java import in_string_order, string_hash
from assignors.model import Assignment, Member, Topic, check_group

DEFAULT_KAFKA_VERSION = "0.11"
#: KAFKA-2434: before this version round robin needs the same threads for every topic.
_UNION_SINCE_VERSION = (0, 10, 2)
#: Since this version a partition's text, and so its hash code, is "topic-partition", not "[topic,partition]".
_DASH_SINCE_VERSION = (1, 0)
_OLDEST_VERSION, _REMOVED_IN_VERSION = (0, 8, 2), (2, 0)


def _parse_version(kafka_version: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,3}", kafka_version, re.ASCII):
        raise BadInput(f"kafkaVersion: {kafka_version!r} is not a version such as 0.8.2, 0.11 or 1.1")
    numbers = tuple(map(int, kafka_version.split(".")))
    if not _OLDEST_VERSION <= numbers < _REMOVED_IN_VERSION:
        raise BadInput(f"kafkaVersion: {kafka_version!r} is outside 0.8.2 to 1.1, which had these assignors")
    return numbers


def threads_by_topic(topics: Mapping[str, Topic], members: Sequence[Member]) -> dict[str, list[str]]:
    """Return each subscribed topic's thread ids, sorted as strings: c-10 comes before c-2.

    Topics with the same threads share one list.
    """
    check_group(topics, members)
    streams_by_topic: dict[str, list[tuple[str, int]]] = {}
    for position, member in enumerate(members):
        if member.streams is None:
            problem = "missing; an old consumer subscribes with a number of threads for each topic"
            raise InvalidGroup(f"members[{position}].streams: {problem}")
        for name, streams in member.streams.items():
            if not isinstance(streams, int) or isinstance(streams, bool) or streams < 1:
                where = f"members[{position}].streams.{name}"
                raise InvalidGroup(f"{where}: {streams!r} is not a number of threads, 1 or more")
            streams_by_topic.setdefault(name, []).append((member.member_id, streams))
    sorted_threads = {
        subscribers: in_string_order(f"{member_id}-{n}" for member_id, streams in subscribers for n in range(streams))
        for subscribers in set(map(tuple, streams_by_topic.values()))
    }
    return {name: sorted_threads[tuple(subscribers)] for name, subscribers in streams_by_topic.items()}


def assign_range(
    topics: Mapping[str, Topic], members: Sequence[Member], *, kafka_version: str = DEFAULT_KAFKA_VERSION
) -> Assignment:
    """Return each thread's partitions under ``range`` (kafka.consumer.RangeAssignor, the same in all versions).

    Each topic's partitions are assigned in contiguous ranges to the topic's sorted threads. With P partitions and n
    threads, the range of thread i begins at (P div n)·i + min(i, P mod n). O(threads log threads + topics × threads).
    """
    _parse_version(kafka_version)
    threads = threads_by_topic(topics, members)
    assignment: Assignment = {thread: {} for ids in threads.values() for thread in ids}
    topic_groups: dict[tuple[int, int], list[str]] = {}
    for name, ids in threads.items():
        partitions = topics[name].partitions if name in topics else 0
        topic_groups.setdefault((id(ids), partitions), []).append(name)
    for (_, partitions), names in topic_groups.items():
        ids = threads[names[0]]
        for thread, share in zip(ids, even_ranges(partitions, len(ids)), strict=False):
            assignment[thread].update(dict.fromkeys(names, share))
    return assignment


def assign_round_robin(
    topics: Mapping[str, Topic], members: Sequence[Member], *, kafka_version: str = DEFAULT_KAFKA_VERSION
) -> Assignment:
    """Return each thread's partitions under ``roundrobin`` (kafka.consumer.RoundRobinAssignor).

    Partitions are assigned round-robin to the sorted threads, in the order of the signed hash codes of the partitions'
    texts. Until 0.10.1 every topic must have the same threads; other groups raise InvalidGroup. Since 0.10.2
    (KAFKA-2434) all threads of the group are in one circle, in which non-subscribers are skipped. Since 1.0 the texts,
    and so the order, are different.

    Partitions with equal hash codes ("[Aa,0]" and "[BB,0]") have no defined order in Kafka, where it follows the layout
    of a Scala map. In this function such partitions are ordered by topic name, then by partition.
    O(partitions log partitions + threads log threads); skipping costs at most the threads between two subscribers.
    """
    version = _parse_version(kafka_version)
    threads = threads_by_topic(topics, members)
    if version < _UNION_SINCE_VERSION:  # conditions (a) and (b) of the class: equal topics and numbers of streams
        first, *more = threads or [""]
        for name in more:
            if threads[name] != threads[first]:
                raise InvalidGroup(
                    "members.streams: round robin before Kafka 0.10.2 needs every consumer to subscribe to the same "
                    "topics, each with the same number of streams. "
                    f"Topic {name} has the consumer streams {{{', '.join(threads[name])}}}, "
                    f"topic {first} has {{{', '.join(threads[first])}}}"
                )
    thread_order = in_string_order(set(chain.from_iterable(threads.values())))
    place = {thread: at for at, thread in enumerate(thread_order)}
    places = {name: [place[thread] for thread in ids] for name, ids in threads.items()}
    sizes = {name: topics[name].partitions for name in in_string_order(threads) if name in topics}
    assigned: list[dict[str, list[int]]] = [{} for _ in thread_order]
    at = 0
    for name, partition in partitions_in_hash_order(sizes, has_dash=version >= _DASH_SINCE_VERSION):
        subscribed = places[name]
        next_subscriber = bisect_left(subscribed, at)
        at = subscribed[next_subscriber] if next_subscriber < len(subscribed) else subscribed[0]
        assigned[at].setdefault(name, []).append(partition)
        at += 1
    return {
        thread: {name: sorted(partitions) for name, partitions in by_topic.items()}
        for thread, by_topic in zip(thread_order, assigned, strict=True)
    }


def partitions_in_hash_order(sizes: Mapping[str, int], *, has_dash: bool) -> list[tuple[str, int]]:
    """Return all partitions by the signed hash code of "topic-partition" (``has_dash``) or "[topic,partition]"."""
    text = "{}-{}" if has_dash else "[{},{}]"
    partitions = [(name, partition) for name, size in sizes.items() for partition in range(size)]
    return sorted(partitions, key=lambda pair: string_hash(text.format(*pair)))
