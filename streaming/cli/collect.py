"""``rebalance-monitor collect``: the collector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.options import (
    BootstrapServers,
    Config,
    LogFormat,
    MetricsHost,
    MetricsPort,
    TopicPrefix,
    Verbose,
)

app = typer.Typer(invoke_without_command=True)


@app.callback(
    epilog="Example: rebalance-monitor collect --bootstrap-servers kafka:9092 --include-group 'orders.*'"
)
def collect(
    *,
    coordinator_log: Annotated[
        list[Path] | None,
        typer.Option("--coordinator-log", metavar="FILE", help="A broker's log: the reasons. Repeatable."),
    ] = None,
    include_group: Annotated[
        list[str] | None,
        typer.Option(
            "--include-group", metavar="REGEX", help="Only groups that match as a whole. Repeatable."
        ),
    ] = None,
    exclude_group: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude-group", metavar="REGEX", help="Not groups that match as a whole. Repeatable."
        ),
    ] = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Follow __consumer_offsets and publish each generation of each group, until SIGTERM or Ctrl-C."""
    from streaming.cli.signals import stop_on_signals

    stop = stop_on_signals()  # before the slow imports: a signal meanwhile is an order too
    from prometheus_client import CollectorRegistry

    from streaming.collect.collector import Collector
    from streaming.collect.metrics import CollectMetrics
    from streaming.process import log
    from streaming.process.exporter import serve_metrics
    from streaming.settings.config import CollectSettings, load, validated

    log.configure(log_format, verbose=verbose)
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    given = {"include_groups": include_group, "exclude_groups": exclude_group}
    chosen = {name: value for name, value in given.items() if value}
    settings.collect = validated(CollectSettings, {**settings.collect.model_dump(), **chosen})
    registry = CollectorRegistry()
    metrics = CollectMetrics(registry)
    serve_metrics(registry, metrics_host, metrics_port)
    Collector(settings, stop, coordinator_log or (), metrics).run()
