"""Sticky where all subscribe to the same topics (``ConstrainedAssignmentBuilder``).

Goals, in order: everyone has floor or ceil of partitions / members; members keep what they own, lower partitions
first; racks match (then a mismatch is given up even if owned). Every owned or free partition is touched a constant
number of times: O(partitions + members·log members), plus a sort of those shares that lose something.

Sizes alone decide who receives: a member below the floor is *under*, one at the floor that may still get one
more is *exact*. Free partitions go round-robin over *under* until each has the floor, then one each to *exact*.
"""

from __future__ import annotations

from collections.abc import Sequence

from assignors.classic.dealer import Dealer
from assignors.classic.group import ClientGroup, id_keys, map_order
from assignors.classic.owned import Owned
from assignors.classic.quotas import Quotas
from assignors.classic.racks import Racks
from assignors.classic.sticky_uniform_racks import give_near
from assignors.errors import InvalidGroup
from assignors.java import in_string_order
from assignors.model import Member, Share

#: ``{topic: {partition: place of the member that has to give it up}}``.
Lost = dict[str, dict[int, int]]


def build(
    group: ClientGroup, members: Sequence[Member], owned: Owned, racks: Racks | None, *, withhold: bool
) -> list[dict[str, Sequence[int]]]:
    """The shares by place; ``members`` in map order.

    ``withhold`` leaves out what another member has to revoke first, and what was doubly claimed.

    Raises:
        InvalidGroup: members keep so many partitions that do not exist that others find no place.
    """
    _disown_doubly_claimed(owned)
    lost: Lost = {}
    if racks is not None:
        _disown_mismatches(owned, racks, lost)
    names = in_string_order(group.counts)
    quotas = Quotas.of(sum(group.counts.values()), len(members))
    ids = [member.member_id for member in members]
    _keep(ids, owned, quotas, {name: rank for rank, name in enumerate(names)}, lost)
    free = _free_partitions(group, names, owned, lost)
    quotas.sort(id_keys(ids))
    dealer = Dealer(owned.shares, lost, owned.doubly, withhold=withhold)
    if racks is not None:
        free = give_near(free, racks, quotas, owned.sizes, dealer)
    left = sum(len(parts) for _, parts in free)
    receivers = quotas.receivers(owned.sizes, left)
    if len(receivers) < left:  # members' shares are full of what does not exist
        raise _no_room(group, owned)
    dealer.deal(free, receivers)
    return dealer.shares


def _disown_doubly_claimed(owned: Owned) -> None:
    """A third claim, of a higher generation, may have won what two others claimed: no one keeps it."""
    for name, partition in owned.doubly:
        for place in set(owned.contested[name][partition]):
            if partition in owned.shares[place].get(name, ()):
                owned.take(place, name, {partition})
        owned.partitions[name] = [kept for kept in owned.partitions[name] if kept != partition]


def _disown_mismatches(owned: Owned, racks: Racks, lost: Lost) -> None:
    for place, share in enumerate(owned.shares):
        if racks.of_member[place] is None:
            continue
        for name, partitions in list(share.items()):
            wrong = {p for p in partitions if racks.mismatch(place, name, p)}
            if wrong:
                owned.take(place, name, wrong)
                lost.setdefault(name, {}).update(dict.fromkeys(wrong, place))


def _keep(ids: Sequence[str], owned: Owned, quotas: Quotas, ranks: dict[str, int], lost: Lost) -> None:
    """Cut every share to what its member may keep, and sort out who may still receive."""
    for place in map_order(ids):  # a second map, filled from the first: only trees make a difference
        size = owned.sizes[place]
        keep = quotas.keep(place, size)
        if keep < size:
            for name, partitions in _surplus(owned.shares[place], keep, ranks).items():
                owned.take(place, name, partitions)
                lost.setdefault(name, {}).update(dict.fromkeys(partitions, place))


def _surplus(share: Share, keep: int, ranks: dict[str, int]) -> dict[str, set[int]]:
    """What a share loses when it is cut to its first ``keep`` partitions by (partition, topic)."""
    topics = len(ranks)
    names = list(ranks)
    keys = [p * topics + rank for name, parts in share.items() for rank in (ranks[name],) for p in parts]
    keys.sort()
    surplus: dict[str, set[int]] = {}
    for key in keys[keep:]:
        partition, rank = divmod(key, topics)
        surplus.setdefault(names[rank], set()).add(partition)
    return surplus


def _no_room(group: ClientGroup, owned: Owned) -> InvalidGroup:
    told = ", ".join(f"{name} has {group.counts[name]}" for name in sorted(owned.beyond))
    return InvalidGroup(
        f"members: they own partitions that do not exist ({told}) and keep so many of them that others find no "
        "place; Kafka's assignor fails with IllegalStateException"
    )


def _free_partitions(
    group: ClientGroup, names: Sequence[str], owned: Owned, lost: Lost
) -> list[tuple[str, Sequence[int]]]:
    """The partitions of each topic that are given out.

    Java walks through all partitions beside the sorted kept ones and waits for the next kept one to come up. One
    that does not exist never does: all partitions of the topics behind it are given out, the kept ones once more.
    """
    free = []
    lost_count = False
    for name in names:
        count = group.counts[name]
        parts = range(count) if lost_count else _free(count, name, owned, lost)
        if parts:
            free.append((name, parts))
        if name in owned.beyond:
            gone = lost.get(name, {})
            lost_count = lost_count or any(p >= count and p not in gone for p in owned.partitions[name])
    return free


def _free(count: int, name: str, owned: Owned, lost: Lost) -> Sequence[int]:
    """The partitions of a topic that no one has, ascending."""
    kept = owned.partitions[name]
    gone = lost.get(name, {})
    if name in owned.beyond:
        kept = [partition for partition in kept if partition < count]
        gone = {partition: place for partition, place in gone.items() if partition < count}
    if not kept:
        return range(count)
    if len(kept) == count:
        return sorted(gone)
    taken = set(kept).difference(gone)
    return [partition for partition in range(count) if partition not in taken]
