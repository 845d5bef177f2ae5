"""The reassigning half of the general sticky path (``balance`` and ``performReassignments``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.classic.general_state import State
from assignors.classic.loads import Loads, mask_of
from assignors.classic.movements import Movements
from assignors.classic.user_data import NO_GENERATION
from assignors.java import signed
from assignors.model import Member

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
        self._room = _room(state, members)
        self._frozen = _frozen(state, self._room, self._movable)
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


def _room(state: State, members: Sequence[Member]) -> list[int]:
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


def _frozen(state: State, room: Sequence[int], movable: Mapping[str, Sequence[int]]) -> set[int]:
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
