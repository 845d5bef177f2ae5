"""Sticky where subscriptions differ (``GeneralAssignmentBuilder``).

Goals, in order: everyone as balanced as subscriptions allow; members keep what they own and still subscribe to (in
matching racks); a free partition goes to the least loaded subscriber; what still is out of balance moves, back to
its owner of an older generation if it may, until no move brings two loads closer.

Java asks "is it balanced?" of every partition, at the cost of all of them. Here a topic knows the least load among
its subscribers (:class:`Loads`), so that a pass over the partitions compares two ints each: O(partitions) a pass
and a few wide bit operations a move, see docs/design/sticky.md.

Members are bits there: each load has the mask of the members that have it, numbered in the order of their ids.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

from assignors.classic.group import ClientGroup, Racks
from assignors.classic.owned import Owned
from assignors.classic.sticky_state import State, assign_free, read_state
from assignors.java import signed, string_hash
from assignors.java_hash_table import HashTable
from assignors.model import NO_GENERATION, Member


def build(
    group: ClientGroup, members: Sequence[Member], owned: Owned, racks: Racks | None, *, withhold: bool
) -> list[dict[str, Sequence[int]]]:
    """The shares by place; ``members`` in map order.

    ``withhold`` leaves out what another member claims and its new one does not.
    """
    state = read_state(group, members, owned, racks)
    initializing = not any(state.loads)
    free = state.free()
    assign_free(state, free)
    Rebalancer(state, members).rebalance(free, initializing=initializing)
    return state.shares(owned, withhold=withhold)


NO_ONE = -1


#: Real groups settle within a handful of passes; only then is it worth asking whether they ever will.
_PASSES_BEFORE_DOUBT = 16


class Rebalancer:
    """Moves partitions between members while that brings loads closer.

    Topics with fewer than two potential consumers don't take part, nor do members that have all they could have and
    nothing that could go elsewhere (*frozen*).
    """

    def __init__(self, state: State, members: Sequence[Member]) -> None:
        self._state = state
        self._movable = {name: owners for name, owners in state.owners.items() if state.potential[name] > 1}
        self._room = _capacities(state, members)
        self._frozen = _frozen_members(state, self._room, self._movable)
        self._previous = _previous_owners(members, state)
        self._loads = Loads(state.loads)
        self._movements = Movements()
        self._astray = bool(state.stuck)
        self._balance_known = (-1, False)
        masks: dict[int, int] = {}
        self._masks: dict[str, int] = {}
        for name in self._movable:
            subscribers = state.subscribers[name]
            if id(subscribers) not in masks:
                masks[id(subscribers)] = mask_of(subscribers, len(state.loads))
            self._masks[name] = masks[id(subscribers)]

    def rebalance(self, free: Mapping[str, Sequence[int]], *, initializing: bool) -> None:
        """Move what was free, then anything; take it all back if that did not make the whole more even."""
        state = self._state
        owners = {name: list(known) for name, known in self._movable.items()}
        loads = list(state.loads)
        if not state.revoked:
            self._passes({name: partitions for name, partitions in free.items() if name in self._movable})
        moved = self._passes({name: range(len(known)) for name, known in self._movable.items()})
        if moved and not initializing and self._score(state.loads) >= self._score(loads):
            for name, before in owners.items():
                state.owners[name][:] = before
            state.loads[:] = loads

    def _score(self, loads: Sequence[int]) -> int:
        """``getBalanceScore``: the sum of all pairwise differences, in a Java int."""
        taking_part = sorted(load for rank, load in enumerate(loads) if rank not in self._frozen)
        last = len(taking_part) - 1
        return signed(sum((2 * place - last) * load for place, load in enumerate(taking_part)))

    def _passes(self, partitions: Mapping[str, Sequence[int]]) -> bool:
        """Pass over the partitions until one pass moves nothing; whether anything moved.

        Reverse moves can make Kafka's passes repeat for ever (its consumer then hangs in ``poll``): here they end
        when a pass leaves all as an earlier one did.
        """
        names = [name for name in self._movable if name in partitions]
        count = 0
        seen: object = None
        while any([self._pass(name, partitions[name]) for name in names]):  # noqa: C419 - every topic has its turn
            count += 1
            if count >= _PASSES_BEFORE_DOUBT:
                now = [list(owners) for owners in self._movable.values()], self._movements.snapshot()
                if now == seen:
                    break
                if count & (count - 1) == 0:  # Brent: the state kept moves on at powers of two
                    seen = now
        return count > 0

    def _pass(self, name: str, partitions: Sequence[int]) -> bool:
        """Move each partition of a topic that can go to someone with at least two fewer."""
        loads = self._loads
        of = loads.of
        owners = self._movable[name]
        mask = self._masks[name]
        previous = self._previous.get(name, {})
        moved = False
        most = loads.least(mask) + 1
        for partition in partitions:
            if self._astray and self._balanced():
                break
            load = of[owners[partition]]
            if partition in previous:
                back = previous[partition]
                subscribes = mask >> back & 1
                if back not in self._frozen and load > of[back] + 1 and (subscribes or not self._balanced()):
                    self._astray |= not subscribes
                    self._reassign(name, partition, back)
                    most = loads.least(mask) + 1
                    moved = True
                    continue
            if load > most:
                self._reassign(name, partition, loads.first_of_least(mask))
                most = loads.least(mask) + 1
                moved = True
        return moved

    def _reassign(self, name: str, partition: int, new: int) -> None:
        owners = self._movable[name]
        partition = self._movements.instead_of(name, partition, owners[partition], new)
        old = owners[partition]
        self._movements.record(name, partition, old, new)
        self._loads.move(old, new)
        owners[partition] = new

    def _balanced(self) -> bool:
        """``isBalanced``: no one could take a partition from someone with at least two more.

        Java asks before every partition. It matters only once a partition may go, or has gone, to a previous owner
        that no longer subscribes (*astray*), or stays with one whatever happens (``State.stuck``): every other move
        is itself the proof that it answers no.
        """
        loads = self._loads
        if self._balance_known[0] != loads.version:
            # Who has as many as its topics have counts as sated, even if some of them are astray.
            sated = mask_of(
                [rank for rank, load in enumerate(loads.of) if load == self._room[rank]], len(loads.of)
            )
            self._balance_known = (
                loads.version,
                all(
                    self._nothing_to_take(name, owners, self._masks[name] & ~sated)
                    for name, owners in self._movable.items()
                ),
            )
        return self._balance_known[1]

    def _nothing_to_take(self, name: str, owners: Sequence[int], hungry: int) -> bool:
        """Whether no member in ``hungry`` has two fewer than another that holds a partition of this topic."""
        if not hungry:
            return True
        loads = self._loads
        least = loads.least(hungry)
        stuck = self._state.stuck.get(name)
        if not stuck:
            return max(map(loads.of.__getitem__, set(owners))) <= least + 1
        places = self._state.places
        for partition, owner in enumerate(owners):
            # Of two that hold it, Java finds the one behind in map order; neither could take it.
            also = stuck.get(partition, owner)
            takers = hungry & ~(1 << owner | 1 << also)
            seen = max(owner, also, key=places.__getitem__)
            if takers and loads.of[seen] > loads.least(takers) + 1:
                return False
        return True


def _capacities(state: State, members: Sequence[Member]) -> list[int]:
    """How many partitions the topics of each member have (``getMaxAssignmentSize``), by rank."""
    counts = state.group.counts
    total = sum(counts.values())
    known: dict[int, int] = {}
    room = []
    for place in state.places:
        topics = members[place].topics
        most = known.get(id(topics))
        if most is None:
            sizes = [counts[name] for name in topics if name in counts]
            # As many topics as there are counts as all of them, also when one is listed twice.
            most = known[id(topics)] = total if len(sizes) == len(counts) else sum(sizes)
        room.append(most)
    return room


def _frozen_members(state: State, room: Sequence[int], movable: Mapping[str, Sequence[int]]) -> set[int]:
    """Who has all it could have, and nothing that could go elsewhere."""
    stuck = (owners.values() for name, owners in state.stuck.items() if name in movable)
    busy = set[int]().union(*movable.values(), *stuck)
    return {rank for rank, load in enumerate(state.loads) if load >= room[rank] and rank not in busy}


def _previous_owners(members: Sequence[Member], state: State) -> dict[str, dict[int, int]]:
    """Claims of generations before the newest, by topic and partition: the highest, the first of equals."""
    newest = max([NO_GENERATION, *(member.generation for member in members)])
    ranks = {place: rank for rank, place in enumerate(state.places)}
    previous: dict[str, dict[int, int]] = {}
    for place, member in enumerate(members):
        if member.generation >= newest:
            continue
        for name, partitions in member.owned.items():
            if name in state.owners:
                known = previous.setdefault(name, {})
                for partition in partitions:
                    if (
                        partition not in known
                        or members[state.places[known[partition]]].generation < member.generation
                    ):
                        known[partition] = ranks[place]
    return previous


class Loads:
    """Loads of members numbered in the order of their ids.

    Attributes:
        of: the load of each member.
        version: changes with every move.
    """

    def __init__(self, of: list[int]) -> None:
        self.of = of
        self.version = 0
        self._masks: dict[int, int] = {}
        by_load: dict[int, list[int]] = {}
        for member, load in enumerate(of):
            by_load.setdefault(load, []).append(member)
        for load, members in by_load.items():
            self._masks[load] = mask_of(members, len(of))
        self._levels = sorted(self._masks)

    def least(self, mask: int) -> int:
        """The smallest load among the members of a non-empty mask."""
        masks = self._masks
        return next(load for load in self._levels if masks[load] & mask)

    def first_of_least(self, mask: int) -> int:
        """The first member, by (load, id), of a non-empty mask."""
        met = self._masks[self.least(mask)] & mask
        return (met & -met).bit_length() - 1

    def move(self, old: int, new: int) -> None:
        """One partition goes from ``old`` to ``new``."""
        self.version += 1
        self._change(old, -1)
        self._change(new, 1)

    def _change(self, member: int, by: int) -> None:
        load = self.of[member]
        bit = 1 << member
        left = self._masks[load] ^ bit
        if left:
            self._masks[load] = left
        else:
            del self._masks[load]
            del self._levels[bisect_left(self._levels, load)]
        load += by
        self.of[member] = load
        if load in self._masks:
            self._masks[load] |= bit
        else:
            self._masks[load] = bit
            insort(self._levels, load)


def mask_of(members: list[int], size: int) -> int:
    """The members as bits of an int; O(size)."""
    flags = bytearray(b"0") * size
    for member in members:
        flags[size - 1 - member] = 49  # "1"
    return int(flags, 2)


#: (topic, from, to)
_Pair = tuple[str, int, int]
_SMALL = 8


class Movements:
    """The net movement of every partition, and the sets that Java looks reverse moves up in."""

    def __init__(self) -> None:
        self._of_partition: dict[tuple[str, int], _Pair] = {}
        self._moved: dict[_Pair, _MovedSet] = {}

    def snapshot(self) -> dict[_Pair, list[int]]:
        """All movements, each set in its order."""
        return {pair: list(moved) for pair, moved in self._moved.items()}

    def instead_of(self, name: str, partition: int, old: int, new: int) -> int:
        """The partition to move to ``new``: one of the topic that came from there to ``old``'s side, if any."""
        pair = self._of_partition.get((name, partition))
        reverse = self._moved.get((name, new, old if pair is None else pair[1]))
        return partition if reverse is None else reverse.first()

    def record(self, name: str, partition: int, old: int, new: int) -> None:
        """``movePartition``: two moves of a partition count as one from the first owner, or as none."""
        before = self._of_partition.pop((name, partition), None)
        if before is not None:
            moved = self._moved[before]
            moved.remove(partition)
            if not moved:
                del self._moved[before]
            old = before[1]
            if old == new:
                return
        pair = (name, old, new)
        self._of_partition[name, partition] = pair
        if pair not in self._moved:
            self._moved[pair] = _MovedSet(name)
        self._moved[pair].add(partition)


class _MovedSet:
    """A ``HashSet<TopicPartition>`` of one topic. Up to eight it can't have grown, and a dict tells the order."""

    __slots__ = ("_base", "_few", "_table")

    def __init__(self, name: str) -> None:
        self._base = string_hash(name) + 31 * 31
        self._few: dict[int, int] = {}
        self._table: HashTable | None = None

    def __len__(self) -> int:
        return len(self._few) if self._table is None else len(self._table)

    def __iter__(self) -> Iterator[int]:
        return iter(self._few if self._table is None else self._table)

    def add(self, partition: int) -> None:
        """It is not in the set; with the ninth the set becomes a table, which may grow."""
        code = signed(self._base + 31 * partition)
        if self._table is not None:
            self._table.add(partition, code)
            return
        self._few[partition] = code
        if len(self._few) > _SMALL:
            self._table = HashTable()
            for known, its_code in self._few.items():
                self._table.add(known, its_code)

    def remove(self, partition: int) -> None:
        """It is in the set."""
        if self._table is None:
            del self._few[partition]
        else:
            self._table.remove(partition)

    def first(self) -> int:
        """What ``iterator().next()`` gives."""
        if self._table is not None:
            return next(iter(self._table))
        few = self._few
        return min(few, key=lambda partition: (few[partition] ^ few[partition] >> 16) & 15)
