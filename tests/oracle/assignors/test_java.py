"""Hash codes, sort orders and HashMap iteration (with tree bins and removals) against the JVM."""

import base64
import random
from collections.abc import Callable
from typing import Any

import pytest

from assignors.java import (
    HashTable,
    hash_order,
    in_string_order,
    in_timeline_order,
    string_hash,
    string_key,
    topic_partition_hash,
    uuid_bits,
    uuid_hash,
)
from tests.oracle.driver import Oracle
from tests.oracle.generator import COLLIDING_STRINGS, ODD_IDS


def strings(rng: random.Random, count: int) -> list[str]:
    kind = rng.choice(["plain", "colliding", "mixed", "odd"])
    if kind == "odd":
        return rng.sample(sorted({a + b + c for a in ODD_IDS for b in ODD_IDS for c in ODD_IDS}), count)
    colliding_strings = rng.sample(COLLIDING_STRINGS, min(count // (1 if kind == "colliding" else 3), 256))
    names = [] if kind == "plain" else colliding_strings
    names += [f"c{number}" for number in rng.sample(range(10 * count), count - len(names))]
    rng.shuffle(names)
    return names


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_string_hash_order_equals_javas(oracle: Callable[[str], Oracle], seed: int) -> None:
    rng = random.Random(seed)
    groups = [strings(rng, rng.choice([1, 5, 12, 13, 60, 100, 300])) for _ in range(100)]
    answers = oracle("current").ask({"family": "probe", "kind": "string", "keys": keys} for keys in groups)
    python_answers = [
        {
            "hashes": [string_hash(key) for key in keys],
            "order": hash_order([string_hash(key) for key in keys], keys=keys),
            "sorted": in_string_order(keys),
        }
        for keys in groups
    ]
    assert python_answers == answers


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_partition_hash_set_keeps_javas_order_after_removals(oracle: Callable[[str], Oracle], seed: int) -> None:
    rng = random.Random(seed)
    requests: list[dict[str, Any]] = []
    python_answers = []
    for _ in range(100):
        step = rng.choice([1, 16, 64, 128, 1024, 1 << 16])  # the larger ones fill single bins: trees
        count = rng.choice([3, 13, 60, 150])
        keys = [["t", number] for number in rng.sample(range(0, 2 * step * count, step), count)]
        removed_keys = rng.sample(range(count), rng.randrange(count + 1))
        requests.append({"family": "probe", "kind": "topicPartition", "keys": keys, "removed": removed_keys})
        table = HashTable()
        hashes = [topic_partition_hash(topic, partition) for topic, partition in keys]
        for position, code in enumerate(hashes):
            table.add(position, code)
        for position in removed_keys:
            table.remove(position)
        python_answers.append({"hashes": hashes, "order": list(table)})
    assert python_answers == oracle("current").ask(requests)


def test_tree_of_strings_keeps_javas_order_after_removals(oracle: Callable[[str], Oracle]) -> None:
    rng = random.Random(5)
    requests: list[dict[str, Any]] = []
    python_answers = []
    for _ in range(100):
        keys = strings(rng, rng.choice([20, 100]))
        removed_keys = rng.sample(range(len(keys)), rng.randrange(len(keys)))
        requests.append({"family": "probe", "kind": "string", "keys": keys, "removed": removed_keys})
        table = HashTable(sort_keys=[string_key(key) for key in keys])
        for position, key in enumerate(keys):
            table.add(position, string_hash(key))
        for position in removed_keys:
            table.remove(position)
        python_answers.append(list(table))
    assert python_answers == [answer["order"] for answer in oracle("current").ask(requests)]


def test_timeline_table_keeps_javas_order_after_removals(oracle: Callable[[str], Oracle]) -> None:
    rng = random.Random(6)
    requests: list[dict[str, Any]] = []
    python_answers = []
    for _ in range(200):
        keys = strings(rng, rng.choice([1, 2, 3, 5, 12, 60, 100]))
        removed_keys = rng.sample(range(len(keys)), rng.randrange(len(keys)))
        requests.append({"family": "probe", "kind": "string", "keys": keys, "removed": removed_keys, "timeline": True})
        left = [key for position, key in enumerate(keys) if position not in removed_keys]
        python_answers.append([keys.index(key) for key in in_timeline_order(left, most_strings=len(keys))])
    assert python_answers == [answer["order"] for answer in oracle("current").ask(requests)]


def test_uuid_hash_and_sort_order_equal_javas(oracle: Callable[[str], Oracle]) -> None:
    rng = random.Random(7)
    keys = [base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=") for _ in range(200)]
    answer = oracle("current").ask([{"family": "probe", "kind": "uuid", "keys": keys}])[0]
    hashes = [uuid_hash(uuid_bits(key)) for key in keys]
    assert answer == {"hashes": hashes, "order": hash_order(hashes), "sorted": sorted(keys, key=uuid_bits)}
