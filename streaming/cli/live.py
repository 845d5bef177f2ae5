"""The demo's views: blocks of diffs under a status line for people, JSON Lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streaming.cli.render import CAUSES, diff_lines
from streaming.kafka.reader import DiffRecord

if TYPE_CHECKING:
    from streaming.demo.runner import Summary


class JsonView:
    """Diffs on standard output, as they stand in the topic; the rest on standard error if a person reads it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

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
        sys.stdout.buffer.write(record.value + b"\n")
        sys.stdout.buffer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to give back."""


class TerminalView:
    """Blocks of diffs; what happens right now stands in a status line that updates."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._status = self._console.status("")

    def stage(self, text: str) -> None:
        """The status line; a line of its own where there is no terminal."""
        self._status.update(f"{text} …")
        if not self._console.is_terminal:
            self._console.print(f"{text} …")

    def page(self, address: str) -> None:
        """A line that stays."""
        self._console.print(Text.assemble("The page: ", (address, "bold underline")))

    def happens(self, text: str) -> None:
        """A step of the story, beside the diffs it will cause."""
        self._console.print(Text(f"› {text}", "blue"))
        self._status.update("waiting for what it causes …")

    def diff(self, record: DiffRecord) -> None:
        """A block."""
        for line in diff_lines(record.diff):
            self._console.print(line)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()


def summary_lines(summary: Summary) -> Iterator[Table | Text]:
    """What was seen, by cause and group, and whether the consumers' own callbacks agree."""
    table = Table(title="What happened", title_justify="left", box=None, pad_edge=False)
    table.add_column("cause")
    table.add_column("rebalances", justify="right")
    for kind, number in summary.causes.most_common():
        if number:
            table.add_row(CAUSES.get(kind, (kind, ""))[0], str(number))
    yield Text()
    yield table
    rounds = ", ".join(f"{group} {number}" for group, number in sorted(summary.rounds.items()))
    yield Text(f"rounds: {rounds or 'none'}; partitions moved: {summary.moved}")
    agreement = summary.agreement
    if agreement.compared:
        verdict = f"{len(agreement.differences)} differ" if agreement.differences else "all agree"
        yield Text(
            f"compared with what the consumers' own callbacks reported, {agreement.compared} times: {verdict}",
            "red" if agreement.differences else "green",
        )
