"""Runs kafka-python's assignors on this project's groups."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from assignors.model import Member, Topic


class _Cluster:
    """The part of kafka-python's ClusterMetadata that kafka-python's assignors use."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._partitions = {name: set(range(topic.partitions)) for name, topic in topics.items()}

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, name: str) -> set[int] | None:
        return self._partitions.get(name)


def kafka_python_assigner(
    name: str, topics: Mapping[str, Topic], members: Sequence[Member]
) -> Callable[[], Any] | None:
    """Return a function that assigns with kafka-python; None if kafka-python has no such assignor."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    classes: dict[str, Any] = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    if name not in classes:
        return None
    cluster = _Cluster(topics)
    theirs = [
        SimpleNamespace(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=SimpleNamespace(
                topics=list(member.topics),
                owned_partitions=[
                    SimpleNamespace(topic=topic, partitions=list(share)) for topic, share in member.owned.items()
                ],
                generation_id=member.generation,
            ),
        )
        for member in members
    ]
    return lambda: classes[name]().assign(cluster, theirs)
