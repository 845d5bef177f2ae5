"""``rebalance-monitor serve``: the feed, the page, JSON and metrics over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.options import BootstrapServers, Config, LogFormat, TopicPrefix, Verbose

app = typer.Typer(invoke_without_command=True)


def _default_database(cluster_id: str, prefix: str) -> Path:
    """One file a cluster and prefix, below the user's state folder."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "kafka-rebalance-monitor" / f"history-{cluster_id}{f'-{prefix}' if prefix else ''}.sqlite"


@app.callback(epilog="Example: rebalance-monitor serve --bootstrap-servers kafka:9092 --port 8686")
def serve(
    *,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; loopback unless told otherwise.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one and prints it.")
    ] = 8686,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Ask for the bearer token in FILE.")
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(
            "--database", metavar="FILE", help="The history; by default one a cluster, in your home."
        ),
    ] = None,
    keep: Annotated[str, typer.Option("--keep", help="Rounds older than this go: 12h, 30d, 8w.")] = "30d",
    keep_mib: Annotated[
        int, typer.Option("--keep-mib", min=1, help="The oldest rounds go when the history is larger.")
    ] = 1024,
    max_clients: Annotated[
        int, typer.Option("--max-clients", min=1, help="Followers of the stream at once.")
    ] = 1000,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Follow the diffs and serve them: a page, a live feed, JSON and metrics. Read-only."""
    from streaming.cli.durations import duration_ms
    from streaming.process.log import configure
    from streaming.serve.history import Limits
    from streaming.serve.server import FeedServer, ServeOptions
    from streaming.serve.source import KafkaSource
    from streaming.settings.config import load

    configure(log_format, verbose=verbose)
    limits = Limits(duration_ms(keep, "--keep"), keep_mib * 2**20)
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    source = KafkaSource(settings)
    options = ServeOptions(
        history=database or _default_database(source.cluster_id, settings.topics.prefix),
        diffs_topic=settings.topics.diffs,
        host=host,
        port=port,
        token_file=token_file,
        limits=limits,
        max_clients=max_clients,
    )
    server = FeedServer(source, options, cluster_id=source.cluster_id)
    typer.echo(f"serving {server.address}")
    server.run()
