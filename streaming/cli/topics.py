"""``rebalance-monitor topics``: the monitor's topics, shown and made."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import BootstrapServers, Config, Json, TopicPrefix, Verbose

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog="Example: rebalance-monitor topics --create --bootstrap-servers kafka:9092")
def topics(
    *,
    create: Annotated[bool, typer.Option("--create", help="Make what is missing.")] = False,
    as_json: Json = False,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    verbose: Verbose = False,
) -> None:
    """Show the monitor's topics; with --create, make those that are missing."""
    del verbose  # main looks at it for tracebacks
    from streaming.kafka.topics import describe_topics, ensure_topics
    from streaming.settings.config import load

    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    states = ensure_topics(settings) if create else describe_topics(settings)
    if as_json:
        import msgspec

        for state in states:
            row = msgspec.to_builtins(state)
            print(msgspec.json.encode({_camel(name): value for name, value in row.items()}).decode())
        return
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(Column("topic", no_wrap=True), "cleanup", "partitions", "replicas", "state")
    for state in states:
        table.add_row(
            state.name,
            state.cleanup_policy or state.wanted_cleanup_policy,
            str(state.partitions or ""),
            str(state.replication_factor or ""),
            "wrong cleanup policy" if state.problem else "there" if state.exists else "missing",
        )
    console = Console()
    console.print(table)
    for state in states:
        if state.problem:
            console.print(state.problem, soft_wrap=True, highlight=False)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
