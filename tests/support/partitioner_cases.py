"""Random runs of the producer's partitioners, as the oracle takes them, and our choices."""

from __future__ import annotations

import random
from typing import Any

from assignors.partitioner import BuiltInPartitioner, TopicView


def topic(rng: random.Random) -> dict[str, Any]:
    """A topic, some of its partitions without a leader."""
    partitions = rng.choice([1, 2, 3, 5, 12])
    share = rng.choice([0.0, 0.5, 1.0])
    return {
        "partitions": partitions,
        "available": [p for p in range(partitions) if rng.random() < share],
    }


def built_in(rng: random.Random) -> dict[str, Any]:
    """A run of the built-in partitioner: records without a key, and loads in between."""
    case = topic(rng)
    steps: list[dict[str, Any]] = []
    for _ in range(rng.randint(1, 12)):
        if rng.random() < 0.3 and case["available"]:
            queues = [rng.choice([0, 0, 1, 2, 7]) for _ in case["available"]]
            length = rng.choice([len(queues), len(queues), rng.randint(0, len(queues))])
            load = {"queues": queues, "ids": case["available"], "length": length}
            steps.append(load if rng.random() < 0.8 else {"queues": None, "ids": None, "length": 0})
        steps.append({"size": rng.choice([1, 40, 60, 100, 250]), "switch": rng.random() < 0.7})
    draws = [rng.randrange(-(2**31), 2**31) for _ in range(2 * len(steps) + 2)]
    return {
        "family": "partitioner",
        "ask": "builtIn",
        "batchSize": 100,
        "steps": steps,
        "draws": draws,
        **case,
    }


def run_built_in(case: dict[str, Any]) -> list[int]:
    """Our choices for :func:`built_in`."""
    view = TopicView(case["partitions"], case["available"])
    partitioner = BuiltInPartitioner(case["batchSize"], iter(case["draws"]).__next__)
    chosen = []
    for step in case["steps"]:
        if "queues" in step:
            partitioner.update_load(step["queues"], step["ids"] or (), step["length"])
        else:
            chosen.append(partitioner.partition(None, view))
            partitioner.appended(step["size"], view, enable_switch=step["switch"])
    return chosen
