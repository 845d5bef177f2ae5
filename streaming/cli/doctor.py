"""``rebalance-monitor doctor``: what is missing, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.options import BootstrapServers, Config, Json, TopicPrefix, Verbose

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog="Example: rebalance-monitor doctor --bootstrap-servers kafka:9092 --checkpoint ./state")
def doctor(
    *,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="DIR", help="Look at this checkpoint, too.")
    ] = None,
    as_json: Json = False,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    verbose: Verbose = False,
) -> None:
    """Check Java, jars, broker, permissions, topics and checkpoint; exit 3 when something is missing."""
    import logging

    from streaming.checks.doctor import examine
    from streaming.settings.config import load

    # What librdkafka logs of a refusal is in the finding already.
    logging.basicConfig(level=logging.DEBUG if verbose else logging.CRITICAL)
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    marks = {True: "ok", False: "!!", None: "--"}
    healthy = True
    for finding in examine(settings, checkpoint):
        healthy = healthy and finding.ok is True
        if as_json:
            import msgspec

            print(msgspec.json.encode(finding).decode(), flush=True)
        else:
            print(f"{marks[finding.ok]}  {finding.check:<12} {finding.text}", flush=True)
    if not healthy:
        raise typer.Exit(3)
