import random
from base64 import b64encode
from collections.abc import Callable
from struct import pack
from typing import Any

import pytest

from streaming.collect.coordinator.connect import SUBPROTOCOL_VERSIONS, read_assignment, read_worker
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.records.events import Holding
from tests.oracle.driver import Oracle
from tests.oracle.streaming.collect.damage import damaged_bytes
from tests.support.offsets_topic import string, work, worker


def share(rng: random.Random) -> dict[str, list[int]]:
    return {name: rng.sample(range(-1, 4), rng.randrange(4)) for name in rng.sample("abä", rng.randrange(3))}


def whole(rng: random.Random, what: str, protocol: str) -> bytes:
    if protocol == "default":
        head = pack(">h", 0)
        if what == "subscription":
            return head + string("http://w") + pack(">q", 3)
        tasks = work(share(rng))[2:]
        return head + tasks[: -4 - 4]  # without revoked tasks and the delay
    if what == "subscription":
        return worker(rng.choice((None, share(rng))))
    return work(share(rng), share(rng), rng.choice((0, 15_000)))


def read_in_python(what: str, data: bytes, protocol: str) -> dict[str, Any] | str:
    try:
        if what == "subscription":
            state = read_worker(data, protocol)
            return {"url": state.get("endpoint"), "owned": state["owned"]}
        assignment = read_assignment(data, protocol)
    except MalformedRecord as error:
        return str(error)
    return {"assigned": assignment.assigned, "revoked": assignment.revoked, "delay": assignment.delay_ms}


def merged_shares(pairs: list[tuple[str, int]]) -> Holding:
    shares: dict[str, set[int]] = {}
    for name, number in pairs:
        shares.setdefault(name, set()).add(number)
    return {name: sorted(numbers) for name, numbers in sorted(shares.items())}


@pytest.mark.parametrize("what", ["subscription", "assignment"])
def test_bytes_are_decoded_or_rejected_as_in_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, what: str
) -> None:
    rng = random.Random(415)
    cases = []
    for _ in range(oracle_cases * 5):
        protocol = rng.choice(list(SUBPROTOCOL_VERSIONS))
        cases.append((protocol, damaged_bytes(rng, whole(rng, what, protocol))))
    cases = [(protocol, data) for protocol, data in cases if data]
    answers = oracle("current").ask(
        {"family": "worker", "what": what, "protocol": protocol, "data": b64encode(data).decode()}
        for protocol, data in cases
    )

    read = 0
    for (protocol, data), java in zip(cases, answers, strict=True):
        decoded = read_in_python(what, data, protocol)
        if isinstance(decoded, str):
            # Such tasks and connectors do not exist in Kafka.
            assert "error" in java or "is not a task number" in decoded or "not UTF-8" in decoded, (
                protocol,
                data.hex(),
                decoded,
            )
            continue
        assert "error" not in java, (protocol, data.hex(), decoded, java)
        read += 1
        expected = {name: merged_shares(value) if isinstance(value, list) else value for name, value in java.items()}
        assert decoded == expected, (protocol, data.hex())
    assert oracle_cases < read < len(cases)  # both outcomes occur
