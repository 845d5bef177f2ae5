"""What ``groups``, ``group``, ``why`` and ``watch --stories`` show people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import UNSET
from rich.table import Column, Table

from streaming.cli.group_overview import GroupOverview, OwnerLine, owner_lines
from streaming.cli.render import clock, share_text, short_member
from streaming.episodes.wording import lasting
from streaming.process.terminal import SafeText, console
from streaming.wire.codec import rfc3339
from streaming.wire.episodes import Bounds, Downtime, Episode, EpisodeMembers, Incident
from streaming.wire.events import Evidence
from streaming.wire.names import called, who, worded

#: State of a group, or status of an episode → its colour.
_COLOURS: Final[Mapping[str | None, str]] = {
    "settled": "green",
    "settling": "cyan",
    "stuck": "bold red",
    "storming": "bold red",
    "empty": "dim",
}
#: So many members of each sort ``why`` names.
_NAMED: Final = 20


def _state(state: str | None) -> SafeText:
    return SafeText(state or "", _COLOURS.get(state, ""))


def group_table(found: Iterable[GroupOverview]) -> Table:
    """A row a group."""
    table = Table(
        Column("group", overflow="fold"),
        Column("kind", no_wrap=True),
        Column("state", no_wrap=True),
        Column("members", justify="right"),
        Column("downtime today"),
        Column("incidents"),
        Column("last", ratio=1),
    )
    for one in found:
        story = one.newest.story if one.newest else ""
        count = str(len(one.latest.members))
        group = SafeText(one.latest.group_id, "bold")
        wrong = SafeText(", ".join(dict.fromkeys(told.incident.kind for told in one.wrong)), "bold red")
        table.add_row(group, one.kind, _state(one.state), count, _still(one.today), wrong, SafeText(story))
    return table


def _still(downtime: Downtime | None) -> str:
    """``0.3 s to 1.2 s``: the downtime of all partitions together."""
    if downtime is None:
        return ""
    if downtime.upper_ms is None:
        return f"at least {lasting(downtime.lower_ms)}"
    return f"{lasting(downtime.lower_ms)} to {lasting(downtime.upper_ms)}"


def incident_table(incidents: Iterable[Incident]) -> Table:
    """A row an incident."""
    table = Table(
        Column("group", overflow="fold"),
        Column("incident", no_wrap=True),
        Column("status", no_wrap=True),
        Column("since", no_wrap=True),
        Column("times", justify="right"),
        Column("what", ratio=1),
    )
    for one in incidents:
        status = SafeText(one.status, "bold red" if one.status == "open" else "dim")
        since, times = _moment(one.opened_at), str(one.times)
        table.add_row(SafeText(one.group_id, "bold"), one.kind, status, since, times, SafeText(one.story))
    return table


def show_group(found: GroupOverview) -> None:
    """What is wrong with it, its members by name with what each owns, and its last episodes."""
    screen, latest, lines = console(wide=True), found.latest, owner_lines(found.latest)
    head = SafeText().append(latest.group_id, "bold")
    head.append(f"  {found.kind}, ").append(_state(found.state or "nothing is known of its episodes"))
    head.append(f", {_count(len(lines), 'member')}")
    number = f"epoch {latest.group_epoch}" if latest.generation is None else f"generation {latest.generation}"
    by = f", {latest.assignor}" if latest.assignor else ""
    head.append(f"  {latest.protocol}{by}, {number} since {_moment(latest.timestamp)}", "dim")
    screen.print(head, soft_wrap=True)
    for incident, _ in found.wrong:
        wrong = SafeText().append(incident.kind, "bold red").append(f" since {_moment(incident.opened_at)}")
        screen.print(wrong.append(f"  {incident.story}"), soft_wrap=True)
    if lines:
        screen.print(_owner_table(lines))
    if found.told:
        table = Table(Column("episode", justify="right"), "kind", "status", Column("story", ratio=1))
        for episode in (record.episode for record in found.told):
            table.add_row(
                str(episode.episode), _kind(episode), _state(episode.status), SafeText(episode.story)
            )
        screen.print(table)


def _owner_table(lines: Sequence[OwnerLine]) -> Table:
    table = Table(
        Column("member", overflow="fold"),
        Column("host", overflow="fold"),
        Column("owns", ratio=1, overflow="fold"),
        Column("partitions", justify="right"),
        Column("member id", overflow="fold", style="dim"),
    )
    for one in lines:
        owns = SafeText(share_text(one.owned))
        for role, tasks in (("standby", one.standby), ("warm-up", one.warmup)):
            if tasks is not UNSET and any(tasks.values()):
                owns.append(f"  {role} {share_text(tasks)}", "dim")
        known_as = short_member(one.member_id) if one.name != one.member_id else ""
        host = (one.client_host or "").lstrip("/")
        table.add_row(
            SafeText(short_member(one.name)),
            SafeText(host),
            owns,
            str(sum(map(len, one.owned.values()))),
            SafeText(known_as),
        )
    return table


def story_line(episode: Episode) -> SafeText:
    """How an episode stands, on one line: ``09:14:07 checkout  settling  Rolling restart of …``."""
    line = SafeText().append(f"{clock(episode.updated_at or episode.opened_at)} ", "dim")
    line.append(episode.group_id, "bold").append("  ").append(_state(episode.status))
    return line.append(f"  {episode.story}")


def show_episode(episode: Episode) -> None:
    """The episode with its story, evidence, members and rounds."""
    screen = console(soft_wrap=True)
    for line in _episode_lines(episode):
        screen.print(line)


def _episode_lines(episode: Episode) -> Iterator[SafeText]:
    head = (
        SafeText().append(episode.group_id, "bold").append(f", episode {episode.episode}: {_kind(episode)}, ")
    )
    yield head.append(_state(episode.status))
    yield SafeText(f"  {episode.story}")
    names = _names(episode.members)
    yield SafeText("evidence", "bold")
    for item in dict.fromkeys(_reason(one, names) for one in episode.evidence):
        yield SafeText("  ").append(item[0]).append(f" ({item[1]})", "dim")
    if not episode.evidence:
        yield SafeText("  none", "dim")
    yield (
        SafeText()
        .append("members", "bold")
        .append(f"  {episode.members.before} before, {episode.members.after} after")
    )
    yield from _member_lines(episode.members, names)
    yield SafeText().append("rounds", "bold").append(f"  {_rounds(episode)}")
    if episode.downtime is not None:
        yield SafeText().append("downtime", "bold").append(f"  {_downtime(episode.downtime)}")


def _names(members: EpisodeMembers) -> dict[str, str]:
    """What members are called; those that were replaced apart: who came in their place may have their names."""
    former = {one.left for one in members.replaced} - {one.joined for one in members.replaced}
    known = members.names
    return {
        **called({one: known[one] for one in known if one in former}),
        **called({one: known[one] for one in known if one not in former}),
    }


def _reason(item: Evidence, names: Mapping[str, str]) -> tuple[str, str]:
    """What the evidence says, with who it is about where the reason itself does not say so; and its source."""
    said = short_member(worded(item.reason, names))
    about = short_member(who(item.member_ids, names))
    named = any(short_member(names[one]) in said for one in item.member_ids if one in names)
    return (f"{about}: {said}" if about and not named else said), item.source


def _member_lines(members: EpisodeMembers, names: Mapping[str, str]) -> Iterator[SafeText]:
    for one in members.replaced[:_NAMED]:
        was, now = (names.get(member_id, short_member(member_id)) for member_id in (one.left, one.joined))
        said = f"{now} came back" if was == now else f"{was} → {now}"
        yield SafeText(f"  {'replaced':<9}", "cyan").append(said).append(f"  by {one.by}", "dim")
    yield from _more(len(members.replaced))
    for word, ids, colour in (
        ("joined", members.joined, "green"),
        ("left", members.left, "yellow"),
        ("lost", members.lost, "red"),
        ("gone", members.gone, "yellow"),
    ):
        for member_id in ids[:_NAMED]:
            yield SafeText(f"  {word:<9}", colour).append(names.get(member_id, short_member(member_id)))
        yield from _more(len(ids))
    if members.omitted:
        yield SafeText(f"  and {members.omitted} more that the episode does not list", "dim")


def _more(count: int) -> Iterator[SafeText]:
    if count > _NAMED:
        yield SafeText(f"  {'':<9}and {count - _NAMED} more: --json has them", "dim")


def _rounds(episode: Episode) -> str:
    said = f"{episode.round_count} in {_count(episode.rebalances, 'rebalance')}"
    said += f", {_moment(episode.opened_at)} to {_moment(episode.updated_at)}"
    said += f"; {_count(episode.moved, 'partition')} moved"
    if episode.moved_again:
        said += f", {episode.moved_again} of them more than once"
    return said


def _downtime(downtime: Downtime) -> str:
    """The longest stop, and all together, with the sources of the bounds."""
    of = f"{_count(downtime.partitions, 'partition')}, {_range(downtime.stops, 'stops')}"
    said = f"longest {_range(downtime.longest_ms, 'ms')}; in all {_range(downtime.total_ms, 'ms')} ({of})"
    if downtime.unbounded:
        said += f", {downtime.unbounded} without upper bound"
    return f"{said}; by {', '.join(downtime.evidence)}" if downtime.evidence else said


def _range(bounds: Bounds, unit: str) -> str:
    least, most = bounds
    if most is None:
        return f"at least {least} {unit}"
    return f"{least} {unit}" if least == most else f"{least} to {most} {unit}"


def _kind(episode: Episode) -> str:
    return episode.kind if episode.sure or episode.kind == "unknown" else f"{episode.kind} (not sure)"


def _moment(timestamp: int) -> str:
    """``2026-01-31 09:14:00 UTC``."""
    stamp = rfc3339(timestamp)
    return f"{stamp[:10]} {stamp[11:19]} UTC"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
