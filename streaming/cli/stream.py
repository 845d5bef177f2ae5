"""``rebalance-monitor stream``: the Spark job."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assignors.errors import BadInput
from streaming.cli.options import (
    AsJson,
    MetricsHost,
    MetricsPort,
    OnlyGroup,
    Session,
    checkpoint_option,
    command,
    long_running,
    offline,
)

_log = logging.getLogger(__name__)


class OnDataLoss(StrEnum):
    """What to do when records are gone."""

    stop = "stop"
    continue_ = "continue"
    restart = "restart"


class StateStore(StrEnum):
    """Where Spark keeps the state."""

    memory = "memory"
    rocksdb = "rocksdb"


class Diffs(StrEnum):
    """Whom diffs name."""

    auto = "auto"
    all = "all"
    changed = "changed"


class NoCheckpoint(BadInput):
    """`stream` was not told where its checkpoint is."""


_Checkpoint = Annotated[str | None, checkpoint_option("Offsets and state: keep it across restarts.")]
_AvailableNow = Annotated[bool, typer.Option("--available-now", help="Process what is there, then exit 0.")]
_MaxOffsets = Annotated[
    int,
    typer.Option("--max-offsets-per-trigger", metavar="N", help="Events a batch at most: it bounds memory."),
]
_BatchSeconds = Annotated[
    float,
    typer.Option(
        "--batch-seconds", metavar="S", help="Batches that take longer get fewer events, and more again."
    ),
]
_TriggerInterval = Annotated[
    str | None,
    typer.Option(
        "--trigger-interval",
        metavar="TIME",
        help="Time between batches, as '500ms'.",
        show_default="none",
    ),
]
_Buckets = Annotated[
    int | None,
    typer.Option(
        "--buckets",
        metavar="N",
        help="State blobs that groups share; `stream resize` changes it.",
        show_default="the checkpoint's, or 16",
    ),
]
_ShufflePartitions = Annotated[
    int,
    typer.Option(
        "--shuffle-partitions",
        metavar="N",
        help="Tasks of a batch in a new checkpoint; `stream resize` changes it.",
    ),
]
_StateStore = Annotated[
    StateStore | None,
    typer.Option(
        "--state-store",
        help="State on the JVM's heap, or in RocksDB's files beside it; `stream resize` changes it.",
        show_default="the checkpoint's, or memory",
    ),
]
_ForgetAfter = Annotated[
    str,
    typer.Option("--forget-after", help="State keeps a group that is empty this long: 12h, 7d, 8w."),
]
_Episodes = Annotated[
    bool | None,
    typer.Option(
        "--episodes/--no-episodes",
        help="Tell rounds that belong together as episodes.",
        show_default="the settings', or --episodes",
    ),
]
_EpisodeQuiet = Annotated[
    int | None,
    typer.Option(
        "--episode-quiet",
        metavar="S",
        min=1,
        max=86_400,
        help="An episode is over when its group was quiet this long.",
        show_default="the settings', or 120",
    ),
]
_Diffs = Annotated[
    Diffs | None,
    typer.Option(
        "--diffs",
        help="Whom diffs name: all members, or those that changed; auto: these in large groups.",
        show_default="the settings', or auto",
    ),
]
_Master = Annotated[str, typer.Option("--master", metavar="URL", help="Spark's master.")]
_OnDataLoss = Annotated[
    OnDataLoss, typer.Option("--on-data-loss", help="When the topic lost records, or is a new one.")
]
_Archive = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        metavar="FILE",
        help="Of `stream archive`: for a cluster whose executors lack this package.",
        show_default="they have it",
    ),
]


@command("Example: rebalance-monitor stream --bootstrap-servers kafka:9092 --checkpoint /var/lib/monitor")
@long_running
def stream(
    session: Session,
    context: typer.Context,
    *,
    checkpoint: _Checkpoint = None,
    available_now: _AvailableNow = False,
    max_offsets_per_trigger: _MaxOffsets = 50_000,
    batch_seconds: _BatchSeconds = 20.0,
    trigger_interval: _TriggerInterval = None,
    buckets: _Buckets = None,
    state_store: _StateStore = None,
    shuffle_partitions: _ShufflePartitions = 2,
    forget_after: _ForgetAfter = "7d",
    episodes: _Episodes = None,
    episode_quiet: _EpisodeQuiet = None,
    diffs: _Diffs = None,
    master: _Master = "local[2,4]",
    archive: _Archive = None,
    on_data_loss: _OnDataLoss = OnDataLoss.stop,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
) -> None:
    """Run the Spark job: membership events in; diffs, latest assignments, episodes and dead letters out."""
    if context.invoked_subcommand is not None:
        return
    if checkpoint is None:
        raise NoCheckpoint("--checkpoint DIR is needed: the folder for the job's offsets and state")
    from streaming.cli.live import report_batches
    from streaming.cli.options import duration_ms
    from streaming.spark.job import run
    from streaming.spark.options import StreamOptions
    from streaming.spark.session import SessionOptions

    _log_who_decides()
    settings = session.settings.telling(
        episodes,
        None if episode_quiet is None else episode_quiet * 1000,
        None if diffs is None else diffs.value,
    )
    jvm = SessionOptions(
        master=master,
        log_file=Path(checkpoint) / "spark.log" if "://" not in checkpoint else None,
        shuffle_partitions=shuffle_partitions,
        verbose=session.verbose,
        archive=archive,
    )
    options = StreamOptions(
        checkpoint=checkpoint,
        available_now=available_now,
        max_offsets_per_trigger=max_offsets_per_trigger,
        batch_seconds=batch_seconds,
        trigger_interval=trigger_interval,
        buckets=buckets,
        state_store=settings.stream.state_store if state_store is None else state_store.value,
        forget_after_ms=duration_ms(forget_after, "--forget-after"),
        session=jvm,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        on_data_loss=on_data_loss.value,
    )
    with report_batches(every_batch=session.verbose or session.log_format == "json") as report:
        run(settings, options, session.stop, report)


def _log_who_decides() -> None:
    """Log what computes assignments: the native code that was installed, or Python."""
    from streaming.checks.kernel import decider

    found = decider()
    _log.log(logging.INFO if found.meant else logging.WARNING, "assignments: %s", found.text)


@stream.command(
    "inspect-state", epilog="Example: rebalance-monitor stream inspect-state --checkpoint ./state"
)
@offline
def inspect_state(
    *,
    checkpoint: Annotated[
        str,
        checkpoint_option("Of a job that is stopped, or a copy."),
    ],
    group: OnlyGroup = None,
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint knows of its groups. No cluster is needed."""
    import msgspec

    from streaming.cli.output import json_lines
    from streaming.cli.render import state_table
    from streaming.process.terminal import console
    from streaming.spark.state import NoState, inspect

    found = list(inspect(checkpoint, group))
    if group is not None and not found:
        raise NoState(f"--group {group!r}: the checkpoint does not know it")
    if not as_json:
        console().print(state_table(found))
        return
    write = json_lines()
    for one in found:
        write(msgspec.Raw(one.as_json()))


@stream.command(
    "resize", epilog="Example: rebalance-monitor stream resize --checkpoint ./state --buckets 256 --dry-run"
)
@offline
def resize(
    *,
    checkpoint: Annotated[
        str,
        checkpoint_option("Of a job that is stopped."),
    ],
    buckets: Annotated[
        int | None,
        typer.Option(
            "--buckets", metavar="N", help="State blobs that groups share.", show_default="as it has"
        ),
    ] = None,
    shuffle_partitions: Annotated[
        int | None,
        typer.Option("--shuffle-partitions", metavar="N", help="Tasks of a batch.", show_default="as it has"),
    ] = None,
    state_store: Annotated[
        StateStore | None,
        typer.Option("--state-store", help="Where Spark keeps the state.", show_default="as it has"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a stopped checkpoint other numbers of buckets and shuffle partitions, or another state store.

    No cluster is needed.
    """
    from streaming.cli.output import json_lines
    from streaming.process.plain import say
    from streaming.spark.resize import resize

    done = resize(
        checkpoint,
        buckets,
        shuffle_partitions,
        None if state_store is None else state_store.value,
        dry_run=dry_run,
    )
    if as_json:
        json_lines()(done.as_json())
    else:
        for line in done.lines():
            say(line)


@stream.command("archive", epilog="Example: rebalance-monitor stream archive --output monitor.tar.gz")
@offline
def archive(
    *, output: Annotated[Path, typer.Option("--output", metavar="FILE", help="A name ending in .tar.gz.")]
) -> None:
    """Write what a cluster's executors need to run the job, for those that have no such package installed."""
    from streaming.process.plain import say
    from streaming.spark.archive import python, write

    files = write(output)
    size = output.stat().st_size / 1e6
    say(f"{output}: {files} files, {size:.0f} MB, for executors with {python()} on this platform")


@stream.command("prepare", epilog="Example: rebalance-monitor stream prepare")
@offline
def prepare() -> None:
    """Keep the classes that Spark loads, so that it starts with a third less work: 170 MB in the cache, once."""
    from streaming.process.plain import say
    from streaming.spark.classes import make

    say(str(make()))
