"""The user data of Kafka Streams, written by Kafka 4.3.1 in every version, is decoded as Kafka 4.3.1 decodes it."""

import random
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from streaming.collect.coordinator.embedded import read_assigned_tasks, read_instance
from streaming.collect.coordinator.schema import MalformedRecord
from tests.oracle.driver import Oracle
from tests.oracle.streaming.collect.damage import damaged_bytes

_NO_NEXT_REBALANCE = 2**63 - 1
_VERSIONS = range(1, 12)


def tasks(rng: random.Random, version: int) -> list[list[Any]]:
    names = ("", "", "tö") if version >= 10 else ("",)
    task_ids = {(rng.choice(names), rng.randrange(3), rng.randrange(4)) for _ in range(rng.randrange(5))}
    return [list(task_id) for task_id in sorted(task_ids)]


def request(rng: random.Random, what: str, version: int) -> dict[str, Any]:
    request: dict[str, Any] = {"family": "instance", "what": what, "version": version, "tasks": tasks(rng, version)}
    if what == "subscription":
        process = UUID(int=rng.getrandbits(128))
        return request | {"processId": str(process), "endpoint": rng.choice(("", "host:80"))}
    return request | {"active": tasks(rng, version), "next": rng.choice((0, 5, 1_700_000_000_000, _NO_NEXT_REBALANCE))}


def read_in_python(what: str, data: bytes) -> dict[str, Any] | str | None:
    try:
        if what == "subscription":
            instance = read_instance(data)
            return {"processId": instance["process_id"], "endpoint": instance.get("endpoint")} if instance else None
        assigned = read_assigned_tasks(data)
    except MalformedRecord as error:
        return str(error)
    return {"standby": assigned["standby"], "next": assigned.get("next_rebalance_ms")} if assigned else None


def java_result(what: str, version: int, java: dict[str, Any]) -> dict[str, Any]:
    if what == "subscription":
        return {"processId": java["processId"], "endpoint": java["endpoint"] or None if version > 1 else None}
    standby: dict[str, set[int]] = {}
    for name, subtopology, partition in java["standby"]:
        standby.setdefault(f"{name}__{subtopology}" if name else str(subtopology), set()).add(partition)
    has_next_rebalance = version >= 7 and java["next"] != _NO_NEXT_REBALANCE
    return {
        "standby": {name: sorted(numbers) for name, numbers in sorted(standby.items())},
        "next": java["next"] if has_next_rebalance else None,
    }


@pytest.mark.parametrize("what", ["subscription", "assignment"])
def test_every_version_and_damaged_bytes_are_read_as_in_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, what: str
) -> None:
    rng = random.Random(441)
    versions = [rng.choice(_VERSIONS) for _ in range(oracle_cases)]
    written = oracle("current").ask(request(rng, what, version) for version in versions)
    whole = [b64decode(response["data"]) for response in written]
    cases = whole + [damaged_bytes(rng, data, head=4) for data in whole]
    answers = oracle("current").ask(
        {"family": "instance", "what": what, "data": b64encode(data).decode()} for data in cases
    )

    refused = 0
    for at, (data, java) in enumerate(zip(cases, answers, strict=True)):
        decoded, version = read_in_python(what, data), versions[at % len(versions)]
        if at < len(whole):
            assert decoded == java_result(what, version, java), (version, data.hex())
        elif isinstance(decoded, str):
            refused += 1
        elif "error" not in java and isinstance(decoded, dict):
            expected = java_result(what, version, java)
            # A time outside the calendar counts as missing.
            if what == "assignment" and decoded["next"] is None:
                expected["next"] = None
            assert decoded == expected, (version, data.hex())
    assert refused


@pytest.mark.parametrize("what", ["subscription", "assignment"])
def test_newer_streams_metadata_version_is_not_decoded(oracle: Callable[[str], Oracle], what: str) -> None:
    data = (12).to_bytes(4) + (13).to_bytes(4)
    (java,) = oracle("current").ask([{"family": "instance", "what": what, "data": b64encode(data).decode()}])

    assert read_in_python(what, data) is None
    assert java == {"version": 12} if what == "subscription" else "error" in java
