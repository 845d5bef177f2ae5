"""The schedule of requests: often for groups in flux, seldom for groups at rest, within a budget.

Times are seconds on a clock that the caller reads. Groups in flux and groups at rest take turns, each longest
overdue first, so that neither starves the other where the budget is short.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final, Literal

#: The longest delay of a signal.
_LOOK_SECONDS: Final = 0.2
#: The shortest wait for answers: what is asked meanwhile is asked together.
_PAUSE_SECONDS: Final = 0.05
#: Between two lists, in pauses between two questions about a group in flux.
_LIST_EVERY: Final = 2
#: The part of the budget that lists may take.
_LISTS: Final = 0.5
#: What an answer showed: something under way or new, nothing new, or there was none.
Shown = Literal["flux", "rest", "nothing"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two requests of a group, and the most requests a second."""

    quick: float
    slow: float
    requests: float

    def pause(self, calm: int) -> float:
        """Until the next question, after so many answers in a row that showed nothing new: each doubles it."""
        return min(self.slow, self.quick * 2.0 ** min(calm, 32))

    def between_lists(self, brokers: int) -> float:
        """Between two lists of all groups, each a request to every broker: they may not take the whole budget."""
        return max(_LIST_EVERY * self.quick, brokers / (_LISTS * self.requests))


def wait(until_due: float) -> float:
    """Return the seconds to wait for answers: until the next request, and no longer than a signal may wait."""
    return min(max(until_due, _PAUSE_SECONDS), _LOOK_SECONDS)


class Budget:
    """Requests that may be sent: they come back evenly, and at most a second's worth is kept.

    What must be sent may overdraw it; others wait until that is made up for.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._left = rate
        self._at = now

    def left(self, now: float) -> float:
        """Requests that may be sent at once."""
        self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left

    def pause(self, now: float) -> float:
        """Seconds until one may be sent."""
        return max(0.0, -self.left(now) / self._rate)

    def spend(self, requests: int) -> None:
        """They are sent."""
        self._left -= requests


@dataclass(slots=True)
class _Slot:
    """A group: when it is due, what a question costs, and after how many answers that showed nothing new.

    A group that was never asked about counts as calm: it comes before all that have been.
    """

    due: float
    cost: int
    calm: int = 1
    is_pending: bool = False
    failed: int = 0

    def is_due(self, now: float) -> bool:
        """True if a request may be sent."""
        return self.due <= now and not self.is_pending


class Schedule:
    """Which groups are asked about next."""

    def __init__(self, pace: Pace, now: float) -> None:
        self._pace = pace
        self._budget = Budget(pace.requests, now)
        self._slots: dict[str, _Slot] = {}
        #: True if a group in flux comes first in the next turn.
        self._flux_first = False

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._slots

    def spend(self, requests: int, now: float) -> None:
        """Requests that were sent besides."""
        self._budget.left(now)
        self._budget.spend(requests)

    def add(self, group_id: str, cost: int, now: float) -> None:
        """Ask about a group from now on, at ``cost`` requests a question; of one that is there the cost changes."""
        slot = self._slots.get(group_id)
        if slot is None:
            slot = self._slots[group_id] = _Slot(now, cost)
        slot.cost = cost

    def remove(self, group_id: str) -> None:
        """Ask about it no more."""
        self._slots.pop(group_id, None)

    def hurry(self, group_id: str, now: float) -> None:
        """Something happens in this group: it is due now, unless it is already asked about quickly."""
        slot = self._slots[group_id]
        if slot.calm and not slot.failed:
            slot.calm = 0
            slot.due = min(slot.due, now)

    def retry(self, now: float) -> None:
        """The cluster is back: groups that had no answer are due now."""
        for slot in self._slots.values():
            if slot.failed:
                slot.due = min(slot.due, now)

    def take(self, now: float) -> list[str]:
        """The groups to ask about now, as many as the budget allows."""
        found: list[str] = []
        left = self._budget.left(now)
        if left <= 0:
            return found
        due = sorted((slot.due, group_id) for group_id, slot in self._slots.items() if slot.is_due(now))
        flux = deque(group_id for _, group_id in due if not self._slots[group_id].calm)
        rest = deque(group_id for _, group_id in due if self._slots[group_id].calm)
        while left > 0 and (flux or rest):
            self._flux_first = not self._flux_first
            group_id = (flux if flux and (self._flux_first or not rest) else rest).popleft()
            slot = self._slots[group_id]
            slot.is_pending = True
            self._budget.spend(slot.cost)
            left -= slot.cost
            found.append(group_id)
        return found

    def answered(self, group_id: str, shown: Shown, now: float) -> None:
        """There is an answer, or (``nothing``) none to wait for any longer."""
        slot = self._slots.get(group_id)
        if slot is None:
            return
        slot.is_pending = False
        slot.failed = slot.failed + 1 if shown == "nothing" else 0
        slot.calm = slot.calm + 1 if shown == "rest" else 0
        slot.due = now + self._pace.pause(slot.failed or slot.calm)

    @property
    def cost(self) -> int:
        """Requests that it takes to ask about every group once."""
        return sum(slot.cost for slot in self._slots.values())

    def pause(self, now: float) -> float:
        """Seconds until something may be asked: it is due, and the budget allows it."""
        due = min((slot.due for slot in self._slots.values() if not slot.is_pending), default=inf)
        return max(due - now, self._budget.pause(now))

    def overdue(self, now: float) -> float:
        """For how many seconds the group that waits the longest should have been asked about."""
        waiting = (slot.due for slot in self._slots.values() if not slot.is_pending)
        return max(0.0, now - min(waiting, default=now))
