"""The commands ``mcp`` and ``otlp``: tools for assistants, and traces. Each needs an extra of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from assignors.errors import BadInput
from streaming.cli.options import Session, long_running, offline, option


class ExtraMissing(BadInput):
    """An optional package is not installed."""


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Name the extra that has a missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            f"{name}: no module {error.name}; install it with pip install 'kafka-rebalance-monitor[{name}]'"
        ) from error


@offline("rebalance-monitor mcp --url http://127.0.0.1:8686")
def mcp(
    *,
    url: Annotated[str, option("--url", "URL", "Address of a running `serve`.")] = "http://127.0.0.1:8686",
    token_file: Annotated[Path | None, option("--token-file", "FILE", "File with the token that it requires.")] = None,
) -> None:
    """Answer an assistant's questions over the Model Context Protocol, on standard input and output. Read-only."""
    with _extra("mcp"):
        import mcp as _  # noqa: F401 - so that it is missed before the service is asked

        from streaming.integrations.mcp_tools import ServiceApi, run
    run(ServiceApi(url, token_file))


@long_running("rebalance-monitor otlp --endpoint http://otel-collector:4318")
def otlp(
    session: Session,
    *,
    endpoint: Annotated[
        str | None,
        option("--endpoint", "URL", "OTLP receiver over HTTP. Default: OTEL_EXPORTER_OTLP_ENDPOINT, as in any SDK."),
    ] = None,
) -> None:
    """Export each closed episode as an OpenTelemetry span, until SIGTERM or Ctrl-C."""
    stop, settings = session.stop, session.settings
    with _extra("otlp"):
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        from streaming.integrations.traces import RESOURCE, EpisodeTraces, TraceFollower
    base = endpoint and endpoint.rstrip("/")
    spans = OTLPSpanExporter(endpoint=base and f"{base}/v1/traces")
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=base and f"{base}/v1/metrics"))
    meters = MeterProvider([reader], resource=RESOURCE)
    try:
        TraceFollower(settings, EpisodeTraces(spans, meters), stop).run()
    finally:
        meters.shutdown()
        spans.shutdown()  # type: ignore[no-untyped-call]
