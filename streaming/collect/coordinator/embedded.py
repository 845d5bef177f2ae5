"""Decodes consumers' metadata in classic group records: the embedded consumer protocol, which any client may write.

The layouts are those of ``ConsumerProtocolSubscription.json`` (v0 to v3) and ``ConsumerProtocolAssignment.json``.
The decoder refuses what Kafka's ``ConsumerProtocol`` refuses: a negative version, null topics, names or partitions, and
counts larger than the bytes. As in Kafka, a newer version is read as the newest known version, an empty rack as None,
and trailing bytes are ignored. Beyond Kafka, it refuses partitions below 0 and names that are not UTF-8.

The user data belongs to the assignor. For ``sticky`` it is the member's previous partitions and, from v1, their
generation (StickyAssignor), because an eager member owns nothing while it joins. For ``cooperative-sticky`` it is
the generation of the owned partitions, an int32 (CooperativeStickyAssignor since 3.0): a subscription below v2
has no field for it (KIP-792).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from streaming.collect.coordinator import streams_data
from streaming.collect.coordinator.schema import MalformedRecord, Reader, merged, strings, versioned
from streaming.records.events import Partitions

#: ``protocolType`` of consumer groups; Connect and other clients embed other data.
CONSUMER = "consumer"
#: The first versions of a subscription with a generation (KIP-792) and with a rack (KIP-881).
_WITH_GENERATION, _WITH_RACK = 2, 3


def read_subscription(data: bytes, protocol: str | None) -> dict[str, Any]:
    """Decode a subscription under an assignor into fields of ``ObservedMember``; empty bytes subscribe to nothing."""
    if not data:
        return {"topics": []}
    reader = versioned(data)
    topics, user_data = [*strings(reader, "topics")], reader.nullable_bytes("userData")
    owned: Partitions = {}
    generation, rack = -1, None
    # Some clients write version 1 without its field; Kafka's own leader refuses those.
    if reader.version >= 1 and reader.left:
        owned = _partitions(reader, "ownedPartitions")
        generation = reader.int32("generationId") if reader.version >= _WITH_GENERATION else -1
        rack = (reader.nullable_string("rackId") or None) if reader.version >= _WITH_RACK else None
    if protocol == "sticky" and user_data:
        # As StickyAssignor.deserializeTopicPartitionAssignment: malformed data means no owned partitions.
        owned, generation, assignor_data = {}, -1, Reader(user_data)
        with suppress(MalformedRecord):  # v0 has no generation
            owned = _partitions(assignor_data, "userData")
            generation = assignor_data.int32("userData.generation")
    elif protocol == "cooperative-sticky" and user_data and generation < 0:
        with suppress(MalformedRecord):
            generation = Reader(user_data).int32("userData.generation")
    fields = {"topics": topics, "owned": owned, "owned_generation": generation, "rack_id": rack}
    return fields | (streams_data.read_instance(user_data) if protocol == streams_data.STREAM else {})


def read_assignment(data: bytes, protocol: str | None) -> dict[str, Any]:
    """Decode an assignment under an assignor into fields of ``ObservedMember``; empty bytes assign nothing."""
    if not data:
        return {"assigned": {}}
    reader = versioned(data)
    assigned, user_data = _partitions(reader, "assignedPartitions"), reader.nullable_bytes("userData")
    tasks = streams_data.read_assigned_tasks(user_data) if protocol == streams_data.STREAM else {}
    return {"assigned": assigned} | tasks


def _partitions(reader: Reader, what: str) -> Partitions:
    """Read partitions by topic, topics and partitions ascending and unique; topics without partitions are omitted."""
    topics = reader.array(what, lambda: (reader.string(f"{what}.topic"), reader.partitions(f"{what}.partitions")))
    return merged(topics)
