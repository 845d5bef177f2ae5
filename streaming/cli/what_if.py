"""``rebalance-monitor what-if``: a live group with changes, under every assignor that its kind knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings
    from streaming.simulation.what_if import Outlook

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="Its id.")]
_Add = Annotated[list[str] | None, typer.Option("--add", metavar="N|NAME", help="New members. Repeatable.")]
_Remove = Annotated[
    list[str] | None, typer.Option("--remove", metavar="NAME", help="A member that goes. Repeatable.")
]
_Partitions = Annotated[
    list[str] | None,
    typer.Option("--partitions", metavar="TOPIC=N", help="A topic with more partitions. Repeatable."),
]
_Subscribe = Annotated[
    list[str] | None,
    typer.Option(
        "--subscribe", metavar="TOPIC", help="What all members subscribe to, in place of now. Repeatable."
    ),
]
_Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol", metavar="NAME", help="eager, cooperative or consumer.", show_default="the group's"
    ),
]
_Assignor = Annotated[
    str | None, typer.Option("--assignor", metavar="NAME", help="Its assignor.", show_default="the group's")
]
_Most = Annotated[
    int | None,
    typer.Option(
        "--fail-if-moved-more-than", metavar="N", min=0, help="Exit with 1 if more partitions would move."
    ),
]
_OneDocument = Annotated[bool, typer.Option("--json", help="One JSON document for programs.")]


@command(
    "Example: rebalance-monitor what-if checkout --add 2 --partitions orders=24 --fail-if-moved-more-than 20",
    subcommand_metavar="",
    interspersed=True,
)
@connected
def what_if(
    settings: Settings,
    group_id: _Group,
    *,
    add: _Add = None,
    remove: _Remove = None,
    partitions: _Partitions = None,
    subscribe: _Subscribe = None,
    protocol: _Protocol = None,
    assignor: _Assignor = None,
    most: _Most = None,
    as_json: _OneDocument = False,
) -> None:
    """What would move if members came or went, topics grew, or the group ran another assignor.

    The group is read from the monitor's topics. Without changes: what its next rebalance would do. The exit status
    is 2 when nothing is known of the group.
    """
    from streaming.answers.output import json_lines
    from streaming.answers.progress import Progress
    from streaming.cli.what_if_view import show_answers
    from streaming.kafka.live import read_live
    from streaming.simulation.what_if import apply_change, outlooks
    from streaming.simulation.what_if_query import parse_query, what_if_document

    with Progress("records read") as progress:
        group = read_live(settings, group_id, also=tuple(subscribe or ()), each=progress.step)
    question = parse_query(
        group,
        add=add or (),
        remove=remove or (),
        partitions=partitions or (),
        subscribe=subscribe or (),
        protocol=protocol,
        assignor=assignor,
    )
    change = apply_change(group, question.changes)
    found = []
    with Progress("assignments computed") as progress:
        for one in outlooks(change):
            found.append(one)
            progress.step()
    chosen = question.chosen(group, found)
    if as_json:
        json_lines()(what_if_document(change, found, chosen))
    else:
        show_answers(change, found, chosen)
    if most is not None:
        _hold_to(most, group.assignor, chosen)


def _hold_to(most: int, assignor: str | None, chosen: Outlook | None) -> None:
    """Exit with 1 where the assignor would move more; where that can't be said, it is an error."""
    from assignors.errors import BadInput

    if chosen is None or chosen.problem is not None:
        why = chosen.problem if chosen else f"{assignor} is none of Kafka's assignors"
        raise BadInput(f"--fail-if-moved-more-than: what moves can't be said: {why}; name an --assignor")
    if chosen.moved > most:
        raise typer.Exit(1)
