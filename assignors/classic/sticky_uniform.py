"""Sticky for equal subscriptions of all members (``ConstrainedAssignmentBuilder``).

Goals, in order: every member has floor or ceil of partitions / members; members keep owned partitions, lower ones
first; racks match (a mismatch is given up even if owned). Every owned or free partition is processed a constant number
of times: O(partitions + members·log members), plus sorting the shares that lose partitions.

Only the sizes of shares decide which member receives a free partition. A member below the floor is *under*; a member
at the floor that may still get one more is *exact*. Free partitions go round-robin to the *under* members until each
has the floor, then one partition goes to each *exact* member.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assignors.classic.group import ClientGroup, Holdings, Racks, id_keys, map_order
from assignors.errors import InvalidGroup
from assignors.java import in_string_order
from assignors.model import Member, TopicPartitions

#: Partitions without an owner, by topic; a topic may occur several times.
FreePartitions = list[tuple[str, Sequence[int]]]
NO_OWNER = -1


def build(
    group: ClientGroup, members: Sequence[Member], owned: Holdings, racks: Racks | None, *, cooperative: bool
) -> list[dict[str, Sequence[int]]]:
    """Return the assignment by position of ``members``, which are in map order.

    With ``cooperative``, partitions that another member must revoke first and doubly claimed partitions are left out.
    """
    _remove_doubly_claimed(owned)
    if racks is not None:
        _disown_rack_mismatches(owned, racks)
    names = in_string_order(group.counts)
    quotas = _Quotas.divide(sum(group.counts.values()), len(members))
    ids = [member.member_id for member in members]
    _keep_quotas(ids, owned, quotas, {name: rank for rank, name in enumerate(names)})
    free = _free_partitions(group, names, owned)
    quotas.sort(id_keys(ids))
    shares: list[dict[str, Sequence[int]]] = [dict(share) for share in owned.shares]
    withheld = owned if cooperative else None
    if racks is not None:
        assigned, free = _assign_in_racks(free, racks, quotas, owned.sizes)
        for name, pairs in assigned.items():
            _add_pairs(shares, name, sorted(pairs), withheld)
    unassigned_count = sum(len(partitions) for _, partitions in free)
    receivers = quotas.receivers(owned.sizes, unassigned_count)
    if len(receivers) < unassigned_count:  # Members' shares are full of partitions that do not exist.
        counts = ", ".join(f"{name} has {group.counts[name]}" for name in sorted(owned.large_topics))
        raise InvalidGroup(
            f"members: some own partitions that do not exist ({counts}), so others can't be assigned; "
            "Kafka's assignor fails with IllegalStateException"
        )
    start = 0
    for name, partitions in free:
        _add_pairs(shares, name, zip(partitions, receivers[start : start + len(partitions)], strict=True), withheld)
        start += len(partitions)
    return shares


def _remove_doubly_claimed(owned: Holdings) -> None:
    """Remove doubly claimed partitions from their owners, even if the owner's claim has a higher generation."""
    for name, doubly_claimed in owned.doubly_claimed.items():
        for partition in doubly_claimed:
            for place in set(owned.contested_claims[name][partition]):
                if partition in owned.shares[place].get(name, ()):
                    owned.remove_partitions(place, name, {partition})
        owned.partitions[name] = [kept for kept in owned.partitions[name] if kept not in doubly_claimed]


def _disown_rack_mismatches(owned: Holdings, racks: Racks) -> None:
    for place, share in enumerate(owned.shares):
        if racks.rack_by_member[place] is not None:
            for name, partitions in share.items():
                if other_rack_partitions := {p for p in partitions if racks.is_mismatched(place, name, p)}:
                    owned.lose_partitions(place, name, other_rack_partitions)


def _keep_quotas(ids: Sequence[str], owned: Holdings, quotas: "_Quotas", ranks: dict[str, int]) -> None:
    for place in map_order(ids):  # Java copies the map: the order only differs if a bin is a tree
        size = owned.sizes[place]
        keep = quotas.count_kept(place, size)
        if keep < size:
            for name, partitions in _surplus_partitions(owned.shares[place], keep, ranks).items():
                owned.lose_partitions(place, name, partitions)


def _surplus_partitions(share: TopicPartitions, kept_count: int, ranks: dict[str, int]) -> dict[str, set[int]]:
    """Return the partitions of a share after its first ``kept_count`` ones, in the order of (partition, topic)."""
    topics = len(ranks)
    names = list(ranks)
    keys = [p * topics + rank for name, partitions in share.items() for rank in (ranks[name],) for p in partitions]
    keys.sort()
    surplus: dict[str, set[int]] = {}
    for key in keys[kept_count:]:
        partition, rank = divmod(key, topics)
        surplus.setdefault(names[rank], set()).add(partition)
    return surplus


def _free_partitions(group: ClientGroup, names: Sequence[str], owned: Holdings) -> FreePartitions:
    """Return the partitions of each topic that are free for assignment.

    Java iterates over all partitions in parallel with the sorted kept partitions, and looks for the next of these. If
    that partition does not exist, all partitions of later topics count as free, so that kept partitions are assigned a
    second time.
    """
    free: FreePartitions = []
    is_after_missing_partition = False
    for name in names:
        count = group.counts[name]
        kept = owned.partitions[name]
        lost: Collection[int] = owned.lost.get(name, {})
        has_missing_partition = False
        if name in owned.large_topics:
            has_missing_partition = any(p >= count and p not in lost for p in kept)
            kept, lost = [p for p in kept if p < count], [p for p in lost if p < count]
        partitions: Sequence[int]
        if is_after_missing_partition or not kept:
            partitions = range(count)
        elif len(kept) == count:
            partitions = sorted(lost)
        else:
            taken = set(kept).difference(lost)
            partitions = [partition for partition in range(count) if partition not in taken]
        if partitions:
            free.append((name, partitions))
        is_after_missing_partition |= has_missing_partition
    return free


def _assign_in_racks(
    free: FreePartitions, racks: Racks, quotas: "_Quotas", sizes: list[int]
) -> tuple[dict[str, list[tuple[int, int]]], FreePartitions]:
    """Assign free partitions to members in their racks; those with the fewest members in their racks come first.

    Updates ``quotas`` and ``sizes``. Returns (partition, member) pairs by topic, and the remaining partitions in the
    order in which they are assigned next.
    """
    circle = _RackQueue(racks, quotas, sizes)
    at = racks.by_topic
    items = [(name, partition, at[name][partition]) for name, partitions in free for partition in partitions]
    rack_sizes = Counter(racks.rack_by_member)
    near_member_counts = {near: sum(rack_sizes[rack] for rack in set(near)) for near in {near for _, _, near in items}}
    assigned: dict[str, list[tuple[int, int]]] = {name: [] for name, _ in free}
    remaining: FreePartitions = []
    for name, partition, near in sorted(items, key=lambda item: near_member_counts[item[2]]):
        place = circle.take_member(near)
        if place == NO_OWNER:
            remaining.append((name, (partition,)))
        else:
            assigned[name].append((partition, place))
    return assigned, remaining


class _RackQueue:
    """Queue of members: first those below the lower quota, then those that may get one partition more."""

    def __init__(self, racks: Racks, quotas: "_Quotas", sizes: list[int]) -> None:
        self._rack = racks.rack_by_member
        self._quotas = quotas
        self._sizes = sizes
        self._next_index = 0
        # Number of queued members in each rack, so that searches that would fail are skipped.
        self._queued_by_rack = Counter(self._rack[place] for place in quotas.below_quota)

    def take_member(self, racks: Collection[str]) -> int:
        quotas, below_quota, index = self._quotas, self._quotas.below_quota, self._next_index
        if not any(self._queued_by_rack[rack] for rack in racks):
            place = next((place for place in quotas.floor_members if self._rack[place] in racks), NO_OWNER)
            if place != NO_OWNER:
                self._sizes[place] += 1
                if self._sizes[place] == quotas.ceiling_size:
                    quotas.floor_members.remove(place)
                    quotas.count_ceiling()
            return place
        while self._rack[below_quota[index]] not in racks:
            index = (index + 1) % len(below_quota)
        place = below_quota[index]
        self._sizes[place] += 1
        if self._sizes[place] < quotas.floor_size:
            index += 1
        else:
            del below_quota[index]
            self._queued_by_rack[self._rack[place]] -= 1
            if self._sizes[place] < quotas.ceiling_size and quotas.ceiling_count < quotas.extra:
                quotas.floor_members.append(place)
        self._next_index = index if index < len(below_quota) else 0
        return place


@dataclass(slots=True)
class _Quotas:
    """Quotas of members: ``extra`` members end up with ``ceiling_size`` partitions, all others with ``floor_size``.

    ``ceiling_count``: members at the ceiling so far; ``below_quota``: positions of members below the floor;
    ``floor_members``: those at the floor that may still get one more.
    """

    floor_size: int
    ceiling_size: int
    extra: int
    ceiling_count: int = 0
    below_quota: list[int] = field(default_factory=list)
    floor_members: list[int] = field(default_factory=list)

    @classmethod
    def divide(cls, partitions: int, members: int) -> "_Quotas":
        floor_size, extra = divmod(partitions, members)
        return cls(floor_size, floor_size + (extra > 0), extra)

    def count_kept(self, place: int, size: int) -> int:
        """Return the number of owned partitions that a member keeps, and update the quotas; call once, in map order."""
        if size < self.floor_size:
            self.below_quota.append(place)
            return size
        if size >= self.ceiling_size and self.ceiling_count < self.extra:
            self.count_ceiling()
            return self.ceiling_size
        if self.ceiling_count < self.extra:
            self.floor_members.append(place)
        return self.floor_size

    def count_ceiling(self) -> None:
        """Count a member that has ceil(partitions / members) partitions; at most ``extra`` members have as many."""
        self.ceiling_count += 1
        if self.ceiling_count == self.extra:
            self.floor_members.clear()

    def sort(self, keys: Sequence[str] | Sequence[bytes]) -> None:
        self.below_quota.sort(key=keys.__getitem__)
        self.floor_members.sort(key=keys.__getitem__)

    def receivers(self, sizes: Sequence[int], count: int) -> list[int]:
        """Return the members that get the ``count`` free partitions, one for each partition.

        Round-robin over the members below their quota: a member that reaches the floor moves to the end of the members
        at the floor. Then each of these gets one partition. Returns fewer than ``count`` if all members are full.
        """
        order: list[int] = []
        waiting_members = self.below_quota
        queue = list(self.floor_members)
        missing_counts = {place: self.floor_size - sizes[place] for place in waiting_members}
        filled_count = 0
        while waiting_members:
            rounds = min(missing_counts[place] for place in waiting_members) - filled_count
            order += waiting_members * rounds
            filled_count += rounds
            queue += [place for place in waiting_members if missing_counts[place] == filled_count]
            waiting_members = [place for place in waiting_members if missing_counts[place] > filled_count]
        order += queue[: count - len(order)]
        return order


def _add_pairs(
    shares: Sequence[dict[str, Sequence[int]]], name: str, pairs: Iterable[tuple[int, int]], withheld: Holdings | None
) -> None:
    """Add partitions to members' shares, except those that another member must revoke or that are claimed twice."""
    lost: Mapping[int, int] = {} if withheld is None else withheld.lost.get(name, {})
    doubly_claimed: Collection[int] = () if withheld is None else withheld.doubly_claimed.get(name, ())
    by_place: dict[int, list[int]] = {}
    for partition, place in pairs:
        if lost.get(partition, place) == place and partition not in doubly_claimed:
            by_place.setdefault(place, []).append(partition)
    for place, partitions in by_place.items():
        share = shares[place]
        share[name] = sorted({*share[name], *partitions}) if name in share else partitions
