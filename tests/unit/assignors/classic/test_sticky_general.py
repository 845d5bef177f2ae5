"""Passes of the general sticky path that would never end: Kafka's consumer hangs in ``poll`` then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from assignors.classic.sticky_general import _Rebalancer


class _Passes(_Rebalancer):
    def __init__(self, after: Callable[[int], int | None]) -> None:
        self._after = after
        self.done = 0
        self._movable: dict[str, list[int]] = {"t": [0]}
        self._movements: Any = self

    def snapshot(self) -> Mapping[str, int]:
        """The movements so far: the same at each."""
        return {}

    def _pass(self, name: str, partitions: Sequence[int]) -> bool:
        del partitions
        assert self.done < 5000, "it goes on for ever"
        owner = self._after(self.done)
        if owner is None:
            return False
        self.done += 1
        self._movable[name][0] = owner
        return True

    def run(self) -> bool:
        """Return true if anything moved."""
        return self._passes({"t": range(1)})


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 16, 17, 33, 100])
def test_passes_that_come_back_to_where_they_were_end(period: int) -> None:
    passes = _Passes(lambda done: done % period)
    assert passes.run()
    # Not before it has come round, and not long after it has done so twice.
    assert max(16, period) < passes.done <= 4 * max(16, period)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40, 300])
def test_passes_that_come_to_an_end_are_all_made(count: int) -> None:
    passes = _Passes(lambda done: done if done < count else None)
    assert passes.run() is (count > 0)
    assert passes.done == count
