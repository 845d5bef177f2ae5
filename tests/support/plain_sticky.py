"""The sticky assignors without any speed: step by step as the KIP-54 and KIP-429 classes go, racks left out.

The twin of ``assignors/classic/sticky_*.py`` in property tests: no dense numbers, no masks, no shortcuts; whether
the assignment is balanced is asked before every partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.java import HashTable, hash_order, string_hash, string_key, topic_partition_hash
from assignors.model import Member, Topic

Partition = tuple[str, int]
Shares = dict[str, list[Partition]]


class NeverEnds(Exception):  # noqa: N818 - not an error of this project: a group that Kafka has no answer for
    """Kafka throws or goes round for ever."""


def assign(
    topics: Mapping[str, Topic], members: Sequence[Member], *, cooperative: bool
) -> dict[str, dict[str, list[int]]]:
    """What ``sticky`` or ``cooperative-sticky`` answers."""
    ids = [member.member_id for member in members]
    order = [members[at] for at in hash_order([string_hash(name) for name in ids], keys=ids)]
    counts = {
        name: topics[name].partitions
        for member in members
        for name in member.topics
        if name in topics and topics[name].partitions
    }
    owned, doubly = settled(order, counts)
    if equal(order):
        shares, transferring = constrained(order, counts, owned, doubly)
    else:
        shares, transferring = General(order, counts, owned).build(), None
    if cooperative:
        withheld = transferring if transferring is not None else to_revoke(order, shares)
        shares = {name: [p for p in share if p not in withheld] for name, share in shares.items()}
    answer: dict[str, dict[str, list[int]]] = {name: {} for name in ids}
    for name, share in shares.items():
        for topic, partition in sorted(share):
            answer[name].setdefault(topic, []).append(partition)
    return answer


def claims(member: Member) -> list[Partition]:
    return [(topic, partition) for topic, share in member.owned.items() for partition in share]


def equal(order: Sequence[Member]) -> bool:
    reference: set[str] = set()
    for member in order:
        if not reference:
            reference = set(member.topics)
        elif len(member.topics) != len(reference) or not reference.issuperset(member.topics):
            return False
    return True


def settled(order: Sequence[Member], counts: Mapping[str, int]) -> tuple[Shares, set[Partition]]:
    owned: Shares = {}
    rivals: dict[Partition, Member] = {}
    doubly: set[Partition] = set()
    for member in order:
        mine = owned[member.member_id] = []
        for partition in claims(member):
            rival = rivals.get(partition)
            if partition[0] not in counts:
                continue
            if rival is None or member.generation > rival.generation:
                mine.append(partition)
            elif member.generation == rival.generation:
                doubly.add(partition)
            else:
                continue
            if rival is not None and partition in owned[rival.member_id]:
                owned[rival.member_id].remove(partition)
            rivals[partition] = member
    return owned, doubly


def constrained(
    order: Sequence[Member], counts: Mapping[str, int], owned: Shares, doubly: set[Partition]
) -> tuple[Shares, set[Partition]]:
    total = sum(counts.values())
    floor, extra = divmod(total, len(order))
    ceiling = floor + (extra > 0)
    shares: Shares = {}
    lost: dict[Partition, str] = {}
    under, exact, large = [], [], 0
    for member in order:
        name = member.member_id
        mine = sorted((p for p in owned[name] if p not in doubly), key=lambda p: (p[1], string_key(p[0])))
        if len(mine) < floor:
            keep = len(mine)
            under.append(name)
        elif len(mine) >= ceiling and large < extra:
            keep = ceiling
            large += 1
            exact = [] if large == extra else exact
        else:
            keep = floor
            if large < extra:
                exact.append(name)
        shares[name] = mine[:keep]
        lost.update(dict.fromkeys(mine[keep:], name))
    under.sort(key=string_key)
    exact.sort(key=string_key)
    taken = {partition for share in shares.values() for partition in share}
    transferring = set()
    at = 0
    for partition in [(t, p) for t in sorted(counts, key=string_key) for p in range(counts[t])]:
        if partition in taken:
            continue
        name = under[at % len(under)] if under else exact.pop(0)
        shares[name].append(partition)
        if lost.get(partition, name) != name or partition in doubly:
            transferring.add(partition)
        if under:
            at %= len(under)
            if len(shares[name]) == floor:
                exact.append(under.pop(at))
            else:
                at += 1
    return shares, transferring


def to_revoke(order: Sequence[Member], shares: Shares) -> set[Partition]:
    added = {p for m in order for p in shares[m.member_id] if p not in claims(m)}
    revoked = {p for m in order for p in claims(m) if p not in shares[m.member_id]}
    return added & revoked


class General:
    """``GeneralAssignmentBuilder``."""

    def __init__(self, order: Sequence[Member], counts: Mapping[str, int], owned: Shares) -> None:
        self.order, self.counts, self.shares = (
            order,
            counts,
            {name: list(share) for name, share in owned.items()},
        )
        self.topics = {m.member_id: [t for t in m.topics if t in counts] for m in order}
        self.potential = {
            t: [name for name, topics in self.topics.items() for mine in topics if mine == t] for t in counts
        }
        newest = max([-1, *(m.generation for m in order)])
        self.previous: dict[Partition, Member] = {}
        for member in order:
            for partition in claims(member) if member.generation < newest else ():
                if partition not in self.previous or member.generation > self.previous[partition].generation:
                    self.previous[partition] = member
        self.moved: dict[Partition, tuple[str, str]] = {}
        self.sets: dict[tuple[str, str, str], HashTable] = {}
        self.frozen: set[str] = set()

    def sorted_members(self) -> list[str]:
        loose = [name for name in self.shares if name not in self.frozen]
        return sorted(loose, key=lambda name: (len(self.shares[name]), string_key(name)))

    def owner(self, partition: Partition) -> str:
        return next(name for name, share in self.shares.items() if partition in share)

    def build(self) -> Shares:
        topics = sorted(self.counts, key=lambda t: (len(self.potential[t]), string_key(t)))
        everything = [(t, p) for t in topics for p in range(self.counts[t])]
        revoked = False
        for name, share in self.shares.items():
            kept = [partition for partition in share if partition[0] in self.topics[name]]
            revoked |= kept != share
            share[:] = kept
        taken = {partition for share in self.shares.values() for partition in share}
        free = [partition for partition in everything if partition not in taken]
        initializing = not taken
        for partition in free:
            first = next(name for name in self.sorted_members() if partition[0] in self.topics[name])
            self.shares[first].append(partition)
        movable = {t for t, potential in self.potential.items() if len(potential) > 1}
        self.frozen = {
            name
            for name, share in self.shares.items()
            if len(share) >= self.room(name) and not any(topic in movable for topic, _ in share)
        }
        before = {name: list(share) for name, share in self.shares.items()}
        if not revoked:
            self.passes([partition for partition in free if partition[0] in movable])
        moved = self.passes([partition for partition in everything if partition[0] in movable])
        if moved and not initializing and self.score(self.shares) >= self.score(before):
            return before
        return self.shares

    def room(self, name: str) -> int:
        mine = self.topics[name]
        if len(mine) == len(self.counts):
            return sum(self.counts.values())
        return sum(self.counts[topic] for topic in mine)

    def score(self, shares: Shares) -> int:
        sizes = [len(share) for name, share in shares.items() if name not in self.frozen]
        return sum(abs(one - other) for at, one in enumerate(sizes) for other in sizes[:at])

    def balanced(self) -> bool:
        order = self.sorted_members()
        if len(self.shares[order[0]]) >= len(self.shares[order[-1]]) - 1:
            return True
        return not any(
            len(self.shares[name]) + 1 < len(self.shares[self.owner((topic, p))])
            for name in order
            if len(self.shares[name]) != self.room(name)
            for topic in self.topics[name]
            for p in range(self.counts[topic])
            if (topic, p) not in self.shares[name]
        )

    def passes(self, partitions: Sequence[Partition]) -> bool:
        moved = False
        for _ in range(200):
            modified = False
            for partition in partitions:
                if self.balanced():
                    break
                modified |= self.improve(partition)
            if not modified:
                return moved
            moved = True
        raise NeverEnds

    def improve(self, partition: Partition) -> bool:
        load = len(self.shares[self.owner(partition)])
        if partition in self.previous:
            back = self.previous[partition].member_id
            if back in self.frozen:
                raise NeverEnds
            if load > len(self.shares[back]) + 1:
                self.reassign(partition, back)
                return True
        if any(load > len(self.shares[name]) + 1 for name in self.potential[partition[0]]):
            self.reassign(
                partition, next(name for name in self.sorted_members() if partition[0] in self.topics[name])
            )
            return True
        return False

    def reassign(self, partition: Partition, new: str) -> None:
        topic = partition[0]
        source = self.moved[partition][0] if partition in self.moved else self.owner(partition)
        reverse = self.sets.get((topic, new, source))
        if reverse:
            partition = (topic, next(iter(reverse)))
        old = self.owner(partition)
        before = self.moved.pop(partition, None)
        if before is not None:
            known = self.sets[topic, *before]
            known.remove(partition[1])
            if not len(known):
                del self.sets[topic, *before]
        pair = (old if before is None else before[0], new)
        if pair[0] != pair[1]:
            self.moved[partition] = pair
            table = self.sets.setdefault((topic, *pair), HashTable())
            table.add(partition[1], topic_partition_hash(*partition))
        self.shares[old].remove(partition)
        self.shares[new].append(partition)
