"""Compares Connect's assignors with Kafka's Java classes, in random cluster histories with bytes of real workers."""

import random
from collections.abc import Callable

import pytest

from assignors.connect import incremental
from assignors.connect.incremental import Work
from tests.oracle.driver import Oracle
from tests.support.connect_cases import NAMES, as_json, leader_history, oracle_round_as_json, round_as_json

SEEDS = [51, 52, 53]


@pytest.mark.parametrize("seed", SEEDS)
def test_eager_connect_assignments_equal_javas(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
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
        python_result = incremental.assign_eager(workers, configured)
        # as a worker reads them: its connectors first, then the tasks by connector
        assert {name: as_json(incremental.serialized_work(work)) for name, work in python_result.items()} == answer


@pytest.mark.parametrize("seed", SEEDS)
def test_incremental_connect_rounds_equal_javas(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    groups, count = [], 0
    while count < oracle_cases:
        groups.append(leader_history(rng, rng.randint(1, 15)))
        count += len(groups[-1].rounds)
    answers = oracle("current").ask(
        {"family": "connect", "ask": "incremental", "maxDelay": group.max_delay_ms, "rounds": group.rounds}
        for group in groups
    )
    for group, java_rounds in zip(groups, answers, strict=True):
        for position, (python_result, answer) in enumerate(zip(group.results, java_rounds, strict=True)):
            assert round_as_json(python_result) == oracle_round_as_json(answer), (
                group.max_delay_ms,
                group.rounds[: position + 1],
            )


def test_wire_order_equals_javas(oracle: Callable[[str], Oracle]) -> None:
    rng = random.Random(54)
    work_lists = []
    for _ in range(200):
        names = rng.sample(NAMES, rng.randint(1, 30))
        tasks = [(name, number) for name in names for number in range(rng.randint(0, 4))]
        work_lists.append(
            Work(tuple(rng.sample(names, rng.randint(0, len(names)))), tuple(rng.sample(tasks, len(tasks))))
        )
    answers = oracle("current").ask({"family": "connect", "ask": "wire", "work": as_json(work)} for work in work_lists)
    assert [as_json(incremental.serialized_work(work)) for work in work_lists] == answers


def test_connect_revocation_backoff_equals_that_of_java(oracle: Callable[[str], Oracle]) -> None:
    rng = random.Random(55)
    max_delays_ms = [0, 1, 2, 40, 41, 1600, 60_000, 300_000, 2**31 - 1, *(rng.randrange(2**31) for _ in range(2000))]
    answers = oracle("current").ask({"family": "connect", "ask": "backoff", "maxDelay": m} for m in max_delays_ms)
    assert [[incremental.backoff_ms(n, m) for n in range(1, 9)] for m in max_delays_ms] == answers
