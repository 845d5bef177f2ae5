"""``rebalance-monitor run``: collector, Spark job and feed on one machine, ended together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.options import BootstrapServers, Config, LogFormat, TopicPrefix, Verbose

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog="Example: rebalance-monitor run --bootstrap-servers kafka:9092 --checkpoint ./state")
def run(
    *,
    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", metavar="DIR", help="Where the job keeps its place and state.")
    ] = Path("rebalance-checkpoint"),
    coordinator_log: Annotated[
        list[Path] | None,
        typer.Option("--coordinator-log", metavar="FILE", help="A broker's log: the reasons. Repeatable."),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of the page and the feed.")] = 8686,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Collect, stream and serve in one process group for one machine; in production each is its own."""
    from streaming.cli.signals import stop_on_signals
    from streaming.kafka.topics import ensure_topics
    from streaming.process.children import Child, Children
    from streaming.settings.config import load

    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    stop = stop_on_signals()
    ensure_topics(settings)
    common = ["--log-format", log_format]
    for option, value in (
        ("--bootstrap-servers", bootstrap_servers),
        ("--config", config),
        ("--topic-prefix", topic_prefix),
    ):
        common += [option, str(value)] if value is not None else []
    common += ["--verbose"] if verbose else []
    logs = [word for path in coordinator_log or () for word in ("--coordinator-log", str(path))]
    parts = {
        "collect": logs,
        "stream": ["--checkpoint", str(checkpoint)],
        "serve": ["--port", str(port)],
    }
    with Children() as children:
        for name, options in parts.items():
            children.add(Child(name, ["streaming", name, *common, *options]))
        children.watch(stop)
