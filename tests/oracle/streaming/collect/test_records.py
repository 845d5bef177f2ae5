"""Decoding of intact and damaged records of KIP-848, share and Streams groups, compared with Kafka 4.3.1."""

import random
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import UNSET

from streaming.collect.coordinator.modern import GroupRecordPart, MemberMetadata
from streaming.collect.coordinator.records import decode
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.records.events import ObservedMember
from tests.oracle.driver import Oracle
from tests.oracle.streaming.collect.damage import damaged_bytes

#: Record type → (function that creates a value, expected decoded value).
MakeRecord = Callable[[random.Random], tuple[dict[str, Any], Any]]
TOPIC_IDS = ("lN6DbMY5RVisUxJOfQo_Yg", "5a0scAsoRdS8Ki4XL0hedw")


def text(rng: random.Random) -> str:
    return rng.choice(("", "c", "grüße", "x" * 200))


def partitions(rng: random.Random) -> list[int]:
    return rng.sample(range(300), rng.randrange(4))


def random_topics(rng: random.Random) -> list[dict[str, Any]]:
    return [{"topicId": topic, "partitions": partitions(rng)} for topic in rng.sample(TOPIC_IDS, rng.randrange(3))]


def tasks(rng: random.Random, *, epochs: bool = False) -> list[dict[str, Any]]:
    members = []
    for name in rng.sample("012", rng.randrange(3)):
        numbers = partitions(rng)
        more = {"assignmentEpochs": [4] * len(numbers)} if epochs and rng.random() < 0.5 else {}
        members.append({"subtopologyId": name, "partitions": numbers, **more})
    return members


def ids(entries: list[dict[str, Any]]) -> dict[str, tuple[int, ...]]:
    return {entry["topicId"]: tuple(sorted(entry["partitions"])) for entry in entries}


def roles(entries: list[dict[str, Any]]) -> dict[str, tuple[int, ...]]:
    return {entry["subtopologyId"]: tuple(sorted(entry["partitions"])) for entry in entries}


def epoch(rng: random.Random) -> tuple[dict[str, Any], Any]:
    number = rng.randrange(2**31)
    return {"epoch": number, "metadataHash": rng.randrange(-(2**63), 2**63)}, number


def target_epoch(rng: random.Random) -> tuple[dict[str, Any], Any]:
    number = rng.randrange(2**31)
    return {"assignmentEpoch": number, "assignmentTimestamp": rng.choice((0, 1_700_000_000_000))}, number


def target(rng: random.Random) -> tuple[dict[str, Any], Any]:
    entries = random_topics(rng)
    return {"topicPartitions": entries}, ids(entries)


def metadata(
    regex: str | None = None, server_assignor: str | None = None, topics: Sequence[str] = (), **identity: Any
) -> MemberMetadata:
    member = ObservedMember(member_id="", topics=[*topics], assigned={}, **identity)
    return MemberMetadata(member, regex, server_assignor)


def consumer(rng: random.Random) -> tuple[dict[str, Any], Any]:
    value: dict[str, Any] = {
        "instanceId": rng.choice((None, "i")),
        "rackId": rng.choice((None, "r")),
        "clientId": text(rng),
        "clientHost": text(rng),
        "subscribedTopicNames": rng.sample("tuv", rng.randrange(3)),
        "subscribedTopicRegex": rng.choice((None, "t.*")),
        "rebalanceTimeoutMs": rng.randrange(-1, 2**31),
        "serverAssignor": rng.choice((None, "range")),
    }
    timeout = rng.choice((None, 6000))
    if timeout is not None:
        value["classicMemberMetadata"] = {
            "sessionTimeoutMs": timeout,
            "supportedProtocols": [{"name": "range", "metadata": b64encode(b"m").decode()}],
        }
    expected = {
        "group_instance_id": value["instanceId"],
        "rack_id": value["rackId"],
        "client_id": value["clientId"],
        "client_host": value["clientHost"],
        "topics": value["subscribedTopicNames"],
        "regex": value["subscribedTopicRegex"],
        "rebalance_timeout_ms": value["rebalanceTimeoutMs"],
        "server_assignor": value["serverAssignor"],
        "session_timeout_ms": timeout,
    }
    return value, metadata(**expected)


def current(rng: random.Random) -> tuple[dict[str, Any], Any]:
    value, expected = random_tasks(rng)
    entries = random_topics(rng)
    return value | {"partitionsPendingRevocation": entries}, expected | {"pending_revocation": ids(entries)}


def random_tasks(rng: random.Random) -> tuple[dict[str, Any], Any]:
    entries, now = random_topics(rng), rng.randrange(2**31)
    value = {"memberEpoch": now, "previousMemberEpoch": 3, "state": 0, "assignedPartitions": entries}
    return value, {"member_epoch": now, "previous_member_epoch": 3, "state": "STABLE", "active": ids(entries)}


def share_group_record(rng: random.Random) -> tuple[dict[str, Any], Any]:
    topics, rack, client = rng.sample("tuv", rng.randrange(3)), rng.choice((None, "r")), text(rng)
    value = {"rackId": rack, "clientId": client, "clientHost": "/h", "subscribedTopicNames": topics}
    return value, metadata(rack_id=rack, client_id=client, client_host="/h", topics=topics)


def streams_epoch(rng: random.Random) -> tuple[dict[str, Any], Any]:
    value, number = epoch(rng)
    validated = rng.choice((-1, 0, 7))
    configs = rng.choice((None, [], [{"key": "num.standby.replicas", "value": "1"}]))
    more = {"validatedTopologyEpoch": validated, "lastAssignmentConfigs": configs}
    return value | more, {"number": number, "validated_topology": validated}


def streams_member(rng: random.Random) -> tuple[dict[str, Any], Any]:
    port = rng.randrange(65_536)
    endpoint = rng.choice((None, {"host": "h", "port": port}))
    value = {
        "instanceId": rng.choice((None, "i")),
        "rackId": rng.choice((None, "r")),
        "clientId": text(rng),
        "clientHost": "/h",
        "rebalanceTimeoutMs": 5,
        "topologyEpoch": 0,
        "processId": text(rng),
        "userEndpoint": endpoint,
        "clientTags": [{"key": "k", "value": "v"}] * rng.randrange(2),
    }
    return value, metadata(
        group_instance_id=value["instanceId"],
        rack_id=value["rackId"],
        client_id=value["clientId"],
        client_host="/h",
        rebalance_timeout_ms=5,
        process_id=value["processId"],
        endpoint=UNSET if endpoint is None else f"h:{port}",
    )


def random_streams_target(rng: random.Random) -> tuple[dict[str, Any], Any]:
    active, standby, warmup = (tasks(rng) for _ in range(3))
    value = {"activeTasks": active, "standbyTasks": standby, "warmupTasks": warmup}
    return value, roles(active)


def streams_current(rng: random.Random) -> tuple[dict[str, Any], Any]:
    active, pending = tasks(rng, epochs=True), tasks(rng, epochs=True)
    standby, warmup, state = tasks(rng), tasks(rng), rng.choice((1, 2, 3))
    value = {
        "memberEpoch": 5,
        "previousMemberEpoch": 4,
        "state": state,
        "activeTasks": active,
        "standbyTasks": standby,
        "warmupTasks": warmup,
        "activeTasksPendingRevocation": pending,
        "standbyTasksPendingRevocation": tasks(rng),
        "warmupTasksPendingRevocation": tasks(rng),
    }
    return value, {
        "member_epoch": 5,
        "previous_member_epoch": 4,
        "state": {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}[state],
        "active": roles(active),
        "standby": roles(standby),
        "warmup": roles(warmup),
        "pending_revocation": roles(pending),
    }


def topology(rng: random.Random) -> tuple[dict[str, Any], Any]:
    read: set[str] = set()

    def info(name: str) -> dict[str, Any]:
        configs = [{"key": "retention.ms", "value": "-1"}] * rng.randrange(2)
        return {"name": name, "partitions": rng.randrange(4), "replicationFactor": -1, "topicConfigs": configs}

    def subtopology(number: int) -> dict[str, Any]:
        sources, inner = rng.sample("tuv", rng.randrange(3)), rng.sample(("r1", "r2"), rng.randrange(3))
        read.update(sources, inner)
        return {
            "subtopologyId": str(number),
            "sourceTopics": sources,
            "sourceTopicRegex": ["x.*"] * rng.randrange(2),
            "stateChangelogTopics": [info("log")] * rng.randrange(2),
            "repartitionSinkTopics": ["r1"] * rng.randrange(2),
            "repartitionSourceTopics": [info(name) for name in inner],
            "copartitionGroups": [{"sourceTopics": [0, 1], "sourceTopicRegex": [], "repartitionSourceTopics": [0]}]
            * rng.randrange(2),
        }

    value = {"epoch": 0, "subtopologies": [subtopology(number) for number in range(rng.randrange(4))]}
    return value, {"epoch": 0, "topics": tuple(sorted(read))}


def pattern(rng: random.Random) -> tuple[dict[str, Any], Any]:
    topics = rng.sample("tuv", rng.randrange(4))
    return {"topics": topics, "version": 5, "timestamp": 6}, tuple(topics)


RECORD_MAKERS: dict[int, MakeRecord] = {
    3: epoch,
    5: consumer,
    6: target_epoch,
    7: target,
    8: current,
    10: share_group_record,
    11: epoch,
    12: target_epoch,
    13: target,
    14: random_tasks,
    16: pattern,
    17: streams_epoch,
    19: streams_member,
    20: target_epoch,
    21: random_streams_target,
    22: streams_current,
    23: topology,
}


def key(number: int) -> dict[str, Any]:
    more = {16: {"regularExpression": "t.*"}}.get(number, {"memberId": "m"})
    return {"groupId": "g", **({} if number in (3, 6, 11, 12, 17, 20, 23) else more)}


@pytest.mark.parametrize("number", RECORD_MAKERS)
def test_coordinator_records_are_decoded_or_refused(
    oracle: Callable[[str], Oracle], oracle_cases: int, number: int
) -> None:
    rng = random.Random(number)
    made = [RECORD_MAKERS[number](rng) for _ in range(oracle_cases // 3)]
    base = {"family": "records", "type": number, "key": key(number), "version": 0}
    written = oracle("current").ask(base | {"value": value} for value, _ in made)
    assert not [record for record in written if "error" in record]
    keys = [b64decode(record["keyBytes"]) for record in written]
    values = [b64decode(record["valueBytes"]) for record in written]

    for (_, expected), key_bytes, value in zip(made, keys, values, strict=True):
        record = decode(key_bytes, value)
        assert isinstance(record, GroupRecordPart)
        wanted = type(record.value)(**expected) if isinstance(expected, dict) else expected
        assert (record.group_id, record.value) == ("g", wanted)

    damaged_values = [damaged_bytes(rng, value) for value in values]
    answers = oracle("current").ask(
        {"family": "records", "keyBytes": b64encode(keys[0]).decode(), "valueBytes": b64encode(data).decode()}
        for data in damaged_values
    )
    refused = {data: refusal(keys[0], data) for data in damaged_values}
    # Such partitions and names do not exist in Kafka, and the size of a tagged field determines its end.
    java_limit_errors = (
        "is not a partition number",
        "not UTF-8",
        "tagged field",
        "validatedTopologyEpoch",
        "classicMemberMetadata",
    )
    for data, java in zip(damaged_values, answers, strict=True):
        error = refused[data]
        if error is not None and not any(part in error for part in java_limit_errors):
            assert "error" in java, (data.hex(), error)
    assert any(refused.values())


def refusal(key_bytes: bytes, data: bytes) -> str | None:
    """Return the reason why the decoder rejects a record's value; None if it accepts the value."""
    try:
        decode(key_bytes, data)
    except MalformedRecord as error:
        return str(error)
    return None
