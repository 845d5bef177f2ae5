"""EagerAssignor: connectors first, then tasks, in one circle over the sorted workers."""

from __future__ import annotations

from assignors.connect import incremental
from assignors.connect.incremental import Work


def test_round_robin_continues_from_connectors_to_tasks() -> None:
    assert incremental.assign_eager(["w2", "w1"], {"b": 2, "a": 3, "c": 0}) == {
        "w1": Work(("a", "c"), (("a", 1), ("b", 0))),
        "w2": Work(("b",), (("a", 0), ("a", 2), ("b", 1))),
    }


def test_workers_are_in_utf16_order() -> None:
    astral, late = "\U0001f600", "\uffee"
    assert incremental.assign_eager([late, astral], {"a": 0}) == {late: Work(), astral: Work(("a",))}
