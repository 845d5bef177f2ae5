"""Compares this project's partitioners with those of kafka-clients 4.3.1."""

import base64
import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from assignors.partitioner import BuiltInPartitioner, murmur2, partition_for_key, round_robin, to_positive
from tests.oracle.driver import Oracle

SEEDS = [11, 12, 13]


@pytest.mark.parametrize("seed", SEEDS)
def test_partition_of_a_key_equals_javas(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
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
    assert [
        {"hash": murmur2(key), "positive": to_positive(murmur2(key)), "partition": partition_for_key(key, count)}
        for key, count in zip(keys, counts, strict=True)
    ] == answers


@pytest.mark.parametrize("seed", SEEDS)
def test_built_in_partitioner_equals_javas(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    cases = [_random_keyless_case(rng) for _ in range(oracle_cases)]
    for case, answer in zip(cases, oracle("current").ask(cases), strict=True):
        sticky = BuiltInPartitioner(case["partitions"], case["batchSize"], iter(case["draws"]).__next__)
        assert {"partitions": [sticky.append(step["size"]) for step in case["steps"]]} == answer, case


def _random_keyless_case(rng: random.Random) -> dict[str, Any]:
    """Return a random case of records without a key."""
    steps = [{"size": rng.choice([1, 40, 60, 100, 250]), "switch": True} for _ in range(rng.randint(1, 12))]
    return {
        "family": "partitioner",
        "ask": "builtIn",
        "batchSize": 100,
        "steps": steps,
        "draws": [rng.randrange(-(2**31), 2**31) for _ in range(2 * len(steps) + 2)],
        **_topic(rng),
    }


def _topic(rng: random.Random) -> dict[str, Any]:
    partitions = rng.choice([1, 2, 3, 5, 12])
    return {"partitions": partitions, "available": list(range(partitions))}


@pytest.mark.parametrize("seed", SEEDS)
def test_round_robin_partitioner_equals_javas(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    cases = [
        {"family": "partitioner", "ask": "roundRobin", "records": rng.randint(1, 30), **_topic(rng)}
        for _ in range(max(1, oracle_cases // 10))
    ]
    for case, answer in zip(cases, oracle("current").ask(cases), strict=True):
        assert {"partitions": [*islice(round_robin(case["partitions"]), case["records"])]} == answer, case
