"""``AdminUtils.assignReplicasToBrokers``: how ZooKeeper-era clusters placed replicas (server-common, to 4.0).

Goals, in order: replicas even over brokers; the followers of one broker's leaders spread over the others; with
racks, every partition in as many racks as it has replicas. Leaders go round the broker list; followers go round
from the leader's neighbour plus a shift, which grows by one each time the leaders wrap. O(partitions × replicas);
rack-aware at most × brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from assignors.java import JavaRandom, in_string_order
from assignors.placement.model import Broker, InvalidPlacement, Placement, check_question

_MAX_INT = 2**31 - 1


def assign_replicas(
    brokers: Sequence[Broker],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int | None = None,
    shift: int | None = None,
    start_partition: int = 0,
    random: JavaRandom | None = None,
) -> Placement:
    """Brokers of the partitions ``start_partition`` … ``start_partition + partitions − 1``.

    Brokers without racks take turns in their order. ``start_index``: place of partition 0's leader; ``shift``: of the
    first followers, the start index when that is given; ``random`` draws what is not given, the start first.
    """
    check_question(brokers, partitions, replication_factor, start_partition)
    aware = any(broker.rack is not None for broker in brokers)
    if aware:
        without = [str(broker.id) for broker in brokers if broker.rack is None]
        if without:
            raise InvalidPlacement(
                f"brokers: {', '.join(without)} without a rack while others have one; give all or none"
            )
        ordered = rack_alternated(brokers)
    else:
        ordered = list(brokers)
    start, shift = _starts(len(brokers), start_index, shift, random)
    ids = range(start_partition, start_partition + partitions)
    if aware:
        return _rack_aware(ordered, ids, replication_factor, start, shift)
    return _rack_unaware(ordered, ids, replication_factor, start, shift)


def rack_alternated(brokers: Sequence[Broker]) -> list[Broker]:
    """The brokers one rack after the other, ids ascending within: 0:a 1:a 2:b → 0, 2, 1."""
    racks: dict[str, list[Broker]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    rounds = zip_longest(*(racks[rack] for rack in in_string_order(racks)))
    return [broker for turn in rounds for broker in turn if broker is not None]


def _starts(count: int, start: int | None, shift: int | None, random: JavaRandom | None) -> tuple[int, int]:
    for name, value in (("start_index", start), ("shift", shift)):
        if value is not None and not 0 <= value <= _MAX_INT:
            raise InvalidPlacement(f"{name}: {value}; must be between 0 and {_MAX_INT}")
    if start is None:
        if random is None:
            raise InvalidPlacement("start_index: missing, and no random numbers to draw it from")
        drawn = random.next_int(count)
        return drawn, random.next_int(count) if shift is None else shift
    return start, start if shift is None else shift


def _rack_unaware(brokers: Sequence[Broker], partitions: range, replicas: int, start: int, shift: int) -> Placement:
    count = len(brokers)
    ids = [broker.id for broker in brokers]
    steps = max(count - 1, 1)
    answer: Placement = {}
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + start) % count
        answer[partition] = [ids[leader]] + [
            ids[(leader + 1 + (shift + follower) % steps) % count] for follower in range(replicas - 1)
        ]
    return answer


def _rack_aware(brokers: Sequence[Broker], partitions: range, replicas: int, start: int, shift: int) -> Placement:
    count = len(brokers)
    racks = len({broker.rack for broker in brokers})
    answer: Placement = {}
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + start) % count
        chosen = [brokers[leader].id]
        used_racks = {brokers[leader].rack}
        tried = 0
        while len(chosen) < replicas:
            candidate = brokers[(leader + 1 + (shift * racks + tried) % (count - 1)) % count]
            tried += 1
            # Never the same broker twice: the replication factor is at most the number of brokers.
            if candidate.id in chosen or (candidate.rack in used_racks and len(used_racks) < racks):
                continue
            chosen.append(candidate.id)
            used_racks.add(candidate.rack)
        answer[partition] = chosen
    return answer
