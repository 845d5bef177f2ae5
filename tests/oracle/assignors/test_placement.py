"""Compares replica placement with AdminUtils (server-common 4.0.2) and StripedReplicaPlacer (kafka-metadata 4.3.1)."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.oracle.driver import Oracle
from tests.support.placement_cases import admin_answer, admin_case, striped_case, striped_placement

SEEDS = [21, 22, 23]


def compare(java: Oracle, cases: list[dict[str, Any]], ours: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for case, answer in zip(cases, java.ask(cases), strict=True):
        expected = {"error": True} if "error" in answer else answer
        assert ours(case) == expected, case


@pytest.mark.parametrize("seed", SEEDS)
def test_admin_utils_placement_equals_kafkas(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    compare(oracle("admin"), [admin_case(rng) for _ in range(oracle_cases)], admin_answer)


@pytest.mark.parametrize("seed", SEEDS)
def test_striped_placement_equals_kafkas(oracle: Callable[[str], Oracle], oracle_cases: int, seed: int) -> None:
    rng = random.Random(seed)
    compare(oracle("current"), [striped_case(rng) for _ in range(oracle_cases)], striped_placement)
