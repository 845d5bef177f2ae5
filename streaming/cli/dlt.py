"""``rebalance-monitor dlt``: dead letters, listed and sent again."""

from __future__ import annotations

from typing import Annotated

import typer

from assignors.errors import BadInput
from streaming.cli.options import BootstrapServers, Config, Json, TopicPrefix, Verbose

app = typer.Typer(no_args_is_help=True, epilog="Example: rebalance-monitor dlt list --json | jq .message")


class NothingToResubmit(BadInput):
    """Name what to send again: PARTITION:OFFSET …, or --all."""


@app.command("list", epilog="Example: rebalance-monitor dlt list --bootstrap-servers kafka:9092")
def list_(
    *,
    as_json: Json = False,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    verbose: Verbose = False,
) -> None:
    """What could not be used, and why."""
    del verbose  # main looks at it for tracebacks
    from streaming.kafka.dlt import read
    from streaming.settings.config import load

    letters = read(load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix))
    if as_json:
        import msgspec

        for letter in letters:
            print(msgspec.json.encode(letter).decode())
        return
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(Column("place", no_wrap=True), "reason", "message", "read from", "key")
    for letter in letters:
        table.add_row(
            f"{letter.partition}:{letter.offset}",
            letter.exception,
            letter.message,
            f"{letter.source_topic} {letter.source_partition}:{letter.source_offset}",
            "" if letter.key is None else letter.key.decode(errors="backslashreplace"),
        )
    Console().print(table)


@app.command(epilog="Example: rebalance-monitor dlt resubmit 0:17 2:4 --bootstrap-servers kafka:9092")
def resubmit(
    places: Annotated[list[str] | None, typer.Argument(metavar="[PARTITION:OFFSET]...")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All that is in the topic.")] = False,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    verbose: Verbose = False,
) -> None:
    """Send dead letters to the membership topic again, as they were."""
    del verbose  # main looks at it for tracebacks
    if bool(places) == everything:
        raise NothingToResubmit
    from streaming.kafka import dlt
    from streaming.settings.config import load

    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    letters = dlt.read(settings)
    sent = dlt.resubmit(settings, letters if everything else dlt.pick(letters, places or []))
    typer.echo(f"{sent} sent to {settings.topics.membership}")
