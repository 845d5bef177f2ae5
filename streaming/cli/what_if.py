"""The command ``what-if``: the partitions that a change of a group would move, under each assignor."""

from collections.abc import Iterator, Sequence

import typer
from rich.table import Table

from assignors.assignment import diff, size
from assignors.errors import BadInput
from streaming.cli.diff_lines import share_text, short_member
from streaming.cli.options import GroupId, JsonDocument, connected, option
from streaming.cli.output import Progress, answer
from streaming.kafka.group_reader import read_live_group
from streaming.process.terminal import SafeText, fold, nowrap, right, table, wide_column
from streaming.settings.config import Settings
from streaming.simulation.what_if import ChangedGroup, Preview, apply_change, previews
from streaming.simulation.what_if_query import parse_query, what_if_document


@connected(
    "rebalance-monitor what-if checkout --add 2 --partitions orders=24",
    "rebalance-monitor what-if checkout --remove pay-3 --fail-if-moved-more-than 20",
)
def what_if(
    settings: Settings,
    group_id: GroupId,
    *,
    add: list[str] | None = option("N|NAME", "Add N members, or one of this name. Repeatable.", None),
    remove: list[str] | None = option("NAME", "Remove a member. Repeatable.", None),
    partitions: list[str] | None = option("TOPIC=N", "Grow a topic to N partitions. Repeatable.", None),
    subscribe: list[str] | None = option(
        "TOPIC", "Topic that all members subscribe to, instead of the current ones. Repeatable.", None
    ),
    protocol: str | None = option(
        "NAME", "Protocol: eager, cooperative or consumer.", None, show_default="the group's"
    ),
    assignor: str | None = option("NAME", "Assignor of that protocol.", None, show_default="the group's"),
    most: int | None = option(
        "N", "Exit with 1 if more than N partitions would move.", None, "--fail-if-moved-more-than", min=0
    ),
    as_json: JsonDocument = False,
) -> None:
    """Compute the partitions that move if members join or leave, topics grow, or the assignor changes.

    The group is read from the monitor's topics. Without a change: the result of its next rebalance. The exit status
    is 2 if there is no such group.
    """
    with Progress("records read") as progress:
        group = read_live_group(settings, group_id, also=tuple(subscribe or ()), on_step=progress.step)
    changes = {"add": add, "remove": remove, "partitions": partitions, "subscribe": subscribe}
    lists = {name: texts or () for name, texts in changes.items()}
    query = parse_query(group, **lists, protocol=protocol, assignor=assignor)
    change = apply_change(group, query.changes)
    with Progress("assignments computed") as progress:
        results = list(progress.counted(previews(change)))
    chosen = query.chosen(results)
    answer([what_if_document(change, results, chosen)], what_if_lines(change, results, chosen), as_json=as_json)
    if most is not None and (chosen is None or chosen.problem is not None):
        why = chosen.problem if chosen else f"{group.assignor} is not one of Kafka's assignors"
        raise BadInput(f"--fail-if-moved-more-than: the number of moves is unknown: {why}; name an --assignor")
    if most is not None and chosen is not None and chosen.moved > most:
        raise typer.Exit(1)


#: The most members that are shown under the chosen assignor, those with the most moved partitions first.
_MAX_MEMBERS = 20


def what_if_lines(plan: ChangedGroup, results: Sequence[Preview], chosen: Preview | None) -> Iterator[Table | SafeText]:
    """Yield the moves under each assignor, the members' changes under the chosen one, and what is uncertain."""
    before, after = plan.before, plan.after
    head = SafeText().append(before.group_id, "bold")
    head.append(f"  {before.protocol}, {before.assignor or 'assignor not known'}")
    partitions, later = (sum(topic.partitions for topic in group.topics.values()) for group in (before, after))
    head.append(f"  {_change_text(len(before.members), len(after.members))} members")
    yield head.append(f", {_change_text(partitions, later)} partitions")
    yield _preview_table(results, chosen)
    if chosen is not None and chosen.problem is None and (changes := _member_change_table(plan, chosen)).row_count:
        yield changes
    yield from (SafeText(line, "dim") for line in _uncertainties(plan, results))


def _change_text(now: int, later: int) -> str:
    return str(now) if now == later else f"{now} → {later}"


def _preview_table(results: Sequence[Preview], chosen: Preview | None) -> Table:
    rows = []
    for preview in results:
        is_chosen = preview is chosen
        row = ["→" if is_chosen else "", preview.way.protocol, preview.way.assignor]
        local_count, with_replicas = preview.rack_local_counts
        notes = ("now" if preview.own else "", f"{preview.unowned} without a consumer" if preview.unowned else "")
        row += (
            [*[""] * 5, preview.problem]
            if preview.problem is not None
            else [
                str(preview.moved),
                str(preview.newly_assigned),
                str(preview.most) if preview.most == preview.least else f"{preview.least} to {preview.most}",
                str(preview.rounds) if preview.exact_rounds else f"{preview.rounds} or more",
                f"{local_count} of {with_replicas}" if with_replicas else "",
                ", ".join(filter(None, notes)),
            ]
        )
        rows.append([SafeText(cell, "bold" if is_chosen else "") for cell in row])
    numbers = (right(name, no_wrap=True) for name in ("moved", "new", "a member", "rounds"))
    return table(("", nowrap("protocol"), nowrap("assignor"), *numbers, right("in its rack"), wide_column("")), rows)


def _member_change_table(change: ChangedGroup, chosen: Preview) -> Table:
    names = {**change.before.names, **change.after.names}
    rows = []
    for member in dict.fromkeys([*change.owned, *chosen.assignment]):
        moves = diff(change.owned.get(member, {}), chosen.assignment.get(member, {}))
        if moves.revoked or moves.assigned:
            is_gone = member not in chosen.assignment
            rows.append((size(moves.revoked) + size(moves.assigned), names[member], is_gone, moves))
    rows.sort(key=lambda row: (-row[0], row[1]))
    shown: list[tuple[SafeText, ...]] = [
        (
            SafeText(short_member(name)).append("  goes" if is_gone else "", "dim"),
            SafeText(share_text(moves.revoked) if moves.revoked else "", "red"),
            SafeText(share_text(moves.assigned) if moves.assigned else "", "green"),
        )
        for _, name, is_gone, moves in rows[:_MAX_MEMBERS]
    ]
    if len(rows) > _MAX_MEMBERS:
        shown.append((SafeText(f"{len(rows) - _MAX_MEMBERS} more, see --json", "dim"),))
    return table((fold("member"), fold("gives up", ratio=1), fold("gets", ratio=1)), shown)


def _uncertainties(change: ChangedGroup, results: Sequence[Preview]) -> Iterator[str]:
    """Yield the distinct reasons why computed assignments may differ from real ones."""
    yield from (*change.before.unknown, *change.notes)
    for reason in dict.fromkeys(reason for preview in results for reason in preview.inexact):
        ways = [f"{preview.way.protocol} {preview.way.assignor}" for preview in results if reason in preview.inexact]
        yield f"{', '.join(ways)}: {reason}"
    if any(not preview.exact_rounds for preview in results):
        yield "rounds under the consumer protocol depend on when heartbeats come: `forecast` plays them"
