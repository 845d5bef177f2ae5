"""The groups of ``bench-assignors``: members, partitions per member, and topics."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from assignors.registry import names


@dataclass(frozen=True, slots=True)
class GroupShape:
    """A group to measure; ``ratio``: partitions per member; ``buckets``: number of different subscriptions."""

    assignor: str
    members: int
    ratio: int
    topics: int
    buckets: int = 1
    join: bool = False
    racks: bool = False
    new_member_is_first: bool = False
    protocol: str = "classic"

    @property
    def partitions(self) -> int:
        """Return the number of partitions of each topic."""
        return self.members * self.ratio // self.topics

    def bucket(self, member: int) -> range:
        """Return the topics to which this member subscribes."""
        size = -(-self.topics // self.buckets)
        start = member // -(-self.members // self.buckets) * size
        return range(start, min(self.topics, start + size))

    def __str__(self) -> str:
        kind = "equal" if self.buckets == 1 else "unequal"
        change = ("+1 first" if self.new_member_is_first else "+1") if self.join else "full"
        size = f"{self.members}×{self.ratio} | {self.topics}"
        name = self.assignor + {"consumer": " (KIP-848)", "zookeeper": " (ZooKeeper)"}.get(self.protocol, "")
        return f"{name} | {size} | {kind} | {change} | {'on' if self.racks else 'off'}"


#: Members, partitions per member, topics.
_GROUP_SIZES = [(100, 10, 10), (1000, 10, 100)]
_LARGE_GROUP_SIZES = [
    (100, 50, 100),
    (1000, 50, 100),
    (1000, 10, 1000),
    (5000, 10, 1000),
    (10000, 10, 1000),
    (10000, 50, 100),
]


def group_shapes(protocol: str, *, quick: bool) -> Iterator[GroupShape]:
    """Yield the kinds of groups to measure (assignor, members, topics, racks, …), the smallest first."""
    sizes = _GROUP_SIZES if quick else [*_GROUP_SIZES, *_LARGE_GROUP_SIZES]
    if protocol == "consumer":
        yield from _coordinator_shapes(sizes if quick else [*sizes, (5000, 50, 100)])
        return
    if protocol == "zookeeper":
        yield from _old_consumer_shapes(sizes)
        return
    for members, ratio, topics in sizes:
        for assignor in names(protocol):
            for buckets, join in product((1, 5), (False, True)):
                for racks in (False, True) if assignor != "roundrobin" else (False,):
                    yield GroupShape(assignor, members, ratio, topics, buckets, join, racks)
    for members in (1000,) if quick else (1000, 5000):  # the first bucket is Java's slow case
        yield GroupShape("cooperative-sticky", members, 10, 100, 5, join=True, new_member_is_first=True)
    if not quick:
        for join in (False, True):
            yield GroupShape("cooperative-sticky", 2000, 500, 500, join=join)


def _old_consumer_shapes(sizes: Iterable[tuple[int, int, int]]) -> Iterator[GroupShape]:
    """Yield the ZooKeeper-based groups to measure; their assignors use neither racks nor owned partitions."""
    for (members, ratio, topics), assignor in product(sizes, names("zookeeper")):
        for buckets, join in product((1, 5), (False, True)):
            yield GroupShape(assignor, members, ratio, topics, buckets, join, protocol="zookeeper")


def _coordinator_shapes(sizes: Iterable[tuple[int, int, int]]) -> Iterator[GroupShape]:
    """Return the groups to measure with the coordinator's assignors, which do not use racks in Kafka 4.3.1."""
    for (members, ratio, topics), assignor in product(sizes, names("consumer")):
        for buckets, join in product((1, 5), (False, True)):
            yield GroupShape(assignor, members, ratio, topics, buckets, join, protocol="consumer")


def scaling_group_shapes() -> Iterator[GroupShape]:
    """Yield the groups for the growth measurement; each group has twice as many members as the previous one."""
    for assignor in ("range", "roundrobin", "cooperative-sticky"):
        for buckets in (1, 5):
            for step in range(5):
                yield GroupShape(assignor, 500 << step, 10, 100, buckets, join=True)
