"""``place``: its options reach the placer."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from streaming.cli import checking as ask

Command = Callable[..., tuple[int, str, str]]
CLUSTER = ("--brokers", "0,1,2,3", "--partitions", "5", "--replication-factor", "2")


def placed(**more: object) -> dict[str, list[int]]:
    found = ask.place_replicas("0,1,2,3", 5, 2, **more)  # type: ignore[arg-type] # options by name
    return {str(partition): list(replicas) for partition, replicas in found.items()}


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("--start-index", "1"), {"start_index": 1}),
        (("--start-index", "1", "--shift", "3"), {"start_index": 1, "shift": 3}),
        (("--start-index", "1", "--start-partition", "7"), {"start_index": 1, "start_partition": 7}),
        (("--seed", "7"), {"seed": 7}),
        (("--placer", "striped", "--seed", "7"), {"placer": "striped", "seed": 7}),
    ],
)
def test_each_option_is_handed_on(command: Command, words: tuple[str, ...], more: dict[str, object]) -> None:
    status, out, errors = command("place", *CLUSTER, *words)
    assert (status, json.loads(out), errors) == (0, placed(**more), "")


def test_the_options_differ_from_one_another() -> None:
    """Else the test above could not fail."""
    answers = [placed(start_index=1), placed(start_index=1, shift=3), placed(start_index=1, start_partition=7)]
    answers += [placed(seed=7), placed(placer="striped", seed=7)]
    assert len({json.dumps(answer) for answer in answers}) == len(answers)


def test_a_table_is_a_row_a_partition(command: Command) -> None:
    _, out, _ = command("place", *CLUSTER, "--start-index", "1", "--table")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert rows == [
        [partition, str(replicas[0]), ", ".join(map(str, replicas))]
        for partition, replicas in placed(start_index=1).items()
    ]
