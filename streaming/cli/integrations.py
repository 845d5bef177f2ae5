"""The commands ``notify``, ``mcp`` and ``otlp``; ``mcp`` and ``otlp`` need an extra of this package."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from assignors.errors import BadInput, OutsideFailure
from streaming.cli import options
from streaming.cli.options import Session, connected, example, long_running, now_ms, offline, option
from streaming.settings.config import Settings
from streaming.settings.notify import NotifyTarget


@contextmanager
def _require_extra(name: str) -> Iterator[None]:
    """Report the pip extra to install if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise BadInput(
            f"{name}: no module {error.name}; install it with pip install 'kafka-rebalance-monitor[{name}]'"
        ) from error


@offline("rebalance-monitor mcp --url http://127.0.0.1:8686")
def mcp(
    *,
    url: str = option("URL", "Address of a running `serve`.", "http://127.0.0.1:8686"),
    token_file: Path | None = option("FILE", "File with the token that it requires.", None),
) -> None:
    """Answer an assistant's questions over the Model Context Protocol, on standard input and output. Read-only."""
    with _require_extra("mcp"):
        from streaming.integrations.mcp_tools import ServiceApi, run
    run(ServiceApi(url, token_file))


@long_running("rebalance-monitor otlp --endpoint http://otel-collector:4318")
def otlp(
    session: Session,
    *,
    endpoint: str | None = option(
        "URL", "OTLP receiver over HTTP. Default: OTEL_EXPORTER_OTLP_ENDPOINT, as in any SDK.", None
    ),
) -> None:
    """Export each closed episode as an OpenTelemetry span, until SIGTERM or Ctrl-C."""
    stop, settings = session.stop, session.settings
    with _require_extra("otlp"):
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        from streaming.integrations.traces import OTLP_RESOURCE, EpisodeTraces, TraceFollower
    base = endpoint and endpoint.rstrip("/")
    span_exporter = OTLPSpanExporter(endpoint=base and f"{base}/v1/traces")
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=base and f"{base}/v1/metrics"))
    meter_provider = MeterProvider([reader], resource=OTLP_RESOURCE)
    try:
        TraceFollower(settings, EpisodeTraces(span_exporter, meter_provider), stop).run()
    finally:
        meter_provider.shutdown()
        span_exporter.shutdown()  # type: ignore[no-untyped-call]


_TEST_TIMEOUT_SECONDS = 15.0
_EXAMPLES = ("rebalance-monitor notify --config monitor.toml", "rebalance-monitor notify test --config monitor.toml")
notify = typer.Typer(invoke_without_command=True, epilog=example(*_EXAMPLES))


@notify.callback()
@long_running()
def notify_command(
    session: Session,
    context: typer.Context,
    *,
    metrics_host: options.MetricsHost = "127.0.0.1",
    metrics_port: options.MetricsPort = None,
) -> None:
    """Send incidents and finished episodes to the receivers of [[notify]], until SIGTERM or Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    stop, settings = session.stop, session.settings
    from prometheus_client import CollectorRegistry

    from streaming.notify.follower import NotifyMetrics
    from streaming.notify.follower import notify as follow
    from streaming.process.service import serve_metrics

    _require_targets(settings)
    registry = CollectorRegistry()
    serve_metrics(registry, metrics_host, metrics_port)
    follow(settings, stop, NotifyMetrics(registry))


@notify.command("test", epilog=example("rebalance-monitor notify test --config monitor.toml --target ops-slack"))
@connected()
def notify_test(settings: Settings, *, target: str | None = option("NAME", "Only this target.", None)) -> None:
    """Send an incident that opens and closes to each target, or to one. The exit status is 3 if a target fails."""
    from streaming.kafka.topic_follower import StopRequested
    from streaming.notify.follower import read_secret
    from streaming.notify.notification import Notification
    from streaming.notify.requests import request
    from streaming.notify.sender import Rejection, Sender
    from streaming.process import print_line

    targets = [item for item in _require_targets(settings) if target in (None, item.name)]
    if not targets:
        names = ", ".join(item.name for item in settings.notify)
        raise BadInput(f"--target {target}: no [[notify]] has this name; known names: {names}")
    now, failures, text = now_ms(), [], "This is a test of kafka-rebalance-monitor's notifications."
    subject = f"rebalance-monitor-test/{now}"

    def wait(seconds: float) -> None:
        time.sleep(min(seconds, max(0.0, by - time.monotonic())))
        if time.monotonic() >= by:
            raise StopRequested

    for receiver in targets:
        by = time.monotonic() + _TEST_TIMEOUT_SECONDS
        sender, secret = Sender(receiver.name, wait, allow_private=receiver.allow_private), read_secret(receiver)
        try:
            for action in ("open", "close"):
                ids = (f"{subject}/{action}", subject)
                notification = Notification(
                    *ids, action, receiver.severity, "test", "test", text, now, receiver.page_url
                )
                sender.send(request(receiver, notification, secret, now))
        except Rejection as error:
            failures.append(f"{receiver.name}: {error}")
        except StopRequested:
            failures.append(f"{receiver.name}: no success within {_TEST_TIMEOUT_SECONDS:g} s")
        else:
            print_line(f"{receiver.name}: delivered")
    if failures:
        raise OutsideFailure("notify test: " + "; ".join(failures))


def _require_targets(settings: Settings) -> list[NotifyTarget]:
    if not settings.notify:
        raise BadInput("no notify target in the settings; add a [[notify]] table to the file of --config")
    return settings.notify
