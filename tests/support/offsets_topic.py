"""Records of ``__consumer_offsets``, captured from a real broker or handwritten in Kafka's encoding."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from pathlib import Path
from struct import pack

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from streaming.collect.coordinator.records import RawRecord

GOLDEN = Path(__file__).parents[1] / "golden/collect"
#: Record types of KIP-848 groups: ConsumerGroupMetadata, …MemberMetadata, …TargetAssignmentMetadata,
#: …TargetAssignmentMember and …CurrentMemberAssignment.
EPOCH, METADATA, TARGET_EPOCH, TARGET, MEMBER_STATE = 3, 5, 6, 7, 8
#: Captured records of Connect, Streams and share groups.
KINDS = ("connect", "streams-classic", "streams", "share")


def captured_records(name: str = "offsets-topic-4.3.1.jsonl") -> dict[int, list[RawRecord]]:
    """Return the captured records by partition (see ``tests/golden/collect/README.md``)."""
    rows: dict[int, list[RawRecord]] = {}
    for line in (GOLDEN / name).read_text().splitlines():
        entry = json.loads(line)
        value = None if entry["value"] is None else bytes.fromhex(entry["value"])
        row = RawRecord(entry["partition"], entry["offset"], entry["timestamp"], bytes.fromhex(entry["key"]), value)
        rows.setdefault(entry["partition"], []).append(row)
    return rows


def captured_records_of_kind(kind: str) -> list[RawRecord]:
    """Return the captured records of one group of this kind (one of :data:`KINDS`)."""
    return [row for rows in captured_records(f"{kind}-4.3.1.jsonl").values() for row in rows]


def string(text: str | None) -> bytes:
    """Encode a nullable string as non-flexible message versions do."""
    return b"\xff\xff" if text is None else pack(">h", len(text.encode())) + text.encode()


def prefixed(data: bytes) -> bytes:
    """Encode bytes with their length as non-flexible message versions do."""
    return pack(">i", len(data)) + data


def compact_bytes(data: bytes | str | None) -> bytes:
    """Encode a short nullable string, or bytes, as flexible message versions do."""
    if data is None:
        return b"\x00"
    raw = data.encode() if isinstance(data, str) else data
    return _varint(len(raw) + 1) + raw


def elements(*items: bytes) -> bytes:
    """Encode an array of encoded elements as flexible message versions do."""
    return _varint(len(items) + 1) + b"".join(items)


def topic_partitions(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Encode pairs of topic id (in Kafka's text format) and partition number as an array of topics."""
    by_topic: dict[str, list[int]] = {}
    for topic_id, number in partitions:
        by_topic.setdefault(topic_id, []).append(number)
    return elements(
        *(
            urlsafe_b64decode(f"{topic_id}==") + elements(*(pack(">i", number) for number in numbers)) + b"\0"
            for topic_id, numbers in by_topic.items()
        )
    )


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def subscription(topics: list[str], owned: dict[str, list[int]] | None = None, **fields: object) -> bytes:
    """Encode a ConsumerProtocolSubscription v3."""
    entry = ConsumerProtocolSubscription.TopicPartition
    return ConsumerProtocolSubscription(
        version=3,
        topics=topics,
        user_data=fields.get("user_data"),
        owned_partitions=[entry(topic=t, partitions=p) for t, p in (owned or {}).items()],
        generation_id=fields.get("generation", -1),
        rack_id=fields.get("rack"),
    ).encode(version=3)


def assignment(partitions: dict[str, list[int]], user_data: bytes | None = None) -> bytes:
    """Encode a ConsumerProtocolAssignment v1."""
    entry = ConsumerProtocolAssignment.TopicPartition
    return ConsumerProtocolAssignment(
        version=1,
        assigned_partitions=[entry(topic=t, partitions=p) for t, p in partitions.items()],
        user_data=user_data,
    ).encode(version=1)


def worker(owned: dict[str, list[int]] | None, url: str = "http://w:8083/") -> bytes:
    """Return a Connect worker's metadata of the incremental protocols; ``owned`` is None for a first join."""
    allocation = pack(">i", -1) if owned is None else prefixed(work(owned))
    return pack(">h", 2) + string(url) + pack(">q", 5) + allocation


def work(assigned: dict[str, list[int]], revoked: dict[str, list[int]] | None = None, delay_ms: int = 0) -> bytes:
    """Encode a worker's assignment of Connect's incremental protocols."""
    leader = pack(">hh", 2, 0) + string("leader") + string("http://w:8083/") + pack(">q", 5)
    return leader + _tasks(assigned) + _tasks(revoked or {}) + pack(">i", delay_ms)


def _tasks(share: dict[str, list[int]]) -> bytes:
    connectors = [string(name) + pack(f">i{len(tasks)}i", len(tasks), *tasks) for name, tasks in share.items()]
    return pack(">i", len(connectors)) + b"".join(connectors)


def group_key(group_id: str) -> bytes:
    """Encode the key of a classic group's record."""
    return pack(">h", 2) + string(group_id)


def commit_key(group_id: str, topic: str, partition: int) -> bytes:
    return pack(">h", 1) + string(group_id) + string(topic) + pack(">i", partition)


def commit_value(timestamp: int, version: int = 3, offset: int = 42) -> bytes:
    """Encode the value of an offset commit."""
    leader_epoch = pack(">i", 5) if version >= 3 else b""
    if version >= 4:
        return pack(">hq", version, offset) + leader_epoch + compact_bytes("") + pack(">q", timestamp) + b"\x00"
    expiry_timestamp = pack(">q", timestamp + 1) if version == 1 else b""
    return pack(">hq", version, offset) + leader_epoch + string("") + pack(">q", timestamp) + expiry_timestamp


def group_bytes(
    generation: int,
    members: dict[str, tuple[bytes, bytes]],
    *,
    version: int = 3,
    protocol: str | None = "range",
    instances: dict[str, str] | None = None,
    protocol_type: str = "consumer",
) -> bytes:
    """Encode a GroupMetadataValue; ``members``: id → subscription and assignment bytes."""
    flexible = version >= 4
    text = compact_bytes if flexible else string
    data = pack(">h", version) + text(protocol_type) + pack(">i", generation) + text(protocol)
    data += text(next(iter(members), None))
    data += pack(">q", 1000) if version >= 2 else b""
    data += _varint(len(members) + 1) if flexible else pack(">i", len(members))
    for member_id, (metadata, assigned) in members.items():
        data += text(member_id)
        data += text((instances or {}).get(member_id)) if version >= 3 else b""
        data += text(f"client-{member_id}") + text("/127.0.0.1")
        data += pack(">i", 300_000) if version >= 1 else b""
        data += pack(">i", 10_000)
        data += (
            compact_bytes(metadata) + compact_bytes(assigned) + b"\x00"
            if flexible
            else prefixed(metadata) + prefixed(assigned)
        )
    return data + (b"\x00" if flexible else b"")
