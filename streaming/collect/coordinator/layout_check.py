"""Detects that ``__consumer_offsets`` has another system's record layout."""

from typing import Final

from assignors.errors import MonitorError, OutsideFailure
from streaming.collect.coordinator.classic import GROUP_FIELDS, MEMBER_FIELDS
from streaming.collect.coordinator.schema import Field, MalformedMember, MalformedRecord, Reader, read_fields, structs

#: If so many first records are unusable, the layout is another system's.
_MAX_UNUSABLE_RECORDS: Final = 20
#: ``group_metadata_value`` and ``member_state`` of Redpanda (src/v/kafka/server/group_metadata.cc): Kafka's version 3
#: with a version before each member.
_REDPANDA_VERSION: Final = 3
_REDPANDA_LAYOUT: Final = (
    *GROUP_FIELDS,
    Field("members", structs(Field("version", Reader.int16, "version"), *MEMBER_FIELDS), "members"),
)


class ForeignLayout(OutsideFailure):
    """The offsets topic was not written by Apache Kafka's group coordinator."""


def is_redpanda(value: bytes) -> bool:
    """True if the bytes are exactly one generation with members in Redpanda's layout."""
    reader = Reader(value)
    try:
        reader.version = reader.int16("version")
        if reader.version != _REDPANDA_VERSION:
            return False
        members = read_fields(reader, "group_metadata_value", _REDPANDA_LAYOUT)["members"]
    except MalformedRecord:
        return False
    return not reader.bytes_left and any(member["version"] == _REDPANDA_VERSION for member in members)


class LayoutCheck:
    """Checks that a topic's group records have Kafka's layout."""

    def __init__(self) -> None:
        self._unusable_count = 0
        self._is_kafka = False

    def mark_used(self) -> None:
        """Record that the topic has Kafka's layout, because a group record could be decoded."""
        self._is_kafka = True

    def refused(self, key: bytes | None, value: bytes | None, error: MonitorError) -> None:
        """Count an unusable group record; raise ForeignLayout if another system wrote the topic."""
        is_generation = key is not None and key[:2] == b"\x00\x02"  # of a classic group
        if is_generation and value is not None and is_redpanda(value):
            raise _layout_error("the group records are in Redpanda's layout")
        if self._is_kafka or isinstance(error, MalformedMember):
            return
        self._unusable_count += 1
        if self._unusable_count >= _MAX_UNUSABLE_RECORDS:
            raise _layout_error(f"the first {self._unusable_count} group records are not in Kafka's layout")


def _layout_error(difference: str) -> ForeignLayout:
    return ForeignLayout(f"__consumer_offsets was not written by Apache Kafka ({difference}): use --by polling")
