"""The output of Kafka's tools: ``kafka-consumer-groups.sh --describe --members`` and ``kafka-dump-log.sh``."""

from __future__ import annotations

import re
from typing import Any, Final

from streaming.episodes.identity import MemberIdentity
from streaming.explain.clients import read_json
from streaming.explain.events import LogEvent, MemberListing
from streaming.records.events import Holding

#: A record of ``__consumer_offsets`` as ``--offsets-decoder`` prints it, of 4.0 on and before.
_RECORD: Final = re.compile(
    r"CreateTime: (?P<ms>\d+) .*?key: (?:(?P<key>\{.*?\}\})|group_metadata::group=(?P<group>\S+)) "
    r"payload: (?P<payload>\{.*)"
)
_GROUP_METADATA: Final = "2"


class MemberTable:
    """Reads the table of ``--describe --members``, row by row behind its header."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def header(self, line: str) -> bool:
        """Return whether a line is the header of a table of members; its rows follow."""
        columns = line.split()
        self._columns = columns if {"GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID"} <= {*columns} else []
        return bool(self._columns)

    def row(self, line: str) -> LogEvent | None:
        """Return the member in a row; None: the table has ended, or nobody has the partition of this row."""
        cells = line.split()
        if len(cells) < self._columns.index("CLIENT-ID") + 1:
            self._columns = []
            return None
        value = dict(zip(self._columns, cells, strict=False))
        member = value["CONSUMER-ID"]
        if member == "-":
            return None
        instance = value.get("GROUP-INSTANCE-ID")
        who = MemberIdentity(value["CLIENT-ID"], value["HOST"], None if instance in (None, "-") else instance)
        listing = MemberListing(source="kafka-consumer-groups", members={member: who})
        return LogEvent(group_id=value["GROUP"], at=-1, listing=listing)

    @property
    def is_open(self) -> bool:
        """True if rows may follow."""
        return bool(self._columns)


def read_dump(line: str) -> LogEvent | None:
    """Return the generation in a line of ``kafka-dump-log.sh``; None: it is no group's metadata."""
    found = _RECORD.search(line)
    if found is None:
        return None
    value: dict[str, Any] = read_json(found["payload"])
    group = found["group"]
    if found["key"]:
        key: dict[str, Any] = read_json(found["key"])
        if key.get("type") != _GROUP_METADATA:
            return None
        group, value = key["data"].get("group"), value.get("data", {})
    members = value.get("members")
    number = value.get("generation", value.get("generationId"))
    if not group or not isinstance(number, int) or not isinstance(members, list):
        return None
    kind = "connect" if value.get("protocolType") == "connect" else "consumer"
    listing = MemberListing(
        source="kafka-dump-log",
        members={
            one["memberId"]: MemberIdentity(
                one.get("clientId"), one.get("clientHost"), one.get("groupInstanceId")
            )
            for one in members
        },
        shares={
            one["memberId"]: share for one in members if (share := _share(one.get("assignment"))) is not None
        },
        number=number,
        assignor=value.get("protocol"),
        group_kind=kind,
    )
    return LogEvent(group_id=group, at=int(found["ms"]), listing=listing, size=len(members))


def _share(assignment: object) -> Holding | None:
    if not isinstance(assignment, dict):
        return None  # bytes that the tool did not decode
    return {one["topic"]: one["partitions"] for one in assignment.get("assignedPartitions", ())}
