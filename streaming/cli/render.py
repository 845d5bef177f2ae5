"""Diffs for people: one block a round. Plain text in a pipe, colour in a terminal (rich decides)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from rich.console import Console
from rich.text import Text

from streaming.kafka.reader import DiffRecord
from streaming.wire.events import Diff, MemberDiff

_UUID = re.compile(r"-([0-9a-f]{4})[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
#: What brokers add to a reason when the client gave none.
_NO_REASON = re.compile(r" with group instance id null|; client reason: not provided")

#: Cause → the words for it, and its colour.
CAUSES: dict[str, tuple[str, str]] = {
    "member.joined": ("joined", "green"),
    "member.left": ("left", "yellow"),
    "member.fenced": ("was fenced", "red"),
    "member.subscription_changed": ("changed its subscription", "cyan"),
    "topic.partitions_changed": ("partitions changed", "cyan"),
    "group.deleted": ("group deleted", "red"),
}


def short_member(member_id: str) -> str:
    """A client's member id, also inside a text, without the tail of its UUID: ``c1-3f2a…``."""
    return _UUID.sub(r"-\1…", member_id)


def short_partitions(partitions: Sequence[int]) -> str:
    """Ascending partitions with runs joined: ``0-3,7``."""
    if not partitions:
        return ""
    starts = [partitions[0], *(b for a, b in pairwise(partitions) if b != a + 1)]
    ends = [*(a for a, b in pairwise(partitions) if b != a + 1), partitions[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def short_share(share: Mapping[str, Sequence[int]]) -> str:
    """``orders 0-2 · payments 1``."""
    return " · ".join(f"{topic} {short_partitions(p)}" for topic, p in sorted(share.items()) if p)


def _headline(diff: Diff) -> Text:
    words, colour = CAUSES.get(diff.cause.kind, (diff.cause.kind, "white"))
    members = ", ".join(short_member(m) for m in diff.cause.member_ids)
    count = f"generation {diff.generation}" if diff.generation is not None else f"epoch {diff.group_epoch}"
    at = datetime.fromtimestamp(diff.timestamp / 1000, tz=UTC).astimezone()
    line = Text()
    line.append(f"{at:%H:%M:%S} ", "dim")
    line.append(diff.group_id, "bold")
    line.append(f" {count}" + (f", round {diff.round}" if diff.round > 1 else ""), "dim")
    line.append(f"  {members} {words}".rstrip(), colour)
    line.append(f"  moved {diff.moved}" if diff.moved else "", "magenta")
    return line


def _member(member_id: str, member: MemberDiff, width: int) -> Text:
    line = Text(f"  {short_member(member_id):<{width}}")
    for sign, share, colour in (
        ("=", member.kept, "dim"),
        ("-", member.revoked, "red"),
        ("+", member.assigned, "green"),
    ):
        if any(share.values()):
            line.append(f"  {sign} {short_share(share)}", colour)
    if member.present is False:
        line.append("  gone", "dim")
    elif not (any(member.kept.values()) or any(member.revoked.values()) or any(member.assigned.values())):
        line.append("  nothing", "dim")
    return line


def diff_lines(diff: Diff) -> Iterator[Text]:
    """Who caused the round, then a line a member: ``=`` kept, ``-`` revoked, ``+`` assigned."""
    yield _headline(diff)
    reasons = (f"{e.reason} ({e.source})" for e in diff.cause.evidence)
    for reason in dict.fromkeys(short_member(_NO_REASON.sub("", reason)) for reason in reasons):
        yield Text(f"  why: {reason}", "dim italic")
    width = max((len(short_member(m)) for m in diff.members), default=0)
    for member_id, member in sorted(diff.members.items()):
        yield _member(member_id, member, width)
    if any(diff.unassigned.values()):
        yield Text(f"  nobody has {short_share(diff.unassigned)}", "yellow")
    for violation in diff.violations:
        yield Text(f"  violation: {violation}", "bold red")


def print_diffs(records: Iterable[DiffRecord], *, as_json: bool) -> None:
    """Each diff as it comes: its own bytes on a line for programs, a block for people."""
    console = Console(highlight=False, soft_wrap=True)
    for record in records:
        if as_json:
            sys.stdout.buffer.write(record.value + b"\n")
            sys.stdout.buffer.flush()
            continue
        for line in diff_lines(record.diff):
            console.print(line)
