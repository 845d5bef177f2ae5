"""Formats diffs, members, times and partitions as lines of text for people; only terminals get colours."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from streaming.cli.output import json_lines
from streaming.episodes.status import GroupStatus
from streaming.process import escape_unprintable
from streaming.process.terminal import SafeText, console
from streaming.records.codec import raw_json, rfc3339
from streaming.records.diffs import Diff, MemberDiff
from streaming.records.episodes import Episode
from streaming.records.events import COMPARISON, PROBING, Evidence
from streaming.records.names import display_names, shorten_random_id, with_display_names

if TYPE_CHECKING:
    from streaming.kafka.diff_reader import DiffRecord

#: Text that brokers log in place of an absent instance id or client reason.
_EMPTY_REASON = re.compile(r" with group instance id null|; client reason: not provided")
#: Kind of a cause → its text and colour.
CAUSES: dict[str, tuple[str, str]] = {
    "member.joined": ("joined", "green"),
    "member.left": ("left", "yellow"),
    "member.fenced": ("was fenced", "red"),
    "member.subscription_changed": ("changed its subscription", "cyan"),
    "topic.partitions_changed": ("partitions changed", "cyan"),
    PROBING: ("probing rebalance", "cyan"),
    "group.deleted": ("group deleted", "red"),
}


def cause_text(kind: str, who: str = "") -> str:
    """Return the kind of a cause, and who caused it, as ``c1 joined``."""
    words, _ = CAUSES.get(kind, (kind, ""))
    return f"{who} {words}".strip()


def short_member(member_id: str) -> str:
    """Return a member id or a reason as printable text: UUIDs shortened (``c1-3f2a…``), without empty reasons."""
    return shorten_random_id(escape_unprintable(_EMPTY_REASON.sub("", member_id)))


def partition_counts_text(share: Mapping[str, Sequence[int]]) -> str:
    """Return partitions of all topics as text: ``orders 0-2 · payments 1``."""
    return " · ".join(f"{topic} {partition_runs(p)}" for topic, p in sorted(share.items()) if p)


def share_text(share: Mapping[str, Sequence[int]]) -> str:
    """Return partitions of all topics as text: ``t0:0-3,7 t1:0``."""
    return " ".join(f"{topic}:{partition_runs(p)}" for topic, p in sorted(share.items()) if p)


def partition_runs(partitions: Sequence[int]) -> str:
    """Return partitions as ranges: ``0-3,7``. A connector itself (-1) stays separate: ``-1,0-3``."""
    ordered = sorted(partitions)
    gaps = [(a, b) for a, b in pairwise(ordered) if b != a + 1 or a < 0]
    starts = ordered[:1] + [b for _, b in gaps]
    ends = [a for a, _ in gaps] + ordered[-1:]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def clock(timestamp: int) -> str:
    """Return the local time of day of a timestamp; a timestamp outside the calendar is returned as a number."""
    try:
        return f"{datetime.fromtimestamp(timestamp / 1000, tz=UTC).astimezone():%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(timestamp)


def to_utc(timestamp: int) -> str:
    """Return a timestamp (ms) as text: ``2026-01-31 09:14:00 UTC``."""
    text = rfc3339(timestamp)
    return f"{text[:10]} {text[11:19]} UTC"


#: Status of a group or an episode → the status's colour.
_STATUS_COLOURS: Final[Mapping[str, str]] = {
    "rebalancing": "bold yellow",
    **dict.fromkeys(("stuck", "storming"), "bold red"),
    **dict.fromkeys(("settling", "catching-up"), "cyan"),
    **dict.fromkeys(("settled", "stable"), "green"),
    **dict.fromkeys(("empty", "dead"), "dim"),
}


def status_word(status: str) -> SafeText:
    """Return a status as text in the colour of this status."""
    return SafeText(status, _STATUS_COLOURS.get(status, ""))


_DAY_MS: Final = 86_400_000
#: The most members that the text of a status names.
_MAX_AWAITED_MEMBERS: Final = 3


def _removal_times(episode: Episode | None) -> dict[str, int]:
    """Return the time (ms) at which each awaited member will be removed, where the time is known."""
    if episode is None:
        return {}
    times = {wait.member_id: wait.until for wait in episode.waiting_for if wait.member_id and wait.until is not None}
    return times if episode.rebalancing is None else times | episode.rebalancing.until


def status_text(status: GroupStatus, names: Mapping[str, str], newest: Episode | None, now_ms: int) -> SafeText:
    """Return ``rebalancing since 09:14:07 UTC (member c-3 joined), waiting for c-1 (2 min 10 s left)``."""
    removed_at = _removal_times(newest)
    is_recent = abs(now_ms - status.since) < _DAY_MS
    text = status_word(status.status).append(
        f" since {to_utc(status.since)[11:] if is_recent else to_utc(status.since)}"
    )
    if status.reason and status.status != "storming":  # the reason of a storm is the episode's story
        text.append(f" ({short_member(with_display_names(status.reason, names))})")
    members = []
    for member in status.awaited[:_MAX_AWAITED_MEMBERS]:
        minutes, seconds = divmod((removed_at.get(member, 0) - now_ms) // 1000, 60)
        left = f" ({minutes} min {seconds} s left)" if minutes else f" ({seconds} s left)"
        members.append(f"{names.get(member, short_member(member))}{left if minutes >= 0 else ''}")
    if len(status.awaited) > _MAX_AWAITED_MEMBERS:
        members.append(f"{len(status.awaited) - _MAX_AWAITED_MEMBERS} more")
    return text.append(f", waiting for {', '.join(members)}") if members else text


def kind_of(episode: Episode) -> str:
    """Return the kind of an episode, and whether the evidence proves it."""
    return episode.kind if episode.sure or episode.kind == "unknown" else f"{episode.kind} (not sure)"


def diff_lines(diff: Diff) -> Iterator[SafeText]:
    """Yield a headline with the cause, then one line per member: ``=`` kept, ``-`` revoked, ``+`` assigned.

    A line has the member's display name and, if that is not the member id, the member id as well.
    """
    names = display_names(diff.named)
    yield _headline(diff, names)
    reasons = (
        f"{_evidence_members(item, diff, names)}{with_display_names(item.reason, names)} ({item.source})"
        for item in diff.cause.evidence
    )
    for reason in dict.fromkeys(map(short_member, reasons)):
        yield SafeText(f"  why: {reason}", "dim italic")
    rows = [
        (short_member(names.get(member_id, member_id)), short_member(member_id) if member_id in names else "", member)
        for member_id, member in diff.members.items()
    ]
    name_width, id_width = max((len(row[0]) for row in rows), default=0), max((len(row[1]) for row in rows), default=0)
    for name, member_id, member in sorted(rows, key=lambda row: row[:2]):
        line = SafeText(f"  {name:<{name_width}}")
        yield _append_share_changes(line.append(f"  {member_id:<{id_width}}" if id_width else "", "dim"), member)
    if diff.unchanged:
        members = f"{diff.unchanged:,} other" if diff.members else f"all {diff.unchanged:,}"
        yield SafeText(f"  = {members} members unchanged", "dim")
    if any(diff.unassigned.values()):
        delay = f", delayed for their worker until {clock(diff.timestamp + diff.delay_ms)}" if diff.delay_ms else ""
        yield SafeText(f"  unassigned: {partition_counts_text(diff.unassigned)}{delay}", "yellow")
    for violation in diff.violations:
        yield SafeText(f"  violation: {short_member(with_display_names(violation, names))}", "bold red")
    if diff.expected is not UNSET and diff.expected.verdict == "different":
        yield SafeText(f"  not as expected: {diff.expected.why}", "bold red")
        for words, shares in (("should have", diff.expected.missing), ("should not have", diff.expected.extra)):
            for member_id, share in ({} if shares is UNSET else shares).items():
                name = short_member(names.get(member_id, member_id))
                yield SafeText(f"    {name} {words} {partition_counts_text(share)}", "red")


def _headline(diff: Diff, names: Mapping[str, str]) -> SafeText:
    words, colour = CAUSES.get(diff.cause.kind, (diff.cause.kind, "white"))
    members = ", ".join(short_member(names.get(m, m)) for m in diff.cause.member_ids)
    number = f"generation {diff.generation}" if diff.generation is not None else f"epoch {diff.group_epoch}"
    line = SafeText().append(f"{clock(diff.timestamp)} ", "dim").append(diff.group_id, "bold")
    line.append(f" {number}" + (f", round {diff.round}" if diff.round > 1 else ""), "dim")
    line.append(f"  {members} {words}".rstrip(), colour)
    return line.append(f"  moved {diff.moved}" if diff.moved else "", "magenta")


def _evidence_members(item: Evidence, diff: Diff, names: Mapping[str, str]) -> str:
    """Return the members named by a comparison of generations; empty if the diff's cause names the same members."""
    if item.source != COMPARISON or not item.member_ids or item.member_ids == diff.cause.member_ids:
        return ""
    return f"{', '.join(names.get(member_id, member_id) for member_id in item.member_ids)}: "


def _append_share_changes(line: SafeText, member: MemberDiff) -> SafeText:
    """Append the partitions that a member kept, lost and received to a line, and return the line."""
    indent = len(line)
    for label, share, colour in (
        ("=", member.kept, "dim"),
        ("-", member.revoked, "red"),
        ("+", member.assigned, "green"),
        ("standby", member.standby or {}, "dim"),
        ("warm-up", member.warmup or {}, "dim"),
    ):
        if any(share.values()):
            line.append(f"  {label} {partition_counts_text(share)}", colour)
    if member.present is False:
        line.append("  gone", "dim")
    elif len(line) == indent:
        line.append("  no partitions", "dim")
    return line


def story_line(episode: Episode) -> SafeText:
    """Return an episode as one line: ``09:14:07 checkout  settling  Rolling restart of …``."""
    line = SafeText().append(f"{clock(episode.updated_at or episode.opened_at)} ", "dim")
    line.append(episode.group_id, "bold").append("  ").append(status_word(episode.status))
    return line.append(f"  {episode.story}")


class FeedPrinter:
    """Prints diffs and stories as they arrive: the records' unchanged JSON if ``as_json``, else lines for people."""

    def __init__(self, *, as_json: bool) -> None:
        self._write = json_lines() if as_json else None
        self._console = console(soft_wrap=True)
        #: Group → the number, status and story of the episode that was printed last.
        self._last_printed: dict[str, tuple[int, str, str]] = {}

    def diff(self, diff: Diff, record: bytes) -> None:
        """Print a diff."""
        self._print_record(record, diff_lines(diff))

    def story(self, episode: Episode, record: bytes, *, prints_only_changes: bool) -> None:
        """Print an episode; if ``prints_only_changes``, skip it if its status and story were printed before."""
        story = (episode.episode, episode.status, episode.story)
        if not prints_only_changes or self._last_printed.get(episode.group_id) != story:
            self._last_printed[episode.group_id] = story
            self._print_record(record, [story_line(episode)])

    def _print_record(self, record: bytes, lines: Iterable[SafeText]) -> None:
        if self._write is not None:
            self._write(raw_json(record))
            return
        for line in lines:
            self._console.print(line)


def print_diffs(records: "Iterable[DiffRecord]", *, as_json: bool) -> None:
    """Print each diff as it arrives."""
    printer = FeedPrinter(as_json=as_json)
    for record in records:
        printer.diff(record.diff, record.value)
