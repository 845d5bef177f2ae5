"""Writes the golden samples of the consumer, zookeeper and connect families of assignors.

``python -m tests.oracle.record_server_and_connect``

Each file is JSON Lines: the first line is the provenance, all others are cases with the results of the released
classes.
"""

import json
import random
from pathlib import Path
from typing import Any

from tests.oracle.driver import Oracle
from tests.oracle.generator import Assignment, Case, rounds
from tests.oracle.jars import JARSETS
from tests.support.connect_cases import leader_history
from tests.support.consumer_cases import ConsumerGroups
from tests.support.zookeeper_cases import VERSIONS, ZookeeperGroups, partitions_with_equal_hashes

GOLDEN = Path(__file__).parents[1] / "golden" / "assignors"
SEED = 2026
CASES = 24


def main() -> None:
    """Write golden samples of the consumer, ZooKeeper and Connect assignors, computed by the released Java classes."""
    with Oracle("current") as jvm:
        for assignor, kind, equal in (
            ("uniform", "homogeneous", True),
            ("uniform", "heterogeneous", False),
            ("range", "range", False),
        ):
            _write(
                f"consumer/{kind}",
                "current",
                f"TargetAssignmentBuilder with {assignor}",
                _consumer(jvm, assignor, equal=equal),
            )
        _write("connect/incremental", "current", "IncrementalCooperativeAssignor", _connect(jvm))
    for jarset, version in VERSIONS.items():
        with Oracle(jarset) as jvm:
            for assignor in ("range", "roundrobin"):
                _write(
                    f"zookeeper/{assignor}-{version}",
                    jarset,
                    f"kafka.consumer.PartitionAssignor {assignor}",
                    _zookeeper_cases(jvm, assignor, version),
                )


def _consumer(jvm: Oracle, assignor: str, *, equal: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def record_batch(batch: list[Case]) -> list[Assignment | None]:
        responses = jvm.ask({**case, "family": "consumer", "assignor": assignor} for case in batch)
        rows.extend(
            {"assignor": assignor, "case": case, "answer": answer["assignment"]}
            for case, answer in zip(batch, responses, strict=True)
        )
        return [answer["assignment"] for answer in responses]

    rounds(ConsumerGroups(SEED, equal=equal), CASES, record_batch, width=8)
    return rows


def _zookeeper_cases(jvm: Oracle, assignor: str, version: str) -> list[dict[str, Any]]:
    """Return random ZooKeeper-based groups in which Kafka defines the order of all partitions, with Java's results."""
    cases = [
        case
        for case in ZookeeperGroups(SEED, equal=version == "0.8.2").cases(CASES)
        if not partitions_with_equal_hashes(case, version)
    ]
    responses = jvm.ask({**case, "family": "zookeeper", "assignor": assignor} for case in cases)
    return [
        {"assignor": assignor, "kafkaVersion": version, "case": case, "answer": answer.get("assignment")}
        for case, answer in zip(cases, responses, strict=True)
    ]


def _connect(jvm: Oracle) -> list[dict[str, Any]]:
    rng = random.Random(SEED)
    groups = [leader_history(rng, rng.randint(3, 10)) for _ in range(CASES // 4)]
    responses = jvm.ask(
        {"family": "connect", "ask": "incremental", "maxDelay": group.max_delay_ms, "rounds": group.rounds}
        for group in groups
    )
    return [
        {"maxDelay": group.max_delay_ms, "rounds": group.rounds, "answers": record_batch}
        for group, record_batch in zip(groups, responses, strict=True)
    ]


def _write(name: str, jarset: str, java: str, rows: list[dict[str, Any]]) -> None:
    path = GOLDEN / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    provenance = {"class": java, "jars": list(JARSETS[jarset]), "seed": SEED, "generator": __spec__.name}
    lines = [json.dumps(row, separators=(",", ":")) for row in ({"provenance": provenance}, *rows)]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
