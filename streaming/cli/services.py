"""The commands ``collect``, ``run`` and ``serve``: the long-running components."""

import gc
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from assignors.errors import BadInput
from streaming.cli import options
from streaming.cli.options import Session, checkpoint_option, duration_option, flag, long_running, option
from streaming.process import print_line

_COLLECT_BY_HELP = "offsets: read __consumer_offsets. polling: use the Admin API, for managed clusters."
_MATCHING_HELP = "groups whose id matches REGEX (full match). Repeatable."


@long_running(
    "rebalance-monitor collect --bootstrap-servers kafka:9092 --include-group 'orders.*'",
    "rebalance-monitor collect --config monitor.toml --by polling",
)
def collect(
    session: Session,
    *,
    by: Literal["offsets", "polling"] | None = flag("--by", _COLLECT_BY_HELP, None, show_default="offsets"),
    coordinator_log: options.CoordinatorLogs = None,
    include_group: list[str] | None = option("REGEX", f"Only {_MATCHING_HELP}", None),
    exclude_group: list[str] | None = option("REGEX", f"Exclude {_MATCHING_HELP}", None),
    metrics_host: options.MetricsHost = "127.0.0.1",
    metrics_port: options.MetricsPort = None,
) -> None:
    """Publish the membership events of consumer groups, until SIGTERM or Ctrl-C."""
    stop, settings = session.stop, session.settings
    from prometheus_client import CollectorRegistry

    from streaming.process.service import serve_metrics

    settings.collect = settings.collect.narrowed_to_groups(
        include_groups=include_group, exclude_groups=exclude_group, by=by, coordinator_logs=coordinator_log
    )
    registry = CollectorRegistry()
    serve_metrics(registry, metrics_host, metrics_port)
    # A garbage collection walks through the state of all groups; by default each list of topics would start several.
    gc.set_threshold(100_000)
    if settings.collect.by == "polling":
        from streaming.collect.metrics import PollMetrics
        from streaming.collect.polling.collector import PollingCollector

        PollingCollector(settings, stop, PollMetrics(registry)).run()
    else:
        from streaming.collect.collector import Collector
        from streaming.collect.metrics import CollectMetrics

        Collector(settings, stop, metrics=CollectMetrics(registry, lag=settings.collect.lag_metrics)).run()


@long_running("rebalance-monitor run --bootstrap-servers kafka:9092 --checkpoint ./state")
def run(
    session: Session,
    *,
    checkpoint: str = checkpoint_option("Folder or URL of offsets and state.", "rebalance-checkpoint"),
    coordinator_log: options.CoordinatorLogs = None,
    port: int = option("PORT", "Port of the page and the API.", 8686),
    take_over: bool = flag("--take-over", "End a running collector with the same id."),
) -> None:
    """Run collector, Spark job and web service in one process group, on one host.

    In production each is a deployment of its own: collect, stream and serve.
    """
    stop, settings = session.stop, session.settings
    from streaming.kafka.clients import check_reachable
    from streaming.kafka.heartbeats import require_no_collector
    from streaming.kafka.topics import ensure_topics
    from streaming.process.children import Child, ChildProcesses
    from streaming.serve.server import open_socket
    from streaming.spark.checkpoint import require_unused

    # Check everything that could keep a component from starting before another collector is ended.
    open_socket("127.0.0.1", port).close()
    require_unused(checkpoint)
    check_reachable(settings.kafka)
    if not take_over:
        require_no_collector(settings, stop)
    ensure_topics(settings)
    components = {
        "collect": [word for path in coordinator_log or () for word in ("--coordinator-log", str(path))],
        "stream": ["--checkpoint", checkpoint],
        "serve": ["--port", str(port)],
    }
    with ChildProcesses() as children:
        for name, words in components.items():
            if not stop.is_set():
                children.add(Child(name, ["streaming", name, *session.arguments, *words]))
        children.watch(stop, lambda name: require_no_collector(settings, stop) if name == "collect" else None)


@long_running("rebalance-monitor serve --bootstrap-servers kafka:9092 --port 8686")
def serve(
    session: Session,
    *,
    host: str = option("HOST", "Address to listen on.", "127.0.0.1"),
    port: int = option("PORT", "Port to listen on; 0: any free port.", 8686, min=0, max=65535),
    token_file: Path | None = option("FILE", "Require a bearer token from FILE, one a line.", None),
    trust_header: str | None = option("NAME", "Header with the user's name, set by a proxy.", None),
    trusted_proxies: list[str] | None = option(
        "ADDRESS", "Proxy that may set that header: an address or a network. Repeatable.", None, "--trusted-proxy"
    ),
    access_log: bool = flag("--access-log", "Log every request."),
    database: Path | None = option("FILE", "History file.", None, show_default="in your home"),
    keep: int = duration_option("--keep", "Drop rounds older than this: 12h, 30d, 8w.", "30d"),
    keep_mib: int = option("MIB", "Drop the oldest rounds when the history is larger.", 1024, min=1),
    max_clients: int = option("N", "Most clients of the feed at once.", 1000, min=1),
) -> None:
    """Serve the page, the live feed, the JSON API and Prometheus metrics."""
    from streaming.kafka.background_reader import BackgroundReader
    from streaming.kafka.heartbeats import HeartbeatTracker
    from streaming.kafka.lag_reader import LagReader
    from streaming.process.watchdog import Watchdog
    from streaming.serve.clusters import Cluster, ServeOptions
    from streaming.serve.history import Retention
    from streaming.serve.security import TrustedProxies
    from streaming.serve.server import FeedServer
    from streaming.serve.source import Source

    if trust_header is None and trusted_proxies:
        raise BadInput(f"--trusted-proxy {trusted_proxies[0]}: name the header that it sets with --trust-header")
    config = ServeOptions(
        history=database,
        host=host,
        port=port,
        token_file=token_file,
        proxies=None if trust_header is None else TrustedProxies.of(trust_header, trusted_proxies or []),
        access_log=access_log,
        limits=Retention(keep, keep_mib * 2**20),
        max_clients=max_clients,
        levels=tuple(session.settings.slo),
    )
    clusters: list[Cluster] = []
    readers: list[BackgroundReader] = []
    for settings in session.settings.cluster_settings:
        name, heartbeat_tracker, lags = settings.kafka.cluster_name, HeartbeatTracker(settings), LagReader(settings)
        readers += heartbeat_tracker, lags
        history = database.with_stem(f"{database.stem}-{name}") if clusters and database else database
        cluster = Cluster(partial(Source, settings), replace(config, history=history), name=name)
        cluster.freshness, cluster.lags = heartbeat_tracker.freshness, partial(getattr, lags, "groups")
        clusters.append(cluster)
    watchdog = Watchdog(60.0)  # seconds without progress, which the server reports once a second
    server = FeedServer(clusters, config, report_progress=watchdog.report_progress)
    print_line(f"serving {server.address}")
    with watchdog, ExitStack() as stack:  # printed last, so that an error at the start is the only line
        for reader in readers:
            stack.enter_context(reader)
        server.run()
