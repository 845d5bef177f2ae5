"""The command ``owner``: the member that owns a partition in each group, since when, and the round that gave it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer
from msgspec import UNSET, Struct
from rich.table import Table

from assignors.errors import BadInput
from streaming.cli.diff_lines import CAUSES, short_member, utc
from streaming.cli.options import AsJson, OnlyGroup, connected, time_option
from streaming.cli.output import Progress, answer, warn_skipped
from streaming.kafka.diff_reader import DiffRecord, read_diffs
from streaming.process.terminal import SafeText, fold, rest, table, whole
from streaming.records.diffs import Cause
from streaming.records.events import MAX_TIMESTAMP
from streaming.records.names import called, worded
from streaming.settings.config import Settings

#: Moves that are kept, the newest of a group.
_MOST_MOVES: Final = 10

_Partition = Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="A partition, such as orders-17.")]
_At = Annotated[int | None, time_option("--at", "As of this time: RFC 3339, or milliseconds since the epoch.")]


class OwnerChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """A partition got other owners: in which round, when and why; ``names``: of all members that it names."""

    at: int
    id: str
    cause: Cause
    owners: list[str]
    before: list[str]
    names: dict[str, str]


class PartitionOwner(Struct, frozen=True, kw_only=True, rename="camel"):
    """Owners of a partition in one group; empty: there is none. Only share groups have several. Newest move first."""

    group_id: str
    topic: str
    partition: int
    owners: list[str]
    since: int
    moves: list[OwnerChange]


@connected("rebalance-monitor owner orders-17", "rebalance-monitor owner orders-17 --at 2026-01-31T09:14:00Z")
def owner(
    settings: Settings, partition: _Partition, *, group: OnlyGroup = None, at: _At = None, as_json: AsJson = False
) -> None:
    """Show which member of each group owns a partition, since when, and why it moved there. Reads all diffs."""
    topic, number = topic_partition(partition)
    with Progress("diffs read") as progress:

        def counted() -> Iterable[DiffRecord]:
            for record in read_diffs(
                settings, from_beginning=True, exit_at_end=True, group=group, on_malformed=warn_skipped
            ):
                progress.step()
                yield record

        owners = partition_owners(counted(), topic, number, MAX_TIMESTAMP if at is None else at)
    if not owners:
        raise BadInput(f"{partition}: no diff has it; `rebalance-monitor groups` lists all groups")
    answer(owners, [owner_table(owners)], as_json=as_json)


def topic_partition(text: str) -> tuple[str, int]:
    """Return ``orders-17`` as topic and number."""
    topic, dash, number = text.rpartition("-")
    if not topic or not dash or not (number.isascii() and number.isdigit()) or len(number) > len("2147483647"):
        raise BadInput(f"{text}: name a partition as TOPIC-PARTITION, such as orders-17")
    return topic, int(number)


def partition_owners(
    records: Iterable[DiffRecord], topic: str, partition: int, until_ms: int = MAX_TIMESTAMP
) -> list[PartitionOwner]:
    """Return who owns a partition, by group id, from diffs of which a group's are in order."""
    moves: dict[str, list[OwnerChange]] = {}
    for record in records:
        diff = record.diff
        if diff.timestamp > until_ms:
            continue
        own = moves.setdefault(diff.group_id, [])
        before = own[-1].owners if own else []
        # A diff that lists changed members alone says nothing of the others.
        stay = [] if diff.unchanged is UNSET else [member for member in before if member not in diff.members]
        holders = [
            member_id
            for member_id, member in diff.members.items()
            if partition in member.assigned.get(topic, ()) or partition in member.kept.get(topic, ())
        ]
        if (owners := [*stay, *holders]) != before:
            names = called(diff.named)
            concerned = {*owners, *before, *diff.cause.member_ids}
            own.append(
                OwnerChange(
                    at=diff.timestamp,
                    id=record.id,
                    cause=diff.cause,
                    owners=owners,
                    before=before,
                    names={member_id: names[member_id] for member_id in concerned & names.keys()},
                )
            )
    return [
        PartitionOwner(
            group_id=group_id,
            topic=topic,
            partition=partition,
            owners=own[-1].owners,
            since=own[-1].at,
            moves=own[: -_MOST_MOVES - 1 : -1],
        )
        for group_id, own in sorted(moves.items())
        if own
    ]


def owner_table(owners: Iterable[PartitionOwner]) -> Table:
    """Return a table with a row a group: its owner, since when, from whom and why."""
    rows = []
    for group in owners:
        last = group.moves[0]
        reasons = dict.fromkeys(item.reason for item in last.cause.evidence if item.reason)
        words, _ = CAUSES.get(last.cause.kind, (last.cause.kind, ""))
        cause = f"{_listed(last.cause.member_ids, last.names)} {words}".strip()
        name = SafeText(_listed(group.owners, last.names) or "nobody", "" if group.owners else "bold red")
        before = _listed(last.before, last.names) or "nobody"
        why = ": ".join([cause, *(worded(reason, last.names) for reason in reasons)])
        rows.append((SafeText(group.group_id, "bold"), name, utc(group.since), before, why))
    return table((fold("group"), fold("owner"), whole("since"), fold("before"), rest("why")), rows)


def _listed(member_ids: Iterable[str], names: dict[str, str]) -> str:
    return ", ".join(short_member(names.get(member_id, member_id)) for member_id in member_ids)
