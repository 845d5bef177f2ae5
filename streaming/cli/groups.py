"""The commands ``groups``, ``top``, ``group`` and ``owner``: groups with their members, incidents and episodes."""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, get_args

import typer
from msgspec import UNSET
from rich.live import Live
from rich.table import Column, Table

from assignors.errors import BadInput
from streaming.cli.diff_lines import cause_text, kind_of, share_text, short_member, status_text, status_word, to_utc
from streaming.cli.episodes import bounds_text
from streaming.cli.options import AsJson, GroupFlag, GroupId, connected, now_ms, option, time_option
from streaming.cli.output import Progress, answer, read_records, warn_skipped
from streaming.episodes.budget import ErrorBudget
from streaming.episodes.status import StatusName
from streaming.episodes.story import count
from streaming.kafka.access import NoPermission
from streaming.kafka.compacted_topics import GroupRecords, read_groups
from streaming.kafka.diff_reader import read_diffs
from streaming.kafka.group_reader import read_history
from streaming.kafka.lag_reader import read_lags
from streaming.kafka.topic_reader import TopicUnreadable
from streaming.process import warn
from streaming.process.terminal import SafeText, console, fold, nowrap, right, table, wide_column
from streaming.recording.overview import (
    GroupOverview,
    OwnerLine,
    group_overview,
    group_overviews,
    owner_lines,
    sort_newest_first,
)
from streaming.recording.ownership import PartitionOwner, partition_owners
from streaming.records.episodes import Episode, Incident
from streaming.records.events import MAX_TIMESTAMP
from streaming.records.names import display_names, with_display_names
from streaming.settings.config import Settings

_AT_HELP = "As of this time: RFC 3339, or milliseconds since the epoch. Plays the membership log again."
_AT_OPTION = time_option("--at", _AT_HELP, show_default="now")


@connected("rebalance-monitor groups", "rebalance-monitor groups --json | jq -r 'select(.status == \"stuck\").groupId'")
def groups(settings: Settings, *, at: int | None = _AT_OPTION, as_json: AsJson = False) -> None:
    """List all groups: kind, status, members, lag, downtime today (UTC), open incidents and the last episode.

    With service levels in the settings ([[slo]]) also how much of today's downtime budget is left.
    """
    records, lags = _read_group_records(settings, None, at), _read_lags(settings) if at is None else None
    overviews = group_overviews(*records, now_ms=now_ms() if at is None else at, levels=settings.slo, lags=lags)

    def lines() -> Iterator[Table | SafeText]:
        for record in sort_newest_first(records.incidents):
            if record.incident.scope == "cluster":
                yield incident_line(record.incident)
        yield group_table(overviews)

    answer(map(GroupOverview.line, overviews), lines(), as_json=as_json)


#: Statuses, the worst first.
_STATUS_RANKS: Final = {status: rank for rank, status in enumerate(get_args(StatusName))}


@connected("rebalance-monitor top", "rebalance-monitor top --count 1 --json | jq -r .groupId")
def top(
    settings: Settings,
    *,
    interval: float = option("S", "Seconds between two readings.", 5.0, min=1),
    readings: int | None = option("N", "End after N readings.", None, "--count", min=1, show_default="Ctrl-C ends"),
    limit: int = option("N", "Most groups shown.", 30, min=1),
    as_json: AsJson = False,
) -> None:
    """Show the groups in the worst status first, refreshed in place. Into a pipe: one reading after the other."""
    screen = console(is_wide=True)
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        for number in itertools.islice(itertools.count(), readings):
            if number:
                time.sleep(interval)
            records = read_groups(settings, on_malformed=warn_skipped)
            overviews = sort_worst_first(group_overviews(*records, now_ms=now_ms(), lags=_read_lags(settings)))[:limit]
            if screen.is_terminal and not as_json:
                live.update(group_table(overviews), refresh=True)
            else:
                answer(map(GroupOverview.line, overviews), [group_table(overviews)], as_json=as_json)


def sort_worst_first(overviews: Iterable[GroupOverview]) -> list[GroupOverview]:
    """Return the overviews, the worst status first, then the most open incidents, then the newest change."""
    return sorted(
        overviews, key=lambda o: (_STATUS_RANKS[o.status.status], -len(o.incidents), -o.status.since, o.latest.group_id)
    )


@connected("rebalance-monitor group checkout", "rebalance-monitor group checkout --at 2026-01-31T09:14:00Z")
def group(settings: Settings, group_id: GroupId, *, at: int | None = _AT_OPTION, as_json: AsJson = False) -> None:
    """Show one group: its members and their partitions, its open incidents and its last ten episodes.

    The exit status is 2 if there is no such group.
    """
    overview = group_overview(group_id, *_read_group_records(settings, group_id, at))
    answer([overview.document()], group_lines(overview, now_ms() if at is None else at), as_json=as_json)


def _read_group_records(settings: Settings, group_id: str | None, at_ms: int | None) -> GroupRecords:
    if at_ms is None:
        return read_records(read_groups, settings, group_id)
    with Progress("records read") as progress:
        history = read_history(settings, at_ms, group_id, on_step=progress.step)
    return GroupRecords(history.assignments, history.episodes, history.incidents)


def _read_lags(settings: Settings) -> dict[str, int | None]:
    """Return the lag of each group; an empty mapping if the membership topic is missing or this user can't read it."""
    try:
        return read_lags(settings, now_ms())
    except NoPermission as error:
        warn(f"lag is not shown: {error}")
        return {}
    except TopicUnreadable:  # a collector creates the topic
        return {}


def group_table(overviews: Iterable[GroupOverview]) -> Table:
    """Return a table with one row per group, and with the rest of the downtime budgets if there are service levels."""
    rows = (
        (
            SafeText(overview.latest.group_id, "bold"),
            overview.kind,
            status_word(overview.status.status),
            len(overview.latest.members),
            "" if overview.lag is None else f"{overview.lag:,}",
            "" if overview.today is None else bounds_text(overview.today.total_ms, is_time=True),
            _budget_text(overview.budget),
            SafeText(", ".join(dict.fromkeys(record.incident.kind for record in overview.incidents)), "bold red"),
            overview.newest.story if overview.newest else None,
        )
        for overview in overviews
    )
    heads = [fold("group"), nowrap("kind"), nowrap("status"), right("members"), right("lag"), Column("downtime today")]
    heads += [right("budget left"), Column("incidents"), wide_column("last episode")]
    return table(heads, rows, optional=("lag", "budget left"))


def _budget_text(budget: ErrorBudget | None) -> SafeText:
    """Return the rest of today's downtime budget as ``at most 97 %``; red if it is spent or a delay was too long."""
    if budget is None:
        return SafeText("")
    style = "bold red" if budget.met is False else ""
    if budget.budget_left is None:
        return SafeText("delay too long" if budget.met is False else "", style)
    least, most = budget.budget_left
    lower = "" if least == most else "at most " if least is None else f"{least:.0%} to "
    return SafeText(f"{lower}{most:.0%}", style)


def incident_line(incident: Incident) -> SafeText:
    """Return an incident as ``storm since 2026-01-31 09:14:00 UTC  checkout does not settle.``."""
    line = SafeText().append(incident.kind, "bold red").append(f" since {to_utc(incident.opened_at)}")
    return line.append(f"  {incident.story}")


def group_lines(overview: GroupOverview, now_ms: int) -> Iterator[Table | SafeText]:
    """Yield the text of ``group``: a group's status, incidents, members with partitions, and last episodes."""
    latest, lines = overview.latest, owner_lines(overview.latest)
    head = SafeText().append(latest.group_id, "bold").append(f"  {overview.kind}, ")
    head.append(status_text(overview.status, display_names(latest.names), overview.newest, now_ms))
    head.append(f", {count(len(lines), 'member')}")
    number = f"epoch {latest.group_epoch}" if latest.generation is None else f"generation {latest.generation}"
    assignor = f", {latest.assignor}" if latest.assignor else ""
    yield head.append(f"  {latest.protocol}{assignor}, {number} since {to_utc(latest.timestamp)}", "dim")
    yield from (incident_line(record.incident) for record in overview.incidents)
    if lines:
        yield owner_table(lines)
    if overview.episodes:
        yield episode_table(record.episode for record in overview.episodes)


def episode_table(episodes: Iterable[Episode]) -> Table:
    """Return a table with one row per episode."""
    rows = ((e.episode, kind_of(e), status_word(e.status), to_utc(e.opened_at), e.story) for e in episodes)
    return table((right("episode"), "kind", "status", nowrap("began"), wide_column("story")), rows)


def owner_table(lines: Sequence[OwnerLine]) -> Table:
    """Return a table of a group's members, with the partitions or tasks that each member owns."""
    rows = []
    for line in lines:
        owned_text = SafeText(share_text(line.owned))
        for role, tasks in (("standby", line.standby), ("warm-up", line.warmup)):
            if tasks is not UNSET and any(tasks.values()):
                owned_text.append(f"  {role} {share_text(tasks)}", "dim")
        host, member_id = (line.client_host or "").lstrip("/"), line.member_id if line.name != line.member_id else ""
        partitions = sum(map(len, line.owned.values()))
        rows.append((short_member(line.name), host, owned_text, partitions, short_member(member_id)))
    heads = (fold("member"), fold("host"), fold("owns", ratio=1), right("partitions"), fold("member id", style="dim"))
    return table(heads, rows)


_Partition = Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="A partition, such as orders-17.")]


@connected("rebalance-monitor owner orders-17", "rebalance-monitor owner orders-17 --at 2026-01-31T09:14:00Z")
def owner(
    settings: Settings,
    partition: _Partition,
    *,
    group: GroupFlag = None,
    at: int | None = time_option("--at", "As of this time: RFC 3339, or milliseconds since the epoch."),
    as_json: AsJson = False,
) -> None:
    """Show which member of each group owns a partition, since when, and why it moved there. Reads all diffs."""
    topic, number = topic_partition(partition)
    diffs = read_diffs(settings, from_beginning=True, exit_at_end=True, group=group, on_malformed=warn_skipped)
    with Progress("diffs read") as progress:
        owners = partition_owners(
            ((r.id, r.diff) for r in progress.counted(diffs)), topic, number, MAX_TIMESTAMP if at is None else at
        )
    if not owners:
        raise BadInput(f"{partition}: no diff contains this partition; `rebalance-monitor groups` lists all groups")
    answer(owners, [partition_owner_table(owners)], as_json=as_json)


def topic_partition(text: str) -> tuple[str, int]:
    """Return the topic and the number in a text such as ``orders-17``."""
    topic, separator, number = text.rpartition("-")
    if not topic or not separator or not (number.isascii() and number.isdigit()) or len(number) > len("2147483647"):
        raise BadInput(f"{text}: name a partition as TOPIC-PARTITION, such as orders-17")
    return topic, int(number)


def partition_owner_table(owners: Iterable[PartitionOwner]) -> Table:
    """Return a table with one row per group: a partition's owner, since when, the previous owner, and why it moved."""
    rows = []
    for group in owners:
        last = group.moves[0]
        reasons = dict.fromkeys(item.reason for item in last.cause.evidence if item.reason)
        cause = cause_text(last.cause.kind, _join_names(last.cause.member_ids, last.names))
        name = SafeText(_join_names(group.owners, last.names) or "nobody", "" if group.owners else "bold red")
        before = _join_names(last.before, last.names) or "nobody"
        why = ": ".join([cause, *(short_member(with_display_names(reason, last.names)) for reason in reasons)])
        rows.append((SafeText(group.group_id, "bold"), name, to_utc(group.since), before, why))
    return table((fold("group"), fold("owner"), nowrap("since"), fold("before"), wide_column("why")), rows)


def _join_names(member_ids: Iterable[str], names: dict[str, str]) -> str:
    return ", ".join(short_member(names.get(member_id, member_id)) for member_id in member_ids)
