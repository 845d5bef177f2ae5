"""Random inputs for replica placement, and this project's results, both in the oracle's format."""

import random
from typing import Any

from assignors.java import JavaRandom
from assignors.placement.replicas import Broker, InvalidPlacement, assign_replicas, place_striped

RACKS = ["", "a", "b", "rack-1", "rack-10", "rack-2", "Aa", "BB", "é", "😀", "\ufffd"]


def _ids(rng: random.Random) -> list[int]:
    return rng.sample(range(rng.choice([12, 1000])), rng.choice([1, 2, 3, 4, 5, 7, 9, 12]))


def admin_case(rng: random.Random) -> dict[str, Any]:
    """Return a random input for AdminUtils; AdminUtils rejects some of these inputs."""
    ids = _ids(rng)
    pool = rng.sample(RACKS, rng.randint(1, 5)) if rng.random() < 0.6 else None
    brokers = [[number, rng.choice(pool) if pool else None] for number in ids]
    if rng.random() < 0.05:
        brokers[0][1] = None if pool else "only-one"
    return {
        "family": "admin",
        "brokers": brokers,
        "partitions": rng.choice([1, 2, 5, 9, 30]),
        "replicationFactor": rng.randint(1, len(ids) + (rng.random() < 0.05)),
        "startIndex": rng.randrange(2 * len(ids)),
        "startPartition": rng.choice([0, 0, rng.randrange(30)]),
        **({"seed": rng.getrandbits(48)} if rng.random() < 0.4 else {}),
    }


def admin_answer(case: dict[str, Any]) -> dict[str, Any]:
    """Return this project's replica placement for an input that :func:`admin_case` made."""
    seed = case.get("seed")
    try:
        placed = assign_replicas(
            [Broker(number, rack) for number, rack in case["brokers"]],
            case["partitions"],
            case["replicationFactor"],
            start_index=None if seed is not None else case["startIndex"],
            start_partition=case["startPartition"],
            random=None if seed is None else JavaRandom(seed),
        )
    except InvalidPlacement:
        return {"error": True}
    return {"placement": {str(partition): replicas for partition, replicas in placed.items()}}


def striped_case(rng: random.Random) -> dict[str, Any]:
    """Return a random input for the striped placer; the placer rejects some of these inputs."""
    ids = _ids(rng)
    pool: list[str | None] = [None, *rng.sample(RACKS, rng.randint(0, 5))]
    fenced = rng.choice([0.0, 0.0, 0.2, 0.6])
    return {
        "family": "placer",
        "brokers": [[number, rng.choice(pool), rng.random() < fenced] for number in ids],
        "partitions": rng.choice([1, 2, 5, 9, 30]),
        "replicationFactor": rng.randint(1, len(ids) + (rng.random() < 0.05)),
        "seed": rng.getrandbits(48),
    }


def striped_placement(case: dict[str, Any]) -> dict[str, Any]:
    """Return this project's placement for a case of :func:`striped_case`, or an error."""
    try:
        placed = place_striped(
            [Broker(number, rack, fenced) for number, rack, fenced in case["brokers"]],
            case["partitions"],
            case["replicationFactor"],
            JavaRandom(case["seed"]),
        )
    except InvalidPlacement:
        return {"error": True}
    return {"placement": list(placed.values())}
