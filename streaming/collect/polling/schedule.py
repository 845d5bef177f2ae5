"""Schedules requests within a budget: often for rebalancing groups (in flux), seldom for stable groups (at rest).

Times are seconds on a clock that the caller reads. Groups in flux and groups at rest take turns, the most
overdue first, so that a short budget serves both.
"""

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, NamedTuple

#: The longest time (s) by which waiting for answers may delay the handling of a signal.
_MAX_PAUSE_SECONDS: Final = 0.2
#: The shortest wait for answers (s), so that requests that become due meanwhile are sent together.
_MIN_PAUSE_SECONDS: Final = 0.05
#: The pause between two list requests, in multiples of the pause between two requests about a group in flux.
_LIST_INTERVAL_PER_BROKER: Final = 2
#: The part of the request budget that list requests may use.
_LIST_BUDGET_SHARE: Final = 0.5
#: The content of an answer: a rebalance or a change (``flux``), no change (``rest``), or no answer (``nothing``).
AnswerKind = Literal["flux", "rest", "nothing"]


class RequestLimits(NamedTuple):
    """The shortest and longest interval (s) between two requests about a group, and the most requests per second."""

    min_interval_s: float
    max_interval_s: float
    requests: float

    def pause(self, unchanged_answers: int) -> float:
        """Return the seconds until a group's next request, which double with each unchanged answer."""
        return min(self.max_interval_s, self.min_interval_s * 2.0 ** min(unchanged_answers, 32))

    def list_interval(self, brokers: int) -> float:
        """Return the seconds between two list requests, which go to every broker and must not use the whole budget."""
        return max(_LIST_INTERVAL_PER_BROKER * self.min_interval_s, brokers / (_LIST_BUDGET_SHARE * self.requests))


@dataclass(slots=True)
class _GroupSlot:
    """A scheduled group: when it is due, the requests it costs, and its unchanged or missing answers in a row.

    A group without any answer counts as unchanged, and is due before all groups with an answer.
    """

    due: float
    cost: int
    unchanged_answers: int = 1
    is_pending: bool = False
    failed: int = 0


class RequestSchedule:
    """Decides which groups are requested next.

    The budget is refilled evenly and holds at most one second's requests. Requests for other purposes
    (:meth:`deduct_requests`) may overdraw the budget; groups then wait until it is refilled.
    """

    def __init__(self, pace: RequestLimits, now: float) -> None:
        self._pace = pace
        self._budget, self._refilled_at = pace.requests, now
        self._slots: dict[str, _GroupSlot] = {}
        #: True if a group in flux comes first in the next turn.
        self._is_rebalancing_first = False

    def __len__(self) -> int:
        return len(self._slots)

    def _refill_budget(self, now: float) -> float:
        self._budget = min(self._pace.requests, self._budget + (now - self._refilled_at) * self._pace.requests)
        self._refilled_at = now
        return self._budget

    def deduct_requests(self, requests: int, now: float) -> None:
        """Deduct requests that are sent for other purposes from the budget of requests."""
        self._refill_budget(now)
        self._budget -= requests

    def add(self, group_id: str, cost: int, now: float) -> None:
        """Add a group to the schedule, or change the number of requests that one description of it costs."""
        self._slots.setdefault(group_id, _GroupSlot(now, cost)).cost = cost

    def remove(self, group_id: str) -> None:
        """Remove a group from the schedule: no more descriptions of it are requested."""
        self._slots.pop(group_id, None)

    def make_due(self, group_id: str, now: float) -> None:
        """Request a rebalancing group's description now; after an answer with a change it is due soon anyway."""
        slot = self._slots[group_id]
        if slot.unchanged_answers and not slot.failed:
            slot.unchanged_answers, slot.due = 0, min(slot.due, now)

    def retry(self, now: float) -> None:
        """Make groups whose last requests failed due now, because the cluster answers again."""
        for slot in self._slots.values():
            if slot.failed:
                slot.due = min(slot.due, now)

    def take(self, now: float) -> list[str]:
        """Return the ids of groups whose description is to be requested now, as the budget of requests allows."""
        taken: list[str] = []
        if self._refill_budget(now) <= 0:
            return taken
        slots = self._slots
        due = sorted((slot.due, name) for name, slot in slots.items() if slot.due <= now and not slot.is_pending)
        flux = deque(group_id for _, group_id in due if not slots[group_id].unchanged_answers)
        rest = deque(group_id for _, group_id in due if slots[group_id].unchanged_answers)
        while self._budget > 0 and (flux or rest):
            self._is_rebalancing_first = not self._is_rebalancing_first
            group_id = (flux if flux and (self._is_rebalancing_first or not rest) else rest).popleft()
            slots[group_id].is_pending = True
            self._budget -= slots[group_id].cost
            taken.append(group_id)
        return taken

    def record_answer(self, group_id: str, kind: AnswerKind, now: float) -> None:
        """Schedule the group's next request by the content of its last answer; ``nothing``: there was no answer."""
        slot = self._slots.get(group_id)
        if slot is None:
            return
        slot.is_pending = False
        slot.failed = slot.failed + 1 if kind == "nothing" else 0
        slot.unchanged_answers = slot.unchanged_answers + 1 if kind == "rest" else 0
        slot.due = now + self._pace.pause(slot.failed or slot.unchanged_answers)

    @property
    def cost(self) -> int:
        """The number of requests that describe every group once."""
        return sum(slot.cost for slot in self._slots.values())

    def _next_due(self, default: float) -> float:
        return min((slot.due for slot in self._slots.values() if not slot.is_pending), default=default)

    def pause(self, now: float, list_due_at: float) -> float:
        """Return how many seconds to wait for answers: until the next request is due, within fixed limits."""
        seconds_until_due = max(self._next_due(inf) - now, -self._refill_budget(now) / self._pace.requests)
        return min(max(min(seconds_until_due, list_due_at - now), _MIN_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)

    def overdue(self, now: float) -> float:
        """Return the longest time (s) by which a group's request is late."""
        return max(0.0, now - self._next_due(now))
