"""The producer's partitioners, against kafka-clients 4.3.1."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

import pytest

from assignors.partitioner import CountingPartitioner, TopicView, murmur2, partition_for_key, to_positive
from tests.oracle.driver import Oracle
from tests.support.partitioner_cases import built_in, run_built_in, topic

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
    assert [
        {
            "hash": murmur2(key),
            "positive": to_positive(murmur2(key)),
            "partition": partition_for_key(key, count),
        }
        for key, count in zip(keys, counts, strict=True)
    ] == answers


@pytest.mark.parametrize("seed", SEEDS)
def test_built_in_partitioner(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    cases = [built_in(rng) for _ in range(oracle_cases)]
    answers = oracle("current").ask(cases)
    for case, answer in zip(cases, answers, strict=True):
        assert {"partitions": run_built_in(case)} == answer, case


@pytest.mark.parametrize("seed", SEEDS)
def test_round_robin_partitioner(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    cases = [
        {"family": "partitioner", "ask": "roundRobin", "records": rng.randint(1, 30), **topic(rng)}
        for _ in range(max(1, oracle_cases // 10))
    ]
    answers = oracle("current").ask(cases)
    for case, answer in zip(cases, answers, strict=True):
        view = TopicView(case["partitions"], case["available"])
        counter = CountingPartitioner(ignore_keys=True)
        chosen = [counter.partition("t", None, view) for _ in range(case["records"])]
        assert {"partitions": chosen} == answer, case
