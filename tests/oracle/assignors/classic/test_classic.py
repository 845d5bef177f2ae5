"""Compares every classic assignor with Kafka 4.3.1's class, in random sequences of rebalances.

``--oracle-cases 20000`` (or ``ORACLE_CASES``) runs the full comparison; the suite's default is small.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assignors.errors import InvalidGroup
from assignors.explain import explain
from assignors.registry import find
from tests.oracle.driver import Oracle
from tests.oracle.generator import Assignment, Case, Groups, owns_missing_partition, rounds
from tests.support.groups import group_of, readable

GOLDEN = Path(__file__).parents[3] / "golden/assignors/classic/oracle-4.3.1.jsonl"
#: Kafka has no result in these cases: see docs/design/sticky.md.
NO_ANSWER = {"java.lang.NullPointerException", "oracle.Timeout"}


def answered(java: Oracle, name: str, batch: list[Case]) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Return each case together with Java's result."""
    requests = [{"family": "classic", "assignor": name, "limitMs": 5000, **case} for case in batch]
    return zip(batch, java.ask(requests), strict=True)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.timeout(3600)
def test_random_sequences(oracle: Callable[[str], Oracle], oracle_cases: int, name: str, seed: int) -> None:
    java = oracle("current")
    assignor = find("classic", name)
    compared = 0

    def compare_batch(batch: list[Case]) -> list[Assignment | None]:
        nonlocal compared
        assignments: list[Assignment | None] = []
        for case, answer in answered(java, name, batch):
            ours = readable(assignor.assign(*group_of(case)))
            assert readable(assignor.python(*group_of(case))) == ours, f"seed {seed}: {json.dumps(case)}"
            if "error" in answer:
                assert name in {"sticky", "cooperative-sticky"}
                assert answer["error"]["type"] in NO_ANSWER, answer
                assignments.append(None)
                continue
            assert ours == answer["assignment"], f"seed {seed}: {json.dumps(case)}"
            compared += 1
            assignments.append(answer["assignment"])
        return assignments

    done = rounds(Groups(seed), oracle_cases, compare_batch)
    assert compared >= done * 0.99


@pytest.mark.parametrize("seed", [4, 5, 6])
@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.timeout(3600)
def test_topics_recreated_with_fewer_partitions(
    oracle: Callable[[str], Oracle], oracle_cases: int, name: str, seed: int
) -> None:
    """Members own partitions that no longer exist; where Java fails with its own check, the input is rejected."""
    java = oracle("current")
    assign = find("classic", name).assign
    beyond = 0

    def compare_batch(batch: list[Case]) -> list[Assignment | None]:
        nonlocal beyond
        assignments: list[Assignment | None] = []
        for case, answer in answered(java, name, batch):
            beyond += owns_missing_partition(case)
            theirs = answer.get("assignment")
            assignments.append(theirs)
            if theirs is None and answer["error"]["type"] in NO_ANSWER:
                continue
            topics, members = group_of(case)
            try:
                ours = assign(topics, members)
            except InvalidGroup:
                assert answer["error"]["type"] == "java.lang.IllegalStateException", json.dumps(case)
                continue
            assert readable(ours) == theirs, f"seed {seed}: {json.dumps(case)}"
            explained = explain("classic", name, topics, members, ours)
            assert all(member.decisions or not (member.owned or member.assigned) for member in explained.values())
        return assignments

    rounds(Groups(seed, shrinking=True), oracle_cases, compare_batch)
    assert beyond > oracle_cases / 40


def test_golden_file_equals_the_jars_assignments(oracle: Callable[[str], Oracle]) -> None:
    _, *lines = map(json.loads, GOLDEN.read_text().splitlines())
    requests = [{"family": "classic", "assignor": line["assignor"], **line["case"]} for line in lines]
    assert [answer["assignment"] for answer in oracle("current").ask(requests)] == [
        line["assignment"] for line in lines
    ]
