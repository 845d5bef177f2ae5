"""Parsers of the output of ``kafka-consumer-groups.sh --describe --members`` and ``kafka-dump-log.sh``."""

import re
from itertools import pairwise
from typing import Any, Final

from streaming.collect.broker_log.layouts import read_json
from streaming.explain.clients import parse_partitions
from streaming.explain.events import LogEvent, MemberListing
from streaming.records.diffs import MemberNames
from streaming.records.events import Evidence

#: A record of ``__consumer_offsets`` as ``--offsets-decoder`` prints it, in Kafka 4.0 and later, and before 4.0.
_DUMPED_RECORD: Final = re.compile(
    r"CreateTime: (?P<ms>\d+) .*?key: (?:(?P<key>\{.*?\}\})|group_metadata::group=(?P<group>.+?)) "
    r"payload: (?P<payload>\{.*|<DELETE>)"
)
#: Types of records: a classic group, and the epoch and a member of a group of the consumer protocol (KIP-848).
_GROUP_METADATA: Final = "2"
_EPOCH: Final = "3"
_MEMBER: Final = "5"
_DELETED_REASON: Final = "the member's record was deleted, after a leave or the end of its session"


class MemberTable:
    """Reads the table that ``--describe --members`` prints, row by row after the table's header."""

    def __init__(self) -> None:
        #: Names of the columns, and where they begin; empty unless further rows of a table may follow.
        self.columns: dict[str, int] = {}

    def header(self, line: str) -> bool:
        """Return True if a line is the header of a table of members, whose rows follow."""
        columns = {column[0]: column.start() for column in re.finditer(r"\S+", line)}
        self.columns = columns if {"GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID"} <= {*columns} else {}
        return bool(self.columns)

    def _split_cells(self, line: str) -> list[str]:
        """Return the cells of a table row; cells may contain blanks if the row is aligned with the header."""
        column_begins = [*self.columns.values()]
        is_aligned = all(re.match(r"\s\S|$", line[begin - 1 :]) for begin in column_begins[1:])
        return [line[slice(*cell)].strip() for cell in pairwise([*column_begins, None])] if is_aligned else line.split()

    def row(self, line: str) -> LogEvent | None:
        """Return the event of a member in a table row; None after the table, or for a partition without a consumer."""
        cells = self._split_cells(line)
        if len(cells) < [*self.columns].index("CLIENT-ID") + 1 or "CONSUMER-ID" in cells:
            self.columns = {}
            return None
        value = dict(zip(self.columns, cells, strict=False))
        member = value["CONSUMER-ID"]
        if member == "-" or not value["HOST"].startswith("/"):
            return None
        instance = value.get("GROUP-INSTANCE-ID")
        who = MemberNames(value["CLIENT-ID"], value["HOST"], None if instance in (None, "-") else instance)
        return LogEvent(group_id=value["GROUP"], at=-1, listing=MemberListing(members={member: who}))


class DumpReader:
    """Reads the records of groups in the output of ``kafka-dump-log.sh``, one record per line.

    A classic group has one record per generation. A group of the consumer protocol has one record per member, followed
    by the record of the group's epoch.
    """

    def __init__(self) -> None:
        self._members: dict[str, dict[str, MemberNames]] = {}
        self._departed_by_group: dict[str, list[str]] = {}

    def read(self, line: str) -> LogEvent | None:
        """Read a line of a log dump; return the generation or epoch that it completes, with its members, or None."""
        match = _DUMPED_RECORD.search(line)
        if match is None:
            return None
        value = read_json(match["payload"])
        if not match["key"]:
            return _generation(match["group"], value, int(match["ms"]))
        record = read_json(match["key"])
        key, value = record.get("data", {}), value.get("data", {})
        kind, group = record.get("type"), key.get("groupId", key.get("group"))
        if kind == _GROUP_METADATA:
            return _generation(group, value, int(match["ms"]))
        if kind == _MEMBER and isinstance(group, str):
            self._set_member(group, key.get("memberId", ""), value)
        elif kind == _EPOCH and isinstance(group, str):
            return self._epoch(group, value.get("epoch"), int(match["ms"]))
        return None

    def _set_member(self, group: str, member_id: str, value: dict[str, Any]) -> None:
        members = self._members.setdefault(group, {})
        if value:
            members[member_id] = _names(value, "instanceId")
        elif members.pop(member_id, None) is not None:
            self._departed_by_group.setdefault(group, []).append(member_id)

    def _epoch(self, group: str, epoch: object, at: int) -> LogEvent | None:
        departed = self._departed_by_group.pop(group, [])
        if not isinstance(epoch, int):  # A record without a value means that the group was deleted.
            self._members.pop(group, None)
            return None
        item = Evidence(source="kafka-dump-log", reason=_DELETED_REASON, member_ids=departed, kind="group.observed")
        members = {**self._members.get(group, {})}
        listing = MemberListing(members=members, number=epoch, protocol="consumer", evidence=[item] if departed else [])
        return LogEvent(group_id=group, at=at, listing=listing)


def _generation(group: object, value: dict[str, Any], at: int) -> LogEvent | None:
    members, shares = value.get("members"), parse_partitions(str(value.get("assignment", "")))
    number = value.get("generation", value.get("generationId"))
    if not isinstance(members, list) and value.get("protocolType") == "consumer":  # before 3.9
        members = [{"memberId": member} for member in shares]
    if not isinstance(group, str) or not isinstance(number, int) or not isinstance(members, list):
        return None
    listing = MemberListing(
        members={member["memberId"]: _names(member, "groupInstanceId") for member in members},
        shares=shares
        | {
            member["memberId"]: {entry["topic"]: entry["partitions"] for entry in listed.get("assignedPartitions", ())}
            for member in members
            if isinstance(listed := member.get("assignment"), dict)  # else the tool did not decode these bytes
        },
        number=number,
        assignor=value.get("protocol"),
        group_kind="connect" if value.get("protocolType") == "connect" else "consumer",
    )
    return LogEvent(group_id=group, at=at, listing=listing)


def _names(member: dict[str, Any], instance: str) -> MemberNames:
    return MemberNames(member.get("clientId"), member.get("clientHost"), member.get(instance))
