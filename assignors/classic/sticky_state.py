"""Sticky assignment with different subscriptions: kept partitions, and the assignment of others (``maybeAssign``).

A member is represented by its rank in the order of ids, a partition by its index in a list of owners. Loads only grow
while free partitions are assigned, so a heap of (load, rank) may have outdated entries: an entry is corrected when it
reaches the top.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from operator import itemgetter

from assignors.classic.group import ClientGroup, Holdings, Racks, id_keys, subscribers_by_topic
from assignors.java import string_key
from assignors.model import Member, TopicPartitions

NO_OWNER = -1


@dataclass(slots=True)
class StickyState:
    """Owner of each partition, as the rank of a member.

    ``places``: positions of members in map order. ``owners``: topics in Java's order, fewest subscribers first, then by
    name. ``candidates``: number of subscribers of a topic, with duplicates. ``claims``: previous owner of each
    partition, whether it subscribes to the topic or not. ``revoked``: True if a member owned partitions of a topic
    without a subscription, or outside its rack. ``stuck``: partitions that never leave a member.
    """

    group: ClientGroup
    places: list[int]
    loads: list[int]
    owners: dict[str, list[int]]
    subscribers: dict[str, list[int]]
    candidates: dict[str, int]
    racks: Racks | None
    claims: dict[str, list[int]] = field(default_factory=dict)
    revoked: bool = False
    stuck: dict[str, dict[int, int]] = field(default_factory=dict)

    def free(self) -> dict[str, list[int]]:
        """Return the partitions without an owner as ``{topic: partitions}``."""
        unowned = {name: owners for name, owners in self.owners.items() if NO_OWNER in owners}
        return {name: [p for p, owner in enumerate(owners) if owner == NO_OWNER] for name, owners in unowned.items()}

    def shares(self, owned: Holdings, *, cooperative: bool) -> list[dict[str, Sequence[int]]]:
        """Return partitions by member position; ``cooperative``: without those that other members must revoke first."""
        shares: list[dict[str, Sequence[int]]] = [{} for _ in self.places]
        claims, large_topics = self.claims, owned.large_topics
        changed_topics = {
            name: at for name, at in self.owners.items() if at != claims.get(name) or name in large_topics
        }
        for share, before in zip(shares, owned.shares, strict=True):
            share.update((name, partitions) for name, partitions in before.items() if name not in changed_topics)
        shares_by_rank = [shares[place] for place in self.places]
        for name, owners in changed_topics.items():
            withheld = self._partitions_to_revoke(name, owned) if cooperative else ()
            partitions_by_owner: dict[int, list[int]] = defaultdict(list)
            for partition, owner in enumerate(owners):
                if partition not in withheld:
                    partitions_by_owner[owner].append(partition)
            for partition, owner in self.stuck.get(name, {}).items():
                partitions_by_owner[owner] = sorted({partition, *partitions_by_owner.get(owner, ())})
            for owner, partitions in partitions_by_owner.items():
                shares_by_rank[owner][name] = partitions
        return shares

    def _partitions_to_revoke(self, name: str, owned: Holdings) -> set[int]:
        owners = self.owners[name]
        pairs = enumerate(zip(owners, self.claims.get(name) or owners, strict=True))
        withheld = {partition for partition, (owner, claim) in pairs if claim not in (owner, NO_OWNER)}
        withheld -= self.stuck.get(name, {}).keys()  # No member has to give these partitions up.
        for partition, places in owned.contested_claims.get(name, {}).items():
            if partition < len(owners) and self.places[owners[partition]] in places:
                withheld.discard(partition)
            elif partition < len(owners):
                withheld.add(partition)
        return withheld


def read_state(group: ClientGroup, members: Sequence[Member], owned: Holdings, racks: Racks | None) -> StickyState:
    """Return the start of a sticky assignment: each member has its owned partitions that it may keep."""
    places = sorted(range(len(members)), key=id_keys([member.member_id for member in members]).__getitem__)
    members_by_rank = [members[place] for place in places]
    subscribers = subscribers_by_topic(members_by_rank)
    topic_subscribers = {name: subscribers[name] for name in group.counts}
    candidates = {name: len(places) for name, places in topic_subscribers.items()}
    for member in members_by_rank:
        if len(set(member.topics)) != len(member.topics):
            for name in set(member.topics) & candidates.keys():
                candidates[name] += member.topics.count(name) - 1
    order = sorted(group.counts, key=lambda name: (candidates[name], string_key(name)))
    owners = {name: [NO_OWNER] * group.counts[name] for name in order}
    state = StickyState(group, places, [0] * len(members), owners, topic_subscribers, candidates, racks)
    for rank, place in enumerate(places):
        _keep_owned_partitions(state, rank, members_by_rank[rank], owned.shares[place])
    _mark_stuck_topics(state)
    return state


def _mark_stuck_topics(state: StickyState) -> None:
    """Mark the partitions that Java treats as free after an owned partition that does not exist.

    ``getUnassignedPartitions`` iterates over all partitions in parallel with the sorted owned partitions, and looks for
    the next owned partition. If that partition does not exist, all owned partitions of later topics also count as free,
    although they stay with their owners.
    """
    names = list(state.owners)
    first = min((names.index(name) for name in state.stuck), default=len(names))
    for name in names[first + 1 :]:
        owners = state.owners[name]
        for partition, owner in enumerate(owners):
            if owner != NO_OWNER:
                state.stuck.setdefault(name, {})[partition] = owner
                owners[partition] = NO_OWNER


def _keep_owned_partitions(state: StickyState, rank: int, member: Member, share: TopicPartitions) -> None:
    place = state.places[rank]
    topics = set(member.topics) if share else ()
    for name, partitions in share.items():
        owners = state.owners[name]
        claims = state.claims.get(name)
        if claims is None:
            claims = state.claims[name] = [NO_OWNER] * len(owners)
        for partition in partitions:
            if partition < len(owners):
                claims[partition] = rank
        if name not in topics:
            state.revoked = True
            continue
        for partition in partitions:
            if state.racks is not None and state.racks.is_mismatched(place, name, partition):
                state.revoked = True
                continue
            state.loads[rank] += 1
            if partition < len(owners):
                owners[partition] = rank
            else:
                state.stuck.setdefault(name, {})[partition] = rank


def assign_free_partitions(state: StickyState, free: Mapping[str, Sequence[int]]) -> None:
    """Assign every free partition, to a subscriber in one of its racks if possible, else to any subscriber."""
    racks = state.racks
    if racks is not None:
        racks_by_rank = [racks.rack_by_member[place] for place in state.places]
        free = _assign(state, free, racks_by_rank, lambda name, partition: (None, *racks.by_topic[name][partition]))
    _assign(state, free, [None] * len(state.loads), lambda *_: (None,))


def _assign(
    state: StickyState,
    free: Mapping[str, Sequence[int]],
    racks_by_rank: Sequence[str | None],
    near: Callable[[str, int], Iterable[str | None]],
) -> dict[str, list[int]]:
    """Assign each free partition to the least loaded subscriber in one of its racks; return the partitions left."""
    loads, size = state.loads, len(state.loads)
    heaps_by_rank: dict[int, dict[str | None, list[int]]] = {}
    remaining: dict[str, list[int]] = {}
    for name, owners in state.owners.items():
        subscribers = state.subscribers[name]
        heaps = heaps_by_rank.setdefault(id(subscribers), {})
        if name in free and not heaps:
            for rank in subscribers:  # Members ascend, and so do the entries with equal loads.
                heaps.setdefault(racks_by_rank[rank], []).append(loads[rank] * size + rank)
            for heap in heaps.values():
                heapify(heap)
        for partition in free.get(name, ()):
            candidates = [(_least_loaded(heaps[rack], loads), rack) for rack in near(name, partition) if rack in heaps]
            if not candidates:
                remaining.setdefault(name, []).append(partition)
                continue
            entry, rack = min(candidates, key=itemgetter(0))
            rank = owners[partition] = entry % size
            loads[rank] += 1
            heapreplace(heaps[rack], entry + size)
    return remaining


def _least_loaded(heap: list[int], loads: Sequence[int]) -> int:
    size = len(loads)
    while True:
        entry = heap[0]
        rank = entry % size
        current = loads[rank] * size + rank
        if entry == current:
            return entry
        heapreplace(heap, current)
