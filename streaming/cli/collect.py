"""``rebalance-monitor collect``: the collector."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import CoordinatorLogs, MetricsHost, MetricsPort, Session, command, long_running


@command("Example: rebalance-monitor collect --bootstrap-servers kafka:9092 --include-group 'orders.*'")
@long_running
def collect(
    session: Session,
    *,
    coordinator_log: CoordinatorLogs = None,
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
) -> None:
    """Follow __consumer_offsets and publish each generation of each group, until SIGTERM or Ctrl-C."""
    stop, settings = session.stop, session.settings
    from prometheus_client import CollectorRegistry

    from streaming.collect.collector import Collector
    from streaming.collect.metrics import CollectMetrics
    from streaming.process.exporter import serve_metrics

    settings.collect = settings.collect.narrowed(include_groups=include_group, exclude_groups=exclude_group)
    registry = CollectorRegistry()
    metrics = CollectMetrics(registry)
    serve_metrics(registry, metrics_host, metrics_port)
    Collector(settings, stop, coordinator_log or (), metrics).run()
