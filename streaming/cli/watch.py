"""``rebalance-monitor watch``: diffs as they land."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import BootstrapServers, Config, Json, LogFormat, TopicPrefix, Verbose

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog="Example: rebalance-monitor watch --group orders --from-beginning --json | jq .moved")
def watch(
    *,
    group: Annotated[str | None, typer.Option("--group", help="Only this group.")] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the oldest diff.")
    ] = False,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", help="Stop at what is there now.")] = False,
    as_json: Json = False,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Show diffs as they land: who caused each round and what moved, each diff once."""
    from streaming.cli.signals import stop_on_signals

    stop = stop_on_signals()  # before the slow imports: a signal meanwhile is an order too
    from streaming.cli.render import print_diffs
    from streaming.kafka.reader import read_diffs
    from streaming.process import log
    from streaming.settings.config import load

    log.configure(log_format, verbose=verbose)
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    records = read_diffs(
        settings, until=stop.is_set, exit_at_end=exit_at_end, from_beginning=from_beginning, group=group
    )
    print_diffs(records, as_json=as_json)
