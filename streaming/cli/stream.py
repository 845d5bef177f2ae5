"""``rebalance-monitor stream``: the Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from streaming.spark.listener import Batch


class OnDataLoss(StrEnum):
    """What to do when records are gone."""

    stop = "stop"
    continue_ = "continue"
    restart = "restart"


app = typer.Typer(invoke_without_command=True)


@app.callback(
    epilog="Example: rebalance-monitor stream --bootstrap-servers kafka:9092 --checkpoint /var/lib/monitor"
)
def stream(
    *,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", metavar="DIR", help="Offsets and state: keep it across restarts.")
    ],
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there, then exit 0.")
    ] = False,
    max_offsets_per_trigger: Annotated[
        int | None, typer.Option("--max-offsets-per-trigger", metavar="N", help="Events a batch at most.")
    ] = None,
    trigger_interval: Annotated[
        str | None,
        typer.Option(
            "--trigger-interval",
            metavar="TIME",
            help="Time between batches, as '500ms'.",
            show_default="none",
        ),
    ] = None,
    buckets: Annotated[
        int,
        typer.Option(
            "--buckets", metavar="N", help="State blobs that groups share; frozen in the checkpoint."
        ),
    ] = 16,
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Spark's master.")] = "local[2]",
    on_data_loss: Annotated[
        OnDataLoss, typer.Option("--on-data-loss", help="When the topic lost records, or is a new one.")
    ] = OnDataLoss.stop,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Run the Spark job: membership events in; diffs, latest assignments and dead letters out."""
    from streaming.cli.signals import stop_on_signals

    stop = stop_on_signals()
    from streaming import log
    from streaming.config import load
    from streaming.spark.job import StreamOptions, run
    from streaming.spark.session import SessionOptions

    log.configure(log_format, verbose=verbose)
    log_file = Path(checkpoint) / "spark.log" if "://" not in checkpoint else None
    options = StreamOptions(
        checkpoint=checkpoint,
        available_now=available_now,
        max_offsets_per_trigger=max_offsets_per_trigger,
        trigger_interval=trigger_interval,
        buckets=buckets,
        session=SessionOptions(master=master, log_file=log_file, verbose=verbose),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        on_data_loss=on_data_loss.value,
    )
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    with _report(every_batch=verbose or log_format == "json") as report:
        run(settings, options, stop, report)


@contextmanager
def _report(*, every_batch: bool) -> Iterator[Callable[[Batch], None]]:
    """What is told of a batch: a log line, or a status line where a person looks on, or nothing."""
    from rich.console import Console

    from streaming.spark.listener import log_batch

    console = Console(stderr=True, highlight=False)
    if every_batch or not console.is_terminal:
        yield log_batch if every_batch else lambda _: None
        return
    with console.status("starting Spark …") as status:
        events = diffs = 0

        def show(done: Batch) -> None:
            nonlocal events, diffs
            events, diffs = events + done.events, diffs + done.diffs
            behind = f", {done.lag:,} behind" if done.lag else ""
            status.update(f"{events:,} events, {diffs:,} diffs{behind}")

        yield show
