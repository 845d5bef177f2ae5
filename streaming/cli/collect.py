"""``rebalance-monitor collect``: the collector."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from streaming.cli.options import CoordinatorLogs, MetricsHost, MetricsPort, Session, command, long_running


@command(
    "Example: rebalance-monitor collect --bootstrap-servers kafka:9092 --include-group 'orders.*'\n\n"
    "Managed cluster: rebalance-monitor collect --config monitor.toml --by polling"
)
@long_running
def collect(
    session: Session,
    *,
    by: Annotated[
        Literal["offsets", "polling"] | None,
        typer.Option(
            "--by",
            help="Read __consumer_offsets, or ask the groups' coordinators again and again.",
            show_default="offsets",
        ),
    ] = None,
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
    """Publish what happens in each consumer group as membership events, until SIGTERM or Ctrl-C."""
    stop, settings = session.stop, session.settings
    from prometheus_client import CollectorRegistry

    from streaming.process.exporter import serve_metrics

    settings.collect = settings.collect.narrowed(
        include_groups=include_group,
        exclude_groups=exclude_group,
        by=by,
        coordinator_logs=coordinator_log,
    )
    registry = CollectorRegistry()
    if settings.collect.by == "polling":
        from streaming.collect.metrics import PollMetrics
        from streaming.collect.polling.collector import PollingCollector

        collector = PollingCollector(settings, stop, PollMetrics(registry))
        serve_metrics(registry, metrics_host, metrics_port)
        collector.run()
        return
    from streaming.collect.collector import Collector
    from streaming.collect.metrics import CollectMetrics

    metrics = CollectMetrics(registry)
    serve_metrics(registry, metrics_host, metrics_port)
    Collector(settings, stop, metrics=metrics).run()
