"""The command ``demo``: real rebalances of real consumers on this machine, as diffs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.table import Table

from streaming.cli.diff_lines import CAUSES, diff_lines
from streaming.cli.options import Session, command, flag, long_running, option
from streaming.cli.output import json_lines, raw_json
from streaming.process.plain import warn
from streaming.process.terminal import SafeText, console

if TYPE_CHECKING:
    from streaming.demo.runner import Summary
    from streaming.kafka.diff_reader import DiffRecord


_OtherCluster = Annotated[
    str | None,
    option(
        "--bootstrap-servers",
        "HOST:PORT",
        "Run on this cluster, in topics and groups of its own.",
        show_default="an embedded broker",
    ),
]


@command("rebalance-monitor demo --keep-running", "rebalance-monitor demo --duration 60 --json | jq -c .cause")
@partial(long_running, bootstrap_servers=_OtherCluster)
def demo(
    session: Session,
    *,
    duration: Annotated[float, option("--duration", "SECONDS", "Length of the demo.", min=1)] = 60,
    as_json: Annotated[bool, flag("--json", "Print diffs as JSON Lines and nothing else.")] = False,
    keep_running: Annotated[bool, flag("--keep-running", "Run on after the story, until Ctrl-C or SIGTERM.")] = False,
    keep: Annotated[
        Path | None, option("--keep", "DIR", "Keep logs and the consumers' reports in this folder.")
    ] = None,
) -> None:
    """Run real rebalances on this machine and show each diff.

    Starts a broker, an eager and a cooperative group, the collector, the Spark job and the page. The exit status
    is 1 if the diffs differ from the consumers' own callbacks.
    """
    stop, settings = session.stop, session.settings
    from streaming.demo.runner import play, stage_folder

    with ExitStack() as stack:
        folder = stack.enter_context(stage_folder(keep))
        view: JsonView | TerminalView = JsonView() if as_json else TerminalView()
        stack.enter_context(view)
        summary = play(
            duration=duration,
            folder=folder,
            view=view,
            stop=stop,
            settings=settings,
            embedded=session.bootstrap_servers is None,
            keep_running=keep_running,
        )
    view.summary(summary)
    if summary.agreement.differences:
        raise typer.Exit(1)


class JsonView:
    """Prints diffs unchanged to standard output, and the rest to standard error, in a terminal only."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._write = json_lines()

    def stage(self, text: str) -> None:
        """Print a stage of the start."""
        if self._console.is_terminal:
            self._console.print(f"{text} …", style="dim")

    happens = stage

    def page(self, address: str) -> None:
        """Print the page's address."""
        self.stage(f"the page: {address}")

    def diff(self, record: DiffRecord) -> None:
        """Print the record's value."""
        self._write(raw_json(record.value))

    def summary(self, summary: Summary) -> None:
        """Report differences from the consumers' callbacks."""
        warn_of_differences(summary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release nothing."""


class TerminalView:
    """Prints diffs as lines, with the current step in a status line."""

    def __init__(self) -> None:
        self._console = console(soft_wrap=True)
        self._status = self._console.status("")

    def stage(self, text: str) -> None:
        """Update the status line; print a line where there is no terminal."""
        self._status.update(SafeText(f"{text} …"))
        if not self._console.is_terminal:
            self._console.print(f"{text} …")

    def page(self, address: str) -> None:
        """Print the page's address."""
        self._console.print(SafeText.assemble("The page: ", (address, "bold underline")))

    def happens(self, text: str) -> None:
        """Print a step of the demo, above the diffs that it causes."""
        self._console.print(SafeText(f"› {text}", "blue"))
        self._status.update(SafeText("waiting for its diffs …"))

    def diff(self, record: DiffRecord) -> None:
        """Print a diff."""
        for line in diff_lines(record.diff):
            self._console.print(line)

    def summary(self, summary: Summary) -> None:
        """Print counts, and differences from the consumers' callbacks."""
        for line in summary_lines(summary):
            self._console.print(line)
        warn_of_differences(summary)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()


def warn_of_differences(summary: Summary) -> None:
    """Report each share that a consumer's callbacks reported otherwise."""
    for difference in summary.agreement.differences:
        warn(f"the consumers disagree: {difference}")


def summary_lines(summary: Summary) -> Iterator[Table | SafeText]:
    """Yield counts by cause and group, and whether the consumers' callbacks agree."""
    table = Table(title="Rebalances by cause", title_justify="left", box=None, pad_edge=False)
    table.add_column("cause")
    table.add_column("rebalances", justify="right")
    for kind, number in summary.causes.most_common():
        if number:
            table.add_row(CAUSES.get(kind, (kind, ""))[0], str(number))
    yield SafeText()
    yield table
    rounds = ", ".join(f"{group} {number}" for group, number in sorted(summary.rounds.items()))
    yield SafeText(f"rounds: {rounds or 'none'}; partitions moved: {summary.moved}")
    agreement = summary.agreement
    if agreement.compared:
        verdict = f"{len(agreement.differences)} differ" if agreement.differences else "all agree"
        yield SafeText(
            f"compared with the consumers' own callbacks {agreement.compared} times: {verdict}",
            "red" if agreement.differences else "green",
        )
