"""The command ``demo``: runs real consumers on this machine, and shows their rebalances as diffs."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.table import Table

from streaming.cli.diff_lines import cause_text, diff_lines
from streaming.cli.options import Session, flag, long_running, option, shared_option
from streaming.cli.output import json_lines
from streaming.process import warn
from streaming.process.terminal import SafeText, console, right, table
from streaming.records.codec import raw_json

if TYPE_CHECKING:
    from streaming.demo.runner import DemoSummary
    from streaming.kafka.diff_reader import DiffRecord

_CLUSTER_HELP = "Run on this cluster, in topics and groups of its own."
_DemoBootstrapServers = Annotated[
    str | None, shared_option("--bootstrap-servers", "HOST:PORT", _CLUSTER_HELP, show_default="an embedded broker")
]


@long_running(
    "rebalance-monitor demo --keep-running",
    "rebalance-monitor demo --duration 60 --json | jq -c .cause",
    bootstrap_servers=_DemoBootstrapServers,
)
def demo(
    session: Session,
    *,
    duration: float = option("SECONDS", "Length of the demo.", 60, min=1),
    as_json: bool = flag("--json", "Print diffs as JSON Lines and nothing else."),
    keep_running: bool = flag("--keep-running", "Run on after the last step, until Ctrl-C or SIGTERM."),
    keep: Path | None = option("DIR", "Keep logs and the consumers' reports in this folder.", None),
) -> None:
    """Run real rebalances on this machine and show each diff.

    Starts a broker, an eager and a cooperative group, the collector, the Spark job and the page. The exit status
    is 1 if the diffs differ from the consumers' own callbacks.
    """
    stop, settings = session.stop, session.settings
    from streaming.demo.runner import run_demo

    with ExitStack() as stack:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        folder = keep or Path(stack.enter_context(TemporaryDirectory(prefix="rebalance-demo-")))
        view = stack.enter_context(DemoView(as_json=as_json))
        summary = run_demo(
            duration=duration,
            folder=folder,
            view=view,
            stop=stop,
            settings=settings,
            embedded=session.bootstrap_servers is None,
            keep_running=keep_running,
        )
    view.summary(summary, keep_running=keep_running)
    if summary.agreement.differences:
        raise typer.Exit(1)


class DemoView:
    """Prints the demo's progress messages and diffs; ``as_json``: diffs as JSON, and messages only in a terminal."""

    def __init__(self, *, as_json: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console(stderr=as_json, soft_wrap=True)
        self._write = json_lines() if as_json else None
        self._is_silent = as_json and not self._console.is_terminal
        self._status = self._console.status("")
        self._clock, self._start = clock, clock()

    def stage(self, text: str) -> None:
        """Print a line about the demo's progress at its start or end, with the time since the start."""
        self._print_line(SafeText(f"{self._clock() - self._start:5.1f} s  {text}", "dim"))
        self._status.update(SafeText(f"{text} …"))

    def step(self, text: str) -> None:
        """Print the demo's next action, above the diffs that this action causes."""
        self._print_line(SafeText(f"› {text}", "blue"))
        self._status.update(SafeText("waiting for its diffs …"))

    def diff(self, record: "DiffRecord") -> None:
        """Print a diff."""
        if self._write is not None:
            self._write(raw_json(record.value))
            return
        for line in diff_lines(record.diff):
            self._print_line(line)

    def summary(self, summary: "DemoSummary", *, keep_running: bool = False) -> None:
        """Print the demo's summary, and a warning for each assignment that a consumer's callbacks contradict."""
        if self._write is None:
            for line in summary_lines(summary, keep_running=keep_running):
                self._print_line(line)
        for difference in summary.agreement.differences:
            warn(f"the consumers disagree: {difference}")

    def _print_line(self, line: Table | SafeText) -> None:
        if not self._is_silent:
            self._console.print(line)

    def __enter__(self) -> Self:
        if not self._is_silent:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()


def summary_lines(summary: "DemoSummary", *, keep_running: bool = False) -> Iterator[Table | SafeText]:
    """Yield the demo's summary: rounds by cause and group, whether the consumers' callbacks agree, what to do next."""
    diffs, agreement = summary
    causes = Counter(diff.cause.kind for diff in diffs if diff.round == 1)
    rows = ((cause_text(kind), times) for kind, times in causes.most_common())
    layout: dict[str, Any] = {"title_justify": "left", "box": None, "pad_edge": False}
    yield SafeText()
    yield table(("cause", right("rebalances")), rows, title="Rebalances by cause", **layout)
    rounds = ", ".join(f"{group} {times}" for group, times in sorted(Counter(diff.group_id for diff in diffs).items()))
    yield SafeText(f"rounds: {rounds or 'none'}; partitions moved: {sum(diff.moved for diff in diffs)}")
    if agreement.compared:
        verdict = f"{len(agreement.differences)} differ" if agreement.differences else "all agree"
        yield SafeText(
            f"compared with the consumers' own callbacks {agreement.compared} times: {verdict}",
            "red" if agreement.differences else "green",
        )
    yield SafeText()
    yield SafeText("next: rebalance-monitor run --bootstrap-servers HOST:PORT   your own cluster")
    if not keep_running:
        yield SafeText("      rebalance-monitor demo --keep-running                   the same, with time for the page")
