"""Brokers, and what can be wrong with a question about placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assignors.errors import BadInput

#: ``{partition: broker ids}``; the first of a partition's brokers is its preferred leader.
Placement = dict[int, list[int]]

#: Replicas one question may ask for: more than any cluster holds, and less than would fill a machine's memory.
MAX_REPLICAS = 20_000_000
#: Partition ids are int32.
MAX_PARTITION = 2**31 - 1


class InvalidPlacement(BadInput):
    """The brokers, partitions or replicas contradict each other."""


class InvalidReplicationFactor(InvalidPlacement):
    """The replication factor can't be met."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker; ``fenced`` ones are registered but not in service (KRaft)."""

    id: int
    rack: str | None = None
    fenced: bool = False


def check_question(brokers: Sequence[Broker], partitions: int, replication_factor: int, start_partition: int) -> None:
    """Refuse what no placer can answer."""
    check_brokers(brokers)
    if partitions < 1:
        raise InvalidPlacement(f"partitions: {partitions}; must be larger than 0")
    if start_partition < 0:
        raise InvalidPlacement(f"start_partition: {start_partition} is negative")
    if start_partition + partitions - 1 > MAX_PARTITION:
        raise InvalidPlacement(
            f"start_partition: {start_partition} and {partitions} partitions pass the last there can be, "
            f"{MAX_PARTITION}"
        )
    if replication_factor < 1:
        raise InvalidReplicationFactor(f"replication_factor: {replication_factor}; must be larger than 0")
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"replication_factor: {replication_factor} is larger than the number of brokers, {len(brokers)}; "
            "add brokers or lower it"
        )
    if partitions * replication_factor > MAX_REPLICAS:
        raise InvalidPlacement(
            f"partitions: {partitions} × replication_factor {replication_factor} is over the limit of "
            f"{MAX_REPLICAS} replicas an answer"
        )


def check_brokers(brokers: Sequence[Broker]) -> None:
    """Refuse an empty list, negative ids and ids listed twice."""
    if not brokers:
        raise InvalidPlacement("brokers: none given")
    seen: set[int] = set()
    for broker in brokers:
        if broker.id < 0:
            raise InvalidPlacement(f"brokers: id {broker.id} is negative")
        if broker.id in seen:
            raise InvalidPlacement(f"brokers: id {broker.id} is listed twice")
        seen.add(broker.id)
