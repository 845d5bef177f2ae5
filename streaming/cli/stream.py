"""The command ``stream`` with its subcommands: the Spark job."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from assignors.errors import BadInput
from streaming.cli import options
from streaming.cli.options import Session, checkpoint_option, duration_option, flag, long_running, offline, option
from streaming.cli.output import answer
from streaming.process import print_line

if TYPE_CHECKING:
    from rich.table import Table

    from streaming.spark.progress import BatchReport
    from streaming.spark.state import InspectedGroup

_log = logging.getLogger(__name__)
#: Ranges of the numbers of buckets and tasks. Every bucket has a row in each tick, and more tasks don't pay off.
_BUCKETS_RANGE, _TASKS_RANGE = {"min": 1, "max": 2**20}, {"min": 1, "max": 100_000}
_RESIZE_HINT, _DEFAULT_BUCKETS = "`stream resize` changes it.", "as in the checkpoint, or 16"
_QUIET = "Seconds without a round after which an episode is closed."
_ListedDiffs = Literal["auto", "all", "changed"]
_DIFFS_HELP = "Members that diffs list; auto: only changed ones in large groups."
_ARCHIVE_HELP = "Archive that `stream archive` wrote, for executors without this package."
stream = typer.Typer(invoke_without_command=True, subcommand_metavar="[COMMAND]")


@stream.callback(
    epilog=options.example("rebalance-monitor stream --bootstrap-servers kafka:9092 --checkpoint /var/lib/monitor")
)
@long_running()
def run_stream(
    session: Session,
    context: typer.Context,
    *,
    checkpoint: str | None = checkpoint_option("Folder or URL of offsets and state; keep it across restarts.", None),
    available_now: bool = flag("--available-now", "Process all events in the topic, then exit 0."),
    max_offsets_per_trigger: int = option("N", "Most events in a batch; bounds memory.", 50_000, min=1, max=2**63 - 1),
    trigger_interval: int | None = duration_option(
        "--trigger-interval", "Time between batches, such as 500ms.", None, minimum=0, show_default="none"
    ),
    buckets: int | None = option(
        "N", f"State buckets that groups share; {_RESIZE_HINT}", None, show_default=_DEFAULT_BUCKETS, **_BUCKETS_RANGE
    ),
    shuffle_partitions: int = option("N", f"Tasks of a batch, for a new checkpoint; {_RESIZE_HINT}", 2, **_TASKS_RANGE),
    forget_after: int = duration_option("--forget-after", "Drop the state of a group that is empty this long.", "7d"),
    episodes: bool | None = flag(
        "--episodes/--no-episodes", "Publish episodes and incidents.", None, show_default="as in the settings, or yes"
    ),
    episode_quiet: int | None = option("S", _QUIET, None, min=1, max=86_400, show_default="as in the settings, or 120"),
    diffs: _ListedDiffs | None = flag("--diffs", _DIFFS_HELP, None, show_default="as in the settings, or auto"),
    master: str = option("URL", "Spark master.", "local[2,4]"),
    archive: Path | None = option("FILE", _ARCHIVE_HELP, None, show_default="no archive"),
    on_data_loss: Literal["stop", "continue", "restart"] = flag(
        "--on-data-loss", "What to do if the topic lost records or is new.", "stop"
    ),
    metrics_host: options.MetricsHost = "127.0.0.1",
    metrics_port: options.MetricsPort = None,
) -> None:
    """Run the Spark job: membership events in; diffs, assignments, episodes, incidents and dead letters out."""
    if context.invoked_subcommand is not None:
        return
    if checkpoint is None:
        raise BadInput("--checkpoint DIR is required: the folder of the job's offsets and state")
    from streaming.cli.doctor import assignment_code
    from streaming.settings.section import changed
    from streaming.spark.job import run
    from streaming.spark.session import SessionOptions
    from streaming.spark.start import StreamOptions

    code = assignment_code()
    _log.log(logging.INFO if code.is_chosen else logging.WARNING, "assignments: %s", code.text)
    settings, quiet_ms = session.settings, None if episode_quiet is None else episode_quiet * 1000
    chosen_options = {"episodes": episodes, "episode_quiet_ms": quiet_ms, "diffs": diffs}
    settings.stream = changed(settings.stream, "stream", **{k: v for k, v in chosen_options.items() if v is not None})
    log_file = None if "://" in checkpoint else Path(checkpoint) / "spark.log"
    job = StreamOptions(
        checkpoint=checkpoint,
        available_now=available_now,
        max_offsets_per_trigger=max_offsets_per_trigger,
        trigger_interval_ms=trigger_interval,
        buckets=buckets,
        forget_after_ms=forget_after,
        session=SessionOptions(master, log_file, shuffle_partitions, verbose=session.verbose, archive=archive),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        on_data_loss=on_data_loss,
    )
    with report_batches(prints_every_batch=session.verbose or session.log_format == "json") as report:
        run(settings, job, session.stop, report)


@stream.command("inspect-state", epilog=options.example("rebalance-monitor stream inspect-state --checkpoint ./state"))
@offline()
def inspect_state(
    *,
    checkpoint: str = checkpoint_option("Checkpoint of a stopped job, or a copy.", ...),
    group: options.GroupFlag = None,
    as_json: options.AsJson = False,
) -> None:
    """List the groups in a checkpoint. No cluster is needed."""
    import msgspec

    from streaming.spark.state import inspect_groups

    states = list(inspect_groups(checkpoint, group))
    if group is not None and not states:
        raise BadInput(f"--group {group!r}: not in the checkpoint")
    answer((msgspec.Raw(state.as_json()) for state in states), [state_table(states)], as_json=as_json)


@stream.command(
    "resize", epilog=options.example("rebalance-monitor stream resize --checkpoint ./state --buckets 256 --dry-run")
)
@offline()
def resize(
    *,
    checkpoint: str = checkpoint_option("Checkpoint of a stopped job.", ...),
    buckets: int | None = option("N", "State buckets.", None, show_default="unchanged", **_BUCKETS_RANGE),
    shuffle_partitions: int | None = option("N", "Tasks of a batch.", None, show_default="unchanged", **_TASKS_RANGE),
    dry_run: bool = flag("--dry-run", "Only print what would be done."),
    as_json: options.AsJson = False,
) -> None:
    """Change the numbers of buckets and shuffle partitions of a stopped checkpoint. No cluster is needed."""
    from streaming.spark.resize import resize

    resize_result = resize(checkpoint, buckets, shuffle_partitions, dry_run=dry_run)
    answer([resize_result], resize_result.lines(), as_json=as_json)


@stream.command("archive", epilog=options.example("rebalance-monitor stream archive --output monitor.tar.gz"))
@offline()
def archive(*, output: Path = option("FILE", "Name of the archive; ends in .tar.gz.", ...)) -> None:
    """Write this package and its dependencies as an archive, for Spark executors that lack them."""
    from streaming.spark.archives import python, write_python

    files = write_python(output)
    size = output.stat().st_size / 1e6
    print_line(f"{output}: {files} files, {size:.0f} MB, for executors with {python()} on this platform")


@contextmanager
def report_batches(*, prints_every_batch: bool) -> "Iterator[Callable[[BatchReport], None]]":
    """Yield a function that reports a finished batch: in a log line, in a status line of a terminal, or not at all."""
    from streaming.process.terminal import SafeText, console
    from streaming.spark.progress import log_batch

    screen = console(stderr=True)
    if prints_every_batch or not screen.is_terminal:
        yield log_batch if prints_every_batch else lambda _: None
        return
    with screen.status(SafeText("starting Spark …")) as status:
        events = diffs = 0

        def show(report: "BatchReport") -> None:
            nonlocal events, diffs
            events, diffs = events + report.events, diffs + report.diffs
            behind = f", {report.lag:,} behind" if report.lag else ""
            status.update(SafeText(f"{events:,} events, {diffs:,} diffs{behind}"))

        yield show


def state_table(states: "Iterable[InspectedGroup]") -> "Table":
    """Return a table with one row per group in a checkpoint."""
    from streaming.process.terminal import table

    rows = (
        (group.group_id, group.bucket, state.protocol, state.assignor, state.generation, len(state.members), group.size)
        for group in states
        if (state := group.tracked.state) is not None
    )
    return table(("group", "bucket", "protocol", "assignor", "generation", "members", "bytes"), rows, box=None)
