"""The server-side assignors against Java's TargetAssignmentBuilder; each result is the next round's target."""

from collections.abc import Callable

import pytest

from assignors.errors import InvalidGroup
from assignors.registry import find
from tests.oracle.driver import Oracle
from tests.oracle.generator import Assignment, Case, owns_missing_partition, rounds
from tests.support.consumer_cases import ConsumerGroups
from tests.support.groups import assignment_lists, group_of

SEEDS = [41, 42, 43]


def compare(jvm: Oracle, assignor: str, cases: list[Case]) -> list[Assignment | None]:
    """Assert that this project's result of every case equals the JVM's, and return the results."""
    java_answers = jvm.ask({**case, "family": "consumer", "assignor": assignor} for case in cases)
    for case, answer in zip(cases, java_answers, strict=True):
        python_target = find("consumer", assignor).assign(*group_of(case))
        assert {"assignment": assignment_lists(python_target)} == answer, case
    return [answer["assignment"] for answer in java_answers]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("equal", [True, False], ids=["homogeneous", "heterogeneous"])
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_consumer_targets_of_random_groups_equal_those_of_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, assignor: str, equal: bool, seed: int
) -> None:
    groups = ConsumerGroups(seed, equal=equal)
    assert rounds(groups, oracle_cases, lambda batch: compare(oracle("current"), assignor, batch)) == oracle_cases


@pytest.mark.parametrize("equal", [True, False], ids=["homogeneous", "heterogeneous"])
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_target_partition_beyond_the_topic_is_refused_as_in_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, assignor: str, equal: bool
) -> None:
    """For a target with an impossible partition, Java's uniform assignor fails, and this project's raises an error."""
    refused_count = 0

    def compare_batch(batch: list[Case]) -> list[Assignment | None]:
        nonlocal refused_count
        java_answers = oracle("current").ask({**case, "family": "consumer", "assignor": assignor} for case in batch)
        for case, answer in zip(batch, java_answers, strict=True):
            refused_count += owns_missing_partition(case)
            try:
                python_target = {"assignment": assignment_lists(find("consumer", assignor).assign(*group_of(case)))}
            except InvalidGroup:
                assert (assignor, "error" in answer) == ("uniform", True), case
                continue
            assert python_target == answer, case
        return [answer.get("assignment") for answer in java_answers]

    rounds(ConsumerGroups(45, equal=equal, can_shrink_topics=True), oracle_cases, compare_batch)
    assert refused_count > oracle_cases / 40


@pytest.mark.parametrize("equal", [True, False], ids=["homogeneous", "heterogeneous"])
def test_uniform_targets_of_large_groups_equal_those_of_java(oracle: Callable[[str], Oracle], equal: bool) -> None:
    """Groups of hundreds of members and long topics, for which Java's hash tables grow and partitions share bins."""
    groups = ConsumerGroups(44, equal=equal)
    rng = groups.random

    def large_case() -> Case:
        case = groups.fresh()
        for topic in case["topics"].values():
            topic["partitions"] = rng.choice([64, 100, 300, 1000])
        first_topics = case["members"][0]["topics"]
        more = [
            groups._member(f"more-{number}-{rng.getrandbits(32):x}", list(first_topics), [])
            for number in range(rng.choice([2, 60, 300]))
        ]
        case["members"] = [*case["members"][: rng.choice([1, 3, 40])], *more]
        return case

    batch = [large_case() for _ in range(20)]
    for _ in range(4):
        compare_batch = compare(oracle("current"), "uniform", batch)
        batch = [groups.after(case, answer or {}) for case, answer in zip(batch, compare_batch, strict=True)]
