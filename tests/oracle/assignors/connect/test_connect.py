"""Connect's assignors against the Java classes, with real bytes of workers, in random histories of clusters."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from assignors.connect import incremental
from assignors.connect.incremental import Work
from tests.oracle.driver import Oracle
from tests.support.connect_cases import NAMES, as_json, comparable, comparable_oracle, leader_history

SEEDS = [51, 52, 53]


@pytest.mark.parametrize("seed", SEEDS)
def test_eager(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    cases = [
        (
            rng.sample(NAMES, rng.choice((1, 2, 3, 7, 20))),
            {name: rng.randint(0, 9) for name in rng.sample(NAMES, rng.randint(0, 9))},
        )
        for _ in range(oracle_cases)
    ]
    answers = oracle("current").ask(
        {"family": "connect", "ask": "eager", "workers": workers, "configured": configured}
        for workers, configured in cases
    )
    for (workers, configured), answer in zip(cases, answers, strict=True):
        ours = incremental.assign_eager(workers, configured)
        # as a worker reads them: its connectors first, then the tasks by connector
        assert {name: as_json(incremental.work_on_wire(work)) for name, work in ours.items()} == answer


@pytest.mark.parametrize("seed", SEEDS)
def test_incremental(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    groups, count = [], 0
    while count < oracle_cases:
        groups.append(leader_history(rng, rng.randint(1, 15)))
        count += len(groups[-1].rounds)
    answers = oracle("current").ask(
        {"family": "connect", "ask": "incremental", "maxDelay": group.max_delay_ms, "rounds": group.rounds}
        for group in groups
    )
    for group, theirs in zip(groups, answers, strict=True):
        for position, (ours, answer) in enumerate(zip(group.results, theirs, strict=True)):
            assert comparable(ours) == comparable_oracle(answer), (group.max_delay_ms, group.rounds[: position + 1])


def test_wire_order_equals_javas(oracle: Callable[[str], Oracle]) -> None:
    rng = random.Random(54)
    works = []
    for _ in range(200):
        names = rng.sample(NAMES, rng.randint(1, 30))
        tasks = [(name, number) for name in names for number in range(rng.randint(0, 4))]
        works.append(Work(tuple(rng.sample(names, rng.randint(0, len(names)))), tuple(rng.sample(tasks, len(tasks)))))
    answers = oracle("current").ask({"family": "connect", "ask": "wire", "work": as_json(work)} for work in works)
    assert [as_json(incremental.work_on_wire(work)) for work in works] == answers


def test_back_off(oracle: Callable[[str], Oracle]) -> None:
    rng = random.Random(55)
    maxima = [0, 1, 2, 40, 41, 1600, 60_000, 300_000, 2**31 - 1, *(rng.randrange(2**31) for _ in range(2000))]
    answers = oracle("current").ask({"family": "connect", "ask": "backoff", "maxDelay": m} for m in maxima)
    assert [[incremental.backoff_ms(n, m) for n in range(1, 9)] for m in maxima] == answers
