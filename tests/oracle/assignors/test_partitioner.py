"""The producer's partitioners, against kafka-clients 4.3.1."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assignors.partitioner import murmur2, partition_for_key, to_positive
from assignors.partitioner.columns import murmur2_column, partition_column
from assignors.partitioner.eras import BuiltInPartitioner, CountingPartitioner, TopicView
from tests.oracle.driver import Oracle

SEEDS = [11, 12, 13]


@pytest.mark.parametrize("seed", SEEDS)
def test_keys(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    keys = [
        rng.randbytes(rng.choice([rng.randrange(20), rng.randrange(70), rng.randrange(600)]))
        for _ in range(oracle_cases)
    ]
    counts = [rng.choice([1, 2, 3, 10, 50, 1000, 2**31 - 1]) for _ in keys]
    answers = oracle("current").ask(
        {"family": "partitioner", "ask": "key", "key": base64.b64encode(key).decode(), "partitions": count}
        for key, count in zip(keys, counts, strict=True)
    )
    columns = murmur2_column(keys).tolist()
    assert [
        {
            "hash": murmur2(key),
            "positive": to_positive(murmur2(key)),
            "partition": partition_for_key(key, count),
        }
        for key, count in zip(keys, counts, strict=True)
    ] == answers
    assert columns == [answer["hash"] for answer in answers]
    assert partition_column(keys, 50).tolist() == [answer["positive"] % 50 for answer in answers]


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_of_one_length(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    matrix = np.frombuffer(rng.randbytes(oracle_cases * 16), np.uint8).reshape(-1, 16)
    answers = oracle("current").ask(
        {"family": "partitioner", "ask": "key", "key": base64.b64encode(row).decode(), "partitions": 7}
        for row in matrix
    )
    assert murmur2_column(matrix).tolist() == [answer["hash"] for answer in answers]
    assert partition_column(matrix, 7).tolist() == [answer["partition"] for answer in answers]


def _topic(rng: random.Random) -> dict[str, Any]:
    partitions = rng.choice([1, 2, 3, 5, 12])
    share = rng.choice([0.0, 0.5, 1.0])
    return {
        "partitions": partitions,
        "available": [p for p in range(partitions) if rng.random() < share],
    }


def _built_in(rng: random.Random) -> dict[str, Any]:
    case = _topic(rng)
    steps: list[dict[str, Any]] = []
    for _ in range(rng.randint(1, 12)):
        if rng.random() < 0.3 and case["available"]:
            queues = [rng.choice([0, 0, 1, 2, 7]) for _ in case["available"]]
            length = rng.choice([len(queues), len(queues), rng.randint(0, len(queues))])
            load = {"queues": queues, "ids": case["available"], "length": length}
            steps.append(load if rng.random() < 0.8 else {"queues": None, "ids": None, "length": 0})
        steps.append({"size": rng.choice([1, 40, 60, 100, 250]), "switch": rng.random() < 0.7})
    draws = [rng.randrange(-(2**31), 2**31) for _ in range(2 * len(steps) + 2)]
    return {
        "family": "partitioner",
        "ask": "builtIn",
        "batchSize": 100,
        "steps": steps,
        "draws": draws,
        **case,
    }


def _run_built_in(case: dict[str, Any]) -> list[int]:
    view = TopicView(case["partitions"], case["available"])
    partitioner = BuiltInPartitioner(case["batchSize"], iter(case["draws"]).__next__)
    chosen = []
    for step in case["steps"]:
        if "queues" in step:
            partitioner.update_load(step["queues"], step["ids"] or (), step["length"])
        else:
            chosen.append(partitioner.partition(None, view))
            partitioner.appended(step["size"], view, enable_switch=step["switch"])
    return chosen


@pytest.mark.parametrize("seed", SEEDS)
def test_built_in_partitioner(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    cases = [_built_in(rng) for _ in range(oracle_cases)]
    answers = oracle("current").ask(cases)
    for case, answer in zip(cases, answers, strict=True):
        assert {"partitions": _run_built_in(case)} == answer, case


@pytest.mark.parametrize("seed", SEEDS)
def test_round_robin_partitioner(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    cases = [
        {"family": "partitioner", "ask": "roundRobin", "records": rng.randint(1, 30), **_topic(rng)}
        for _ in range(max(1, oracle_cases // 10))
    ]
    answers = oracle("current").ask(cases)
    for case, answer in zip(cases, answers, strict=True):
        view = TopicView(case["partitions"], case["available"])
        counter = CountingPartitioner(ignore_keys=True)
        chosen = [counter.partition("t", None, view) for _ in range(case["records"])]
        assert {"partitions": chosen} == answer, case
