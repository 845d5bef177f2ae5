"""What goes on right now: the demo's views, and the stream's status line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.table import Table

from streaming.cli.output import json_lines, raw_json
from streaming.cli.render import CAUSES, diff_lines
from streaming.kafka.diff_reader import DiffRecord
from streaming.process.plain import warn
from streaming.process.terminal import SafeText, console

if TYPE_CHECKING:
    from streaming.demo.runner import Summary
    from streaming.spark.progress import BatchReport


class JsonView:
    """Diffs on standard output, as they stand in the topic; the rest on standard error if a person reads it."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._write = json_lines()

    def stage(self, text: str) -> None:
        """A line on standard error, in a terminal only."""
        if self._console.is_terminal:
            self._console.print(f"{text} …", style="dim")

    happens = stage

    def page(self, address: str) -> None:
        """A line on standard error, in a terminal only."""
        self.stage(f"the page: {address}")

    def diff(self, record: DiffRecord) -> None:
        """The record's own bytes."""
        self._write(raw_json(record.value))

    def summary(self, summary: Summary) -> None:
        """Only disagreement is worth a line of standard error."""
        warn_of_differences(summary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to give back."""


class TerminalView:
    """Blocks of diffs; what happens right now stands in a status line that updates."""

    def __init__(self) -> None:
        self._console = console(soft_wrap=True)
        self._status = self._console.status("")

    def stage(self, text: str) -> None:
        """The status line; a line of its own where there is no terminal."""
        self._status.update(SafeText(f"{text} …"))
        if not self._console.is_terminal:
            self._console.print(f"{text} …")

    def page(self, address: str) -> None:
        """A line that stays."""
        self._console.print(SafeText.assemble("The page: ", (address, "bold underline")))

    def happens(self, text: str) -> None:
        """A step of the story, beside the diffs it will cause."""
        self._console.print(SafeText(f"› {text}", "blue"))
        self._status.update(SafeText("waiting for what it causes …"))

    def diff(self, record: DiffRecord) -> None:
        """A block."""
        for line in diff_lines(record.diff):
            self._console.print(line)

    def summary(self, summary: Summary) -> None:
        """What was seen, and every disagreement."""
        for line in summary_lines(summary):
            self._console.print(line)
        warn_of_differences(summary)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()


def warn_of_differences(summary: Summary) -> None:
    """A line for each share that a consumer reported otherwise."""
    for difference in summary.agreement.differences:
        warn(f"the consumers disagree: {difference}")


def summary_lines(summary: Summary) -> Iterator[Table | SafeText]:
    """What was seen, by cause and group, and whether the consumers' own callbacks agree."""
    table = Table(title="What happened", title_justify="left", box=None, pad_edge=False)
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
            f"compared with what the consumers' own callbacks reported, {agreement.compared} times: {verdict}",
            "red" if agreement.differences else "green",
        )


@contextmanager
def report_batches(*, every_batch: bool) -> Iterator[Callable[[BatchReport], None]]:
    """What is told of a batch: a log line, or a status line where a person looks on, or nothing."""
    from streaming.spark.progress import log_batch

    screen = console(stderr=True)
    if every_batch or not screen.is_terminal:
        yield log_batch if every_batch else lambda _: None
        return
    with screen.status(SafeText("starting Spark …")) as status:
        events = diffs = 0

        def show(done: BatchReport) -> None:
            nonlocal events, diffs
            events, diffs = events + done.events, diffs + done.diffs
            behind = f", {done.lag:,} behind" if done.lag else ""
            status.update(SafeText(f"{events:,} events, {diffs:,} diffs{behind}"))

        yield show
