"""When lost work is given to others: the scheduled rebalance delay and the back-off of revocations.

KIP-415 (a departed worker's work waits for its return) and KAFKA-12495 (consecutive revoking rounds wait
longer and longer). The rules are those of ``IncrementalCooperativeAssignor.handleLostAssignments``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from assignors.connect.model import Item, LeaderMemory, Shelf, Task
from assignors.java import in_hash_order

#: ``IncrementalCooperativeAssignor.consecutiveRevokingRebalancesBackoff``: 1 ms × 40ⁿ.
_BACKOFF_BASE = 40


class Memory(TypedDict):
    """The part of a :class:`LeaderMemory` that a :class:`Timer` keeps."""

    scheduled_ms: int
    delay_ms: int
    candidates: tuple[str, ...]
    revoked_in_previous: bool
    successive_revocations: int


@dataclass(slots=True)
class Timer:
    """The mutable part of a leader's memory that knows about time, inside one call."""

    now_ms: int
    max_delay_ms: int
    scheduled_ms: int
    delay_ms: int
    candidates: dict[str, None]
    revoked_in_previous: bool
    successive_revocations: int

    @classmethod
    def resume(cls, state: LeaderMemory, now_ms: int, max_delay_ms: int) -> Timer:
        """As the previous round left it."""
        return cls(
            now_ms,
            max_delay_ms,
            state.scheduled_ms,
            state.delay_ms,
            dict.fromkeys(state.candidates),
            state.revoked_in_previous,
            state.successive_revocations,
        )

    def remembered(self) -> Memory:
        """What the next round resumes from, by the names of :class:`LeaderMemory`."""
        return {
            "scheduled_ms": self.scheduled_ms,
            "delay_ms": self.delay_ms,
            "candidates": tuple(self.candidates),
            "revoked_in_previous": self.revoked_in_previous,
            "successive_revocations": self.successive_revocations,
        }

    def lost_work(
        self,
        lost: tuple[Sequence[str], Sequence[Task]],
        shelves: tuple[Sequence[Shelf[str]], Sequence[Shelf[Task]]],
        previous_members: Sequence[str],
    ) -> bool:
        """Decides what becomes of lost work; True when it is to be assigned like new work now.

        Otherwise it was given to the workers that came back empty, or it waits until ``scheduled_ms``.
        """
        if not any(lost) and not self.revoked_in_previous:
            self._reset()
            return False
        workers = {shelf.worker for shelf in shelves[0]}
        if self.scheduled_ms <= 0 and workers.issuperset(previous_members):
            return True  # nobody left: the answers of the previous round did not arrive
        if self.max_delay_ms == 0:
            return True
        if 0 < self.scheduled_ms <= self.now_ms:
            back = [worker for worker in self.candidates if worker in workers]
            _deal(lost[0], shelves[0], back)
            _deal(lost[1], shelves[1], back)
            self._reset()
            self.revoked_in_previous = False
            return not back
        empty = [one.worker for one, other in zip(*shelves, strict=True) if not len(one) + len(other)]
        self.candidates.update(dict.fromkeys(in_hash_order(empty)))
        if self.now_ms < self.scheduled_ms:
            self.delay_ms = min(self.scheduled_ms - self.now_ms, self.max_delay_ms)
        else:
            self.delay_ms = self.max_delay_ms
        self.scheduled_ms = self.now_ms + self.delay_ms
        return False

    def may_revoke(self, *, wanted: bool) -> bool:
        """Whether load-balancing revocations go out in this round; called only while no delay runs."""
        if not wanted:
            if self.revoked_in_previous:
                self.revoked_in_previous = False
                self.successive_revocations = 0
            return False
        if not self.revoked_in_previous:
            self.revoked_in_previous = True
            return True
        self.successive_revocations += 1
        self.delay_ms = backoff_ms(self.successive_revocations, self.max_delay_ms)
        if self.delay_ms == 0:
            return True
        self.scheduled_ms = self.now_ms + self.delay_ms
        return False

    def _reset(self) -> None:
        self.candidates.clear()
        self.scheduled_ms = 0
        self.delay_ms = 0


def _deal(items: Sequence[Item], shelves: Sequence[Shelf[Item]], workers: Sequence[str]) -> None:
    """One item to each of ``workers`` in turn, whatever each already has."""
    if workers:
        of_worker = {shelf.worker: shelf for shelf in shelves}
        for position, item in enumerate(items):
            of_worker[workers[position % len(workers)]].added.append(item)


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """``ExponentialBackoff(1, 40, max_delay_ms, jitter 0)``: 40ⁿ ms, at most ``max_delay_ms``.

    With the power taken in floating point, as Java does: the longest delay may be one below the maximum.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempts, math.log(max_delay_ms) / math.log(_BACKOFF_BASE))
    return min(int(math.pow(_BACKOFF_BASE, exponent)), max_delay_ms)
