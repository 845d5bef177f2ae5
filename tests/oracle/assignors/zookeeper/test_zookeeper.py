"""Compares assignors of ZooKeeper-based groups with three Kafka releases, which run over an in-memory ZooKeeper.

Partitions with equal hash codes have no order in Kafka, so the comparison omits them. It also omits a group with such
partitions whose subscriptions differ, where a swap moves later partitions.
"""

from collections.abc import Callable

import pytest

from assignors.errors import InvalidGroup
from assignors.registry import find
from assignors.zookeeper import assign_round_robin
from tests.oracle.driver import Oracle
from tests.support.groups import group_of
from tests.support.zookeeper_cases import (
    VERSIONS,
    AssignmentLists,
    Case,
    ZookeeperGroups,
    has_equal_thread_counts,
    partitions_with_equal_hashes,
    sort_undefined_order,
)

SEEDS = [61, 62, 63]


def assign_in_python(assignor: str, case: Case, version: str) -> AssignmentLists | None:
    """Return this project's assignment; None if this project rejects the group."""
    try:
        answer = find("zookeeper", assignor).assign(*group_of(case), kafka_version=version)
    except InvalidGroup:
        return None
    return {thread: {t: list(p) for t, p in share.items()} for thread, share in answer.items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
@pytest.mark.parametrize("jarset", list(VERSIONS))
def test_zookeeper_assignments_equal_those_of_kafka(
    oracle: Callable[[str], Oracle], oracle_cases: int, jarset: str, assignor: str, seed: int
) -> None:
    version = VERSIONS[jarset]
    cases = ZookeeperGroups(seed, equal=version == "0.8.2").cases(max(oracle_cases // 3, 1))
    answers = oracle(jarset).ask(
        {**case, "family": "zookeeper", "assignor": assignor, "everyone": number % 50 == 0}
        for number, case in enumerate(cases)
    )
    compared = 0
    for case, answer in zip(cases, answers, strict=True):
        python_assignment = assign_in_python(assignor, case, version)
        if python_assignment is None:
            assert "Round-robin assignment is allowed only if" in answer["error"]["message"], case
            continue
        unordered_partitions = partitions_with_equal_hashes(case, version) if assignor == "roundrobin" else set()
        if unordered_partitions and not has_equal_thread_counts(case):
            continue
        compared += 1
        assert sort_undefined_order(python_assignment, unordered_partitions) == sort_undefined_order(
            answer["assignment"], unordered_partitions
        ), case
    assert compared > len(cases) * 0.8


def test_zookeeper_assignors_default_to_kafka_0_11() -> None:
    case = ZookeeperGroups(64).fresh()
    assert find("zookeeper", "roundrobin").assign(*group_of(case)) == assign_round_robin(
        *group_of(case), kafka_version="0.11"
    )
