"""Sticky assignment of groups in which subscriptions differ (``GeneralAssignmentBuilder``).

Goals, in order: balance as far as subscriptions allow; members keep owned partitions that they still subscribe to (in
matching racks); a free partition goes to the least loaded subscriber; then partitions move, if possible back to the
owner of an older generation, until no move brings two loads closer. Members are numbered in the order of their ids.
docs/design/sticky.md explains why one comparison per partition is enough.
"""

from collections.abc import Collection, Mapping, Sequence

from assignors.classic.group import ClientGroup, Holdings, Racks
from assignors.classic.sticky_state import StickyState, assign_free_partitions, read_state
from assignors.java import hash_order, signed, string_hash, string_key, topic_partition_hash
from assignors.java_hash_table import HashTable
from assignors.model import NO_GENERATION, Member


def build(
    group: ClientGroup, members: Sequence[Member], owned: Holdings, racks: Racks | None, *, cooperative: bool
) -> list[dict[str, Sequence[int]]]:
    """Return the sticky assignment by position in ``members``, which are in Java's HashMap order.

    With ``cooperative``, partitions that another member claims and the new owner does not claim are left out.
    """
    state = read_state(group, members, owned, racks)
    is_first_assignment = not any(state.loads)
    free = state.free()
    assign_free_partitions(state, free)
    _Rebalancer(state, members).rebalance(free, is_first_assignment=is_first_assignment)
    return state.shares(owned, cooperative=cooperative)


#: Number of passes before the search for repetitions begins; real groups need fewer passes.
_PASSES_BEFORE_CYCLE_CHECK = 16


class _Rebalancer:
    """Moves partitions between members as long as a move brings the loads of two members closer.

    Topics with fewer than two potential consumers take no part. *Frozen* members take no part either: they have all
    partitions that they can have, and none of these can move.
    """

    def __init__(self, state: StickyState, members: Sequence[Member]) -> None:
        self._state = state
        self._movable = {name: owners for name, owners in state.owners.items() if state.candidates[name] > 1}
        self._quota = _capacities(state, members)
        stuck = (owners.values() for name, owners in state.stuck.items() if name in self._movable)
        busy = set[int]().union(*self._movable.values(), *stuck)
        self._full = {rank for rank, load in enumerate(state.loads) if load >= self._quota[rank] and rank not in busy}
        self._subscribers, self._map_positions = state.subscribers, state.places
        if state.stuck:  # otherwise a frozen member has all partitions of its topics, so none of these can move
            self._subscribers = {
                name: [rank for rank in state.subscribers[name] if rank not in self._full] for name in self._movable
            }
            self._map_positions = _map_positions(members, state, self._full)
        self._previous_owners = _previous_owners(members, state)
        self._loads = state.loads
        self._move_count = 0
        self._movements = _PartitionMovements()
        self._has_stale_owners = bool(state.stuck)
        #: Last result of :meth:`_balanced`, and the number of moves that had been made then.
        self._last_balance_check = (-1, False)

    def rebalance(self, free: Mapping[str, Sequence[int]], *, is_first_assignment: bool) -> None:
        """Balance loads by moving partitions: those in ``free``, then all; undo it if the balance did not improve."""
        state = self._state
        owners = {name: list(owners_of_topic) for name, owners_of_topic in self._movable.items()}
        loads = list(state.loads)
        if not state.revoked:
            self._run_passes({name: partitions for name, partitions in free.items() if name in self._movable})
        moved = self._run_passes({name: range(len(owners_of_topic)) for name, owners_of_topic in self._movable.items()})
        if moved and not is_first_assignment and self._balance_score(state.loads) >= self._balance_score(loads):
            for name, before in owners.items():
                state.owners[name][:] = before
            state.loads[:] = loads

    def _balance_score(self, loads: Sequence[int]) -> int:
        """Return the sum of all pairwise differences of loads, as a Java int (``getBalanceScore``)."""
        active_loads = sorted(load for rank, load in enumerate(loads) if rank not in self._full)
        last = len(active_loads) - 1
        return signed(sum((2 * place - last) * load for place, load in enumerate(active_loads)))

    def _run_passes(self, partitions: Mapping[str, Sequence[int]]) -> bool:
        """Move partitions in passes until a pass moves none; return True if any partition was moved.

        Reverse moves can make Kafka's passes repeat forever (its consumer then hangs in ``poll``). Here they end when a
        pass results in the same assignment as an earlier one.
        """
        names = [name for name in self._movable if name in partitions]
        count = 0
        state_before_pass: object = None
        while any([self._run_pass(name, partitions[name]) for name in names]):  # noqa: C419 - every topic must be processed
            count += 1
            if count >= _PASSES_BEFORE_CYCLE_CHECK:
                now = [list(owners) for owners in self._movable.values()], self._movements.snapshot()
                if now == state_before_pass:
                    break
                if count & (count - 1) == 0:  # Brent's algorithm: compare with the last power of two
                    state_before_pass = now
        return count > 0

    def _run_pass(self, name: str, partitions: Sequence[int]) -> bool:
        loads, owners, subscribers = self._loads, self._movable[name], self._subscribers[name]
        previous = self._previous_owners.get(name, {})
        moves = self._move_count
        balanced_load = self._lowest_load(subscribers) + 1
        for partition in partitions:
            if self._has_stale_owners and self._balanced():
                break
            load = loads[owners[partition]]
            if partition in previous:
                owner = previous[partition]
                subscribes = owner in subscribers
                if owner not in self._full and load > loads[owner] + 1 and (subscribes or not self._balanced()):
                    self._has_stale_owners |= not subscribes
                    self._move_partition(name, partition, owner)
                    balanced_load = self._lowest_load(subscribers) + 1
                    continue
            if load > balanced_load:
                # Subscribers ascend, so this is the first of the least loaded members.
                self._move_partition(name, partition, min(subscribers, key=loads.__getitem__))
                balanced_load = self._lowest_load(subscribers) + 1
        return self._move_count > moves

    def _lowest_load(self, members: Sequence[int]) -> int:
        return min(map(self._loads.__getitem__, members))

    def _move_partition(self, name: str, partition: int, new: int) -> None:
        owners = self._movable[name]
        partition = self._movements.partition_to_move(name, partition, owners[partition], new)
        old = owners[partition]
        self._movements.record(name, partition, old, new)
        self._loads[old] -= 1
        self._loads[new] += 1
        self._move_count += 1
        owners[partition] = new

    def _balanced(self) -> bool:
        """Return True if no member can take a partition from one with at least two more partitions (``isBalanced``).

        Java checks this before every partition. The result only matters once a partition can move, or has moved, to a
        previous owner that no longer subscribes (*astray*), or can't leave a member (``State.stuck``). In all other
        cases a possible move proves that the group is not balanced.
        """
        if self._last_balance_check[0] != self._move_count:
            balanced = all(self._is_topic_balanced(name, owners) for name, owners in self._movable.items())
            self._last_balance_check = (self._move_count, balanced)
        return self._last_balance_check[1]

    def _is_topic_balanced(self, name: str, owners: Sequence[int]) -> bool:
        """Return True if no subscriber below its maximum has two or more partitions fewer than one of ``owners``."""
        loads, capacities = self._loads, self._quota
        # A member with as many partitions as its topics have counts as full, even if some of its partitions are astray.
        receiving_members = [rank for rank in self._subscribers[name] if loads[rank] != capacities[rank]]
        if not receiving_members:
            return True
        stuck = self._state.stuck.get(name)
        if not stuck:
            return max(map(loads.__getitem__, set(owners))) <= self._lowest_load(receiving_members) + 1
        for partition, owner in enumerate(owners):
            # If two members hold the partition, Java finds the later one in map order; neither could take the
            # partition.
            stuck_owner = stuck.get(partition, owner)
            candidates = [rank for rank in receiving_members if rank not in (owner, stuck_owner)]
            found_owner = max(owner, stuck_owner, key=self._map_positions.__getitem__)
            if candidates and loads[found_owner] > self._lowest_load(candidates) + 1:
                return False
        return True


def _map_positions(members: Sequence[Member], state: StickyState, frozen: Collection[int]) -> list[int]:
    """Return each rank's position in Java's map of assignments (``currentAssignment``), without the frozen members.

    A bin with more than eight members is a tree, and the removal of a member changes the order of the others.
    """
    hashes, sort_keys = zip(*((string_hash(m.member_id), string_key(m.member_id)) for m in members), strict=True)
    table = HashTable(sort_keys=sort_keys)
    for place, code in enumerate(hashes):
        table.add(place, code)
    capacity = 1 << (len(members) - 1).bit_length()
    frozen_places = {state.places[rank] for rank in frozen}
    for place in hash_order(hashes, capacity=capacity, keys=[member.member_id for member in members]):
        if place in frozen_places:
            table.remove(place)
    positions = {place: position for position, place in enumerate(table)}
    return [positions.get(place, -1) for place in state.places]


def _capacities(state: StickyState, members: Sequence[Member]) -> list[int]:
    """Return the number of partitions of each member's topics (``getMaxAssignmentSize``), in the order of the ranks."""
    counts = state.group.counts
    total = sum(counts.values())
    count_by_subscription: dict[tuple[str, ...], int] = {}
    for topics in dict.fromkeys(member.topics for member in members):
        sizes = [counts[name] for name in topics if name in counts]
        # A member that lists as many topics as exist counts as subscribed to all topics, even if one is listed twice.
        count_by_subscription[topics] = total if len(sizes) == len(counts) else sum(sizes)
    return [count_by_subscription[members[place].topics] for place in state.places]


def _previous_owners(members: Sequence[Member], state: StickyState) -> dict[str, dict[int, int]]:
    """Return each partition's owner in the highest generation before the newest one; the first owner in a tie."""
    newest = max([NO_GENERATION, *(member.generation for member in members)])
    ranks = {place: rank for rank, place in enumerate(state.places)}
    previous: dict[str, dict[int, int]] = {}
    older_members = [place for place, member in enumerate(members) if member.generation < newest]
    for place in sorted(older_members, key=lambda place: -members[place].generation):  # the sort is stable
        for name, partitions in members[place].owned.items():
            if name in state.owners:
                claims = previous.setdefault(name, {})
                for partition in partitions:
                    claims.setdefault(partition, ranks[place])
    return previous


#: (topic, from, to)
_OwnerChange = tuple[str, int, int]


class _PartitionMovements:
    """All moves of partitions so far, by topic and pair of members (``PartitionMovements``)."""

    def __init__(self) -> None:
        self._change_by_partition: dict[tuple[str, int], _OwnerChange] = {}
        self._moved_partitions: dict[_OwnerChange, HashTable] = {}

    def snapshot(self) -> dict[_OwnerChange, list[int]]:
        return {pair: list(moved) for pair, moved in self._moved_partitions.items()}

    def partition_to_move(self, name: str, partition: int, old: int, new: int) -> int:
        """Return the partition to move to ``new``: if possible one that earlier moved from ``new`` to ``old``."""
        pair = self._change_by_partition.get((name, partition))
        reverse_changes = self._moved_partitions.get((name, new, old if pair is None else pair[1]))
        return partition if reverse_changes is None else next(iter(reverse_changes))

    def record(self, name: str, partition: int, old: int, new: int) -> None:
        """Record a move (``movePartition``); a partition's second move is combined with its first one."""
        before = self._change_by_partition.pop((name, partition), None)
        if before is not None:
            moved = self._moved_partitions[before]
            moved.remove(partition)
            if not moved:
                del self._moved_partitions[before]
            old = before[1]
            if old == new:
                return
        pair = (name, old, new)
        self._change_by_partition[name, partition] = pair
        self._moved_partitions.setdefault(pair, HashTable()).add(partition, topic_partition_hash(name, partition))
