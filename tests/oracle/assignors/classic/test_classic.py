"""Compares every classic assignor with Kafka 4.3.1's class, in random sequences of rebalances.

``--oracle-cases 20000`` (or ``ORACLE_CASES``) runs the full comparison; the suite's default is small.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assignors.errors import InvalidGroup
from assignors.explain import explain
from assignors.registry import find
from tests.oracle.driver import Oracle
from tests.oracle.generator import Assignment, Case, RandomGroups, owns_missing_partition, rounds
from tests.support.groups import assignment_lists, group_of

GOLDEN = Path(__file__).parents[3] / "golden/assignors/classic/oracle-4.3.1.jsonl"
#: Kafka has no result in these cases: see docs/design/sticky.md.
UNANSWERED_ERRORS = {"java.lang.NullPointerException", "oracle.Timeout"}


def answered(java: Oracle, name: str, batch: list[Case]) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Return each group together with the assignment by Java."""
    requests = [{"family": "classic", "assignor": name, "limitMs": 5000, **case} for case in batch]
    return zip(batch, java.ask(requests), strict=True)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.timeout(3600)
def test_random_rounds_equal_those_of_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, name: str, seed: int
) -> None:
    java = oracle("current")
    assignor = find("classic", name)
    compared = 0

    def compare_batch(batch: list[Case]) -> list[Assignment | None]:
        nonlocal compared
        assignments: list[Assignment | None] = []
        for case, answer in answered(java, name, batch):
            python_assignment = assignment_lists(assignor.assign(*group_of(case)))
            assert assignment_lists(assignor.python(*group_of(case))) == python_assignment, (
                f"seed {seed}: {json.dumps(case)}"
            )
            if "error" in answer:
                assert name in {"sticky", "cooperative-sticky"}
                assert answer["error"]["type"] in UNANSWERED_ERRORS, answer
                assignments.append(None)
                continue
            assert python_assignment == answer["assignment"], f"seed {seed}: {json.dumps(case)}"
            compared += 1
            assignments.append(answer["assignment"])
        return assignments

    done = rounds(RandomGroups(seed), oracle_cases, compare_batch)
    assert compared >= done * 0.99


@pytest.mark.parametrize("seed", [4, 5, 6])
@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.timeout(3600)
def test_owners_of_removed_partitions_are_handled_as_in_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, name: str, seed: int
) -> None:
    """Owners of partitions that no longer exist are handled as in Java; inputs at which Java fails are rejected."""
    java = oracle("current")
    assign = find("classic", name).assign
    refused_count = 0

    def compare_batch(batch: list[Case]) -> list[Assignment | None]:
        nonlocal refused_count
        assignments: list[Assignment | None] = []
        for case, answer in answered(java, name, batch):
            refused_count += owns_missing_partition(case)
            java_assignment = answer.get("assignment")
            assignments.append(java_assignment)
            if java_assignment is None and answer["error"]["type"] in UNANSWERED_ERRORS:
                continue
            topics, members = group_of(case)
            try:
                python_assignment = assign(topics, members)
            except InvalidGroup:
                assert answer["error"]["type"] == "java.lang.IllegalStateException", json.dumps(case)
                continue
            assert assignment_lists(python_assignment) == java_assignment, f"seed {seed}: {json.dumps(case)}"
            explained = explain("classic", name, topics, members, python_assignment)
            assert all(member.decisions or not (member.owned or member.assigned) for member in explained.values())
        return assignments

    rounds(RandomGroups(seed, can_shrink_topics=True), oracle_cases, compare_batch)
    assert refused_count > oracle_cases / 40


def test_golden_file_equals_the_jars_assignments(oracle: Callable[[str], Oracle]) -> None:
    _, *lines = map(json.loads, GOLDEN.read_text().splitlines())
    requests = [{"family": "classic", "assignor": line["assignor"], **line["case"]} for line in lines]
    assert [answer["assignment"] for answer in oracle("current").ask(requests)] == [
        line["assignment"] for line in lines
    ]
