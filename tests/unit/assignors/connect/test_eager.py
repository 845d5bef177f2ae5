"""EagerAssignor: connectors first, then tasks, in one circle over the sorted workers."""

from __future__ import annotations

import pytest

from assignors.connect import Work, incremental
from assignors.errors import InvalidGroup


def test_the_circle_goes_on_from_connectors_to_tasks() -> None:
    assert incremental.assign_eager(["w2", "w1"], {"b": 2, "a": 3, "c": 0}) == {
        "w1": Work(("a", "c"), (("a", 1), ("b", 0))),
        "w2": Work(("b",), (("a", 0), ("a", 2), ("b", 1))),
    }


def test_workers_are_in_utf16_order() -> None:
    astral, late = "\U0001f600", "\uffee"
    assert incremental.assign_eager([late, astral], {"a": 0}) == {late: Work(), astral: Work(("a",))}


@pytest.mark.parametrize(
    ("workers", "configured", "message"),
    [([], {}, "workers: none"), (["w", "w"], {}, "workers: 'w' is listed twice"), (["w"], {"a": -1}, "configured.a")],
)
def test_refuses(workers: list[str], configured: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidGroup, match=message):
        incremental.assign_eager(workers, configured)
