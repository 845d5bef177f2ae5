"""``rebalance-monitor stream``: the Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assignors.errors import BadInput
from streaming.cli.options import (
    BootstrapServers,
    Config,
    Json,
    LogFormat,
    MetricsHost,
    MetricsPort,
    TopicPrefix,
    Verbose,
)

if TYPE_CHECKING:
    from streaming.spark.progress import BatchReport


class OnDataLoss(StrEnum):
    """What to do when records are gone."""

    stop = "stop"
    continue_ = "continue"
    restart = "restart"


class NoCheckpoint(BadInput):
    """`stream` was not told where its checkpoint is."""


app = typer.Typer(invoke_without_command=True)


@app.callback(
    epilog="Example: rebalance-monitor stream --bootstrap-servers kafka:9092 --checkpoint /var/lib/monitor"
)
def stream(
    context: typer.Context,
    *,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="DIR", help="Offsets and state: keep it across restarts."),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there, then exit 0.")
    ] = False,
    max_offsets_per_trigger: Annotated[
        int,
        typer.Option(
            "--max-offsets-per-trigger", metavar="N", help="Events a batch at most: it bounds memory."
        ),
    ] = 50_000,
    batch_seconds: Annotated[
        float,
        typer.Option(
            "--batch-seconds", metavar="S", help="Batches that take longer get fewer events, and more again."
        ),
    ] = 20.0,
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
    forget_after: Annotated[
        str,
        typer.Option("--forget-after", help="State keeps a group that is empty this long: 12h, 7d, 8w."),
    ] = "7d",
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Spark's master.")] = "local[2,4]",
    on_data_loss: Annotated[
        OnDataLoss, typer.Option("--on-data-loss", help="When the topic lost records, or is a new one.")
    ] = OnDataLoss.stop,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """Run the Spark job: membership events in; diffs, latest assignments and dead letters out."""
    if context.invoked_subcommand is not None:
        return
    if checkpoint is None:
        raise NoCheckpoint("--checkpoint DIR is needed: the folder for the job's offsets and state")
    from streaming.cli.signals import stop_on_signals

    stop = stop_on_signals()
    from streaming.cli.durations import duration_ms
    from streaming.process import log
    from streaming.settings.config import load
    from streaming.spark.job import run
    from streaming.spark.options import StreamOptions
    from streaming.spark.session import SessionOptions

    log.configure(log_format, verbose=verbose)
    log_file = Path(checkpoint) / "spark.log" if "://" not in checkpoint else None
    options = StreamOptions(
        checkpoint=checkpoint,
        available_now=available_now,
        max_offsets_per_trigger=max_offsets_per_trigger,
        batch_seconds=batch_seconds,
        trigger_interval=trigger_interval,
        buckets=buckets,
        forget_after_ms=duration_ms(forget_after, "--forget-after"),
        session=SessionOptions(master=master, log_file=log_file, verbose=verbose),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        on_data_loss=on_data_loss.value,
    )
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    with _report(every_batch=verbose or log_format == "json") as report:
        run(settings, options, stop, report)


@app.command("inspect-state", epilog="Example: rebalance-monitor stream inspect-state --checkpoint ./state")
def inspect_state(
    *,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", metavar="DIR", help="Of a job that is stopped, or a copy.")
    ],
    group: Annotated[str | None, typer.Option("--group", help="Only this group.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show what a checkpoint knows of its groups. No cluster is needed."""
    del verbose  # main looks at it for tracebacks
    from streaming.spark.inspection import NoState, inspect

    found = list(inspect(checkpoint, group))
    if group is not None and not found:
        raise NoState(f"--group {group!r}: the checkpoint does not know it")
    if as_json:
        for one in found:
            print(one.as_json().decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("group", "bucket", "protocol", "assignor", "generation", "members", "bytes", box=None)
    for one in found:
        state = one.tracked.state
        if state is not None:
            values = (state.protocol, state.assignor or "", state.generation, len(state.members), one.size)
            table.add_row(one.group_id, str(one.bucket), *map(str, values))
    Console().print(table)


@contextmanager
def _report(*, every_batch: bool) -> Iterator[Callable[[BatchReport], None]]:
    """What is told of a batch: a log line, or a status line where a person looks on, or nothing."""
    from rich.console import Console

    from streaming.spark.progress import log_batch

    console = Console(stderr=True, highlight=False)
    if every_batch or not console.is_terminal:
        yield log_batch if every_batch else lambda _: None
        return
    with console.status("starting Spark …") as status:
        events = diffs = 0

        def show(done: BatchReport) -> None:
            nonlocal events, diffs
            events, diffs = events + done.events, diffs + done.diffs
            behind = f", {done.lag:,} behind" if done.lag else ""
            status.update(f"{events:,} events, {diffs:,} diffs{behind}")

        yield show
