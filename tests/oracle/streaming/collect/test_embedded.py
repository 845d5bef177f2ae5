import random
from base64 import b64encode
from collections.abc import Callable
from struct import pack
from typing import Any

import pytest

from streaming.collect.coordinator.embedded import read_assignment, read_subscription
from streaming.collect.coordinator.schema import MalformedRecord
from tests.oracle.driver import Oracle
from tests.support.offsets_topic import assignment, string, subscription

EDGE_NUMBERS = (-1, -2, 0, 1, 2, 3, 127, 32_767, 2**31 - 1, -(2**31))


def partitions(rng: random.Random) -> dict[str, list[int]]:
    return {rng.choice("tuvä"): [rng.randrange(5) for _ in range(rng.randrange(4))] for _ in range(rng.randrange(3))}


def whole(rng: random.Random, what: str) -> bytes:
    if what == "assignment":
        return assignment(partitions(rng))
    return subscription(
        rng.choices("tuv", k=rng.randrange(4)),
        partitions(rng),
        generation=rng.choice((-1, 0, 7)),
        rack=rng.choice((None, "", "r")),
        user_data=rng.choice((None, b"", b"\x00\x01")),
    )


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    data = pack(">h", rng.choice((-1, 0, 1, 2, 3, 4, 32_767))) + data[2:] if rng.random() < 0.5 else data
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(data) + 1)
        number = pack(rng.choice((">i", ">h")), rng.choice([e for e in EDGE_NUMBERS if -32_768 <= e < 32_768]))
        put = rng.choice((b"", number, pack(">i", rng.choice(EDGE_NUMBERS)), string("t"), string(None)))
        data = data[:at] + put + data[at + rng.choice((0, 0, 2, 4)) :]
    return data[: rng.randrange(2, len(data) + 1)] if len(data) > 2 and rng.random() < 0.1 else data


def read_in_python(what: str, data: bytes) -> dict[str, Any] | str:
    try:
        if what == "assignment":
            return read_assignment(data, "range")
        decoded = read_subscription(data, "range")
    except MalformedRecord as error:
        return str(error)
    generation = max(decoded.get("owned_generation", -1), -1)
    owned, rack = decoded.get("owned", {}), decoded.get("rack_id")
    return {"topics": decoded["topics"], "owned": owned, "generation": generation, "rack": rack}


def merged_shares(pairs: list[tuple[str, int]]) -> dict[str, list[int]]:
    shares: dict[str, set[int]] = {}
    for topic, partition in pairs:
        shares.setdefault(topic, set()).add(partition)
    return {topic: sorted(numbers) for topic, numbers in sorted(shares.items())}


@pytest.mark.parametrize("what", ["subscription", "assignment"])
def test_bytes_are_decoded_or_rejected_as_in_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, what: str
) -> None:
    rng = random.Random(848)
    cases = [damaged_bytes(rng, whole(rng, what)) for _ in range(oracle_cases * 10)]
    answers = oracle("current").ask(
        {"family": "embedded", "what": what, "data": b64encode(data).decode()} for data in cases
    )

    read = 0
    for data, java in zip(cases, answers, strict=True):
        decoded = read_in_python(what, data)
        if isinstance(decoded, str):
            # Such partitions and topics do not exist in Kafka.
            assert "error" in java or "is not a partition number" in decoded or "not UTF-8" in decoded, (
                data.hex(),
                decoded,
            )
        elif "error" in java:
            # Some clients write version 1 without its additional field; a Java leader then fails.
            assert (what, decoded["owned"]) == ("subscription", {}), (data.hex(), java)
            assert read_in_python(what, pack(">h", 0) + data[2:]) == decoded
            assert (
                "error"
                not in oracle("current").ask(
                    [{"family": "embedded", "what": what, "data": b64encode(pack(">h", 0) + data[2:]).decode()}]
                )[0]
            )
        else:
            read += 1
            pairs = "assigned" if what == "assignment" else "owned"
            assert decoded == java | {pairs: merged_shares(java[pairs])}, data.hex()
    assert oracle_cases < read < 9 * oracle_cases  # both outcomes occur
