"""Members' claims to own partitions, as ``AbstractStickyAssignor.allSubscriptionsEqual`` reads them, in map order.

A partition claimed twice belongs to the claim of the higher generation. Two claims of the same generation leave it
without an owner and doubly claimed, unless a third claim has a higher generation. A claim may exceed a topic's count
if the topic was recreated with fewer partitions: Java does not check that.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from assignors.classic.group import ClientGroup
from assignors.errors import InvalidGroup
from assignors.model import NO_GENERATION, Member, TopicPartitions


@dataclass(slots=True)
class Owned:
    """Owned partitions by member, each partition at most once.

    ``shares`` and their ``sizes``: by position of the member; ``partitions``: all owned ones; ``contested``: claimants
    of partitions with several claims; ``doubly``: partitions claimed twice in one generation; ``beyond``: topics with
    claims beyond their partition count.
    """

    shares: list[TopicPartitions]
    sizes: list[int]
    partitions: dict[str, list[int]]
    contested: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    doubly: set[tuple[str, int]] = field(default_factory=set)
    beyond: set[str] = field(default_factory=set)

    def take(self, place: int, name: str, partitions: Container[int]) -> None:
        """Remove partitions of a topic from a share; ``self.partitions`` does not change."""
        share = dict(self.shares[place])
        had = share.pop(name)
        left = [partition for partition in had if partition not in partitions]
        if left:
            share[name] = left
        self.shares[place] = share
        self.sizes[place] -= len(had) - len(left)


def read_owned(group: ClientGroup, members: Sequence[Member]) -> Owned:
    """Return the claims of ``members`` (in map order) with conflicts resolved; O(owned)."""
    partitions: dict[str, list[int]] = {name: [] for name in group.counts}
    shares: list[TopicPartitions] = []
    sizes: list[int] = []
    for member in members:
        share = {name: sorted(claimed) for name, claimed in member.owned.items() if claimed and name in partitions}
        for name, claimed in share.items():
            partitions[name] += claimed
        shares.append(share)
        sizes.append(sum(map(len, share.values())))
    owned = Owned(shares, sizes, partitions)
    for name, claims in partitions.items():
        if not claims:
            continue
        if min(claims) < 0:
            raise _negative(group, name)
        if max(claims) >= group.counts[name]:
            owned.beyond.add(name)
        if len(set(claims)) != len(claims):
            _settle(owned, name, members)
    return owned


def _negative(group: ClientGroup, name: str) -> InvalidGroup:
    member, partition = next(
        (member.member_id, partition)
        for member in group.members
        for partition in member.owned.get(name, ())
        if partition < 0
    )
    return InvalidGroup(f"members.{member}.owned.{name}: partition {partition} is negative")


def _settle(owned: Owned, name: str, members: Sequence[Member]) -> None:
    """Resolve conflicts of topic ``name``: each contested partition goes to one claimant, or to none."""
    claimants: dict[int, list[int]] = {}
    for place, share in enumerate(owned.shares):
        for partition in share.get(name, ()):
            claimants.setdefault(partition, []).append(place)
    contested = {partition: places for partition, places in claimants.items() if len(places) > 1}
    winners: dict[int, int] = {}
    for partition, places in contested.items():
        rival, holds = places[0], True
        for place in places[1:]:
            # Java reads the rival's generation from its subscription (a negative one counts as none), the claimant's
            # as sent.
            generation, against = members[place].generation, max(members[rival].generation, NO_GENERATION)
            if generation == against:
                owned.doubly.add((name, partition))
                rival, holds = place, False
            elif generation > against:
                rival, holds = place, True
        if holds:
            winners[partition] = rival
    for place in {place for places in contested.values() for place in places}:
        share = dict(owned.shares[place])
        left = [p for p in share.pop(name) if p not in contested or winners.get(p) == place]
        if left:
            share[name] = left
        owned.shares[place] = share
        owned.sizes[place] = sum(map(len, share.values()))
    owned.contested[name] = contested
    owned.partitions[name] = [p for p in claimants if p not in contested or p in winners]
