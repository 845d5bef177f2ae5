"""``rebalance-monitor dlt``: dead letters, listed and sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from assignors.errors import BadInput
from streaming.cli.options import AsJson, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings

dlt = typer.Typer(no_args_is_help=True, epilog="Example: rebalance-monitor dlt list --json | jq .message")


class NothingToResubmit(BadInput):
    """Name what to send again: PARTITION:OFFSET …, or --all."""


@dlt.command("list", epilog="Example: rebalance-monitor dlt list --bootstrap-servers kafka:9092")
@connected
def list_(settings: Settings, *, as_json: AsJson = False) -> None:
    """What could not be used, and why."""
    from streaming.answers.output import json_lines
    from streaming.cli.render import dead_letters
    from streaming.kafka.dlt import read
    from streaming.process.terminal import console

    letters = read(settings)
    if not as_json:
        console().print(dead_letters(letters))
        return
    write = json_lines()
    for letter in letters:
        write(letter)


@dlt.command(epilog="Example: rebalance-monitor dlt resubmit 0:17 2:4 --bootstrap-servers kafka:9092")
@connected
def resubmit(
    settings: Settings,
    places: Annotated[list[str] | None, typer.Argument(metavar="[PARTITION:OFFSET]...")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All that is in the topic.")] = False,
) -> None:
    """Send dead letters to the membership topic again, as they were."""
    if bool(places) == everything:
        raise NothingToResubmit
    from streaming.kafka import dlt
    from streaming.process.plain import say

    letters = dlt.read(settings)
    sent = dlt.resubmit(settings, letters if everything else dlt.pick(letters, places or []))
    say(f"{sent} sent to {settings.topics.membership}")
