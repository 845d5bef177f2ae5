"""``rebalance-monitor replay``: the diffs of the membership log, computed again without Spark."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from streaming.cli.options import BootstrapServers, Config, Json, LogFormat, TopicPrefix, Verbose

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog="Example: rebalance-monitor replay --group orders --check")
def replay(
    *,
    group: Annotated[str | None, typer.Option("--group", help="Only this group.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the diff topic; exit 1 when they differ.")
    ] = False,
    as_json: Json = False,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Compute the diffs of the membership topic again, without Spark, and show or compare them."""
    from streaming.checks.replay import differences
    from streaming.checks.replay import replay as replayed
    from streaming.cli.render import print_diffs
    from streaming.process import log
    from streaming.settings.config import load

    log.configure(log_format, verbose=verbose)
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    if not check:
        from streaming.cli.signals import stop_on_signals

        stop = stop_on_signals()
        print_diffs(replayed(settings, group, until=stop.is_set), as_json=as_json)
        return
    found = 0
    for line in differences(settings, group):
        print(line)
        found += 1
    print(f"{found or 'no'} differences", file=sys.stderr)
    if found:
        raise typer.Exit(1)
