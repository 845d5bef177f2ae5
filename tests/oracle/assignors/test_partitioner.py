"""The producer's partitioners, against kafka-clients 4.3.1."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

import numpy as np
import pytest

from assignors.partitioner import murmur2, partition_for_key, to_positive
from assignors.partitioner.columns import murmur2_column, partition_column
from assignors.partitioner.eras import CountingPartitioner, TopicView
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
