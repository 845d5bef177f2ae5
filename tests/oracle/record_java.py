"""Writes the golden file of Java's hash tables from a JVM: ``python -m tests.oracle.record_java``."""

import json
import random
from pathlib import Path
from typing import Any

from tests.oracle.driver import Oracle
from tests.oracle.jars import JARSETS

GOLDEN_FILE = Path(__file__).parents[1] / "golden/assignors/java/tables.jsonl"
SEED = 21


def main() -> None:
    """Write the order of 60 hash tables of TopicPartition keys, most with tree bins; some keys are removed again."""
    rng = random.Random(SEED)
    requests: list[dict[str, Any]] = []
    for _ in range(60):
        step = rng.choice([1, 64, 1024, 1 << 16, 1 << 16])
        count = rng.choice([13, 40, 60])
        keys = [["t", number] for number in rng.sample(range(0, 2 * step * count, step), count)]
        removed_keys = rng.sample(range(count), rng.randrange(count + 1))
        requests.append({"family": "probe", "kind": "topicPartition", "keys": keys, "removed": removed_keys})
    with Oracle("current") as oracle:
        answers = oracle.ask(requests)
    lines = [json.dumps({"provenance": JARSETS["current"][0], "generator": "tests.oracle.record_java", "seed": SEED})]
    lines += [
        json.dumps(
            {
                "partitions": [number for _, number in request["keys"]],
                "removed": request["removed"],
                "order": answer["order"],
            },
            separators=(",", ":"),
        )
        for request, answer in zip(requests, answers, strict=True)
    ]
    GOLDEN_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
