"""Writes the tables of costs into docs/explanation/episodes.md, and all data into a CSV file beside it."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from benchmarks._document import TRUST_PAGE, describe_machine, table, write_section
from tests.acceptance.situations.cost_comparison import ComparedCost, Figure, Summary, summary

_DOCUMENT: Final = TRUST_PAGE.with_name("episodes.md")
_ALL: Final = TRUST_PAGE.with_name("costs.csv")
_NAMES: Final = {"static": "eager, static", "consumer": "KIP-848", "connect": "Connect sink"}


def write(by_interval: Mapping[int, list[ComparedCost]]) -> None:
    """Write a table of true and reported costs for each commit interval (ms), and all costs into the CSV file."""
    every = [item for of_interval in by_interval.values() for item in of_interval]
    inside, in_each = sum(item.inside for item in every), sum(item.inside_per_partition for item in every)
    parts = [
        f"`make test-costs`, {time.strftime('%Y-%m-%d')}, {len(every)} rebalances, one run: {describe_machine()}.",
        f"Every figure of the group lies inside its bounds in {inside} of them, each partition's in {in_each}.",
    ]
    for commit_ms, costs in sorted(by_interval.items()):
        parts += [f"Commits every {commit_ms / 1000:g} s:", rows(costs)]
    write_section("costs", "\n\n".join(parts), _DOCUMENT)
    complete(by_interval, _ALL)


def rows(costs: Iterable[ComparedCost]) -> str:
    """Return a Markdown table of reported and measured costs: a row for each protocol, then a row for all."""
    by_protocol: dict[str, list[ComparedCost]] = {}
    for item in costs:
        by_protocol.setdefault(_NAMES.get(item.protocol, item.protocol), []).append(item)
    by_protocol["all"] = [item for of_protocol in by_protocol.values() for item in of_protocol]
    header = (
        *("protocol", "rebalances", "messages inside", "delay inside", "catch-up inside", "each partition inside"),
        *("with upper bounds", "messages", "upper bound / messages", "worst delay", "width of its bounds"),
        *("upper bound / messages, steady partition", "upper bound − worst delay, steady partition"),
    )
    return table(header, [_row(name, summary(of_protocol)) for name, of_protocol in by_protocol.items()])


def _row(name: str, numbers: Summary) -> list[str]:
    return [
        name,
        str(numbers.changes),
        *(str(count) for count in numbers.by_figure.values()),
        str(numbers.per_partition),
        str(numbers.bounded),
        "–" if numbers.messages is None else f"{numbers.messages:.0f}",
        _times(numbers.ratio),
        _seconds(numbers.delay),
        _seconds(numbers.width),
        _times(numbers.steady_ratio),
        _seconds(numbers.steady_excess),
    ]


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _seconds(ms: float | None) -> str:
    return "–" if ms is None else f"{ms / 1000:.1f} s"


def complete(by_interval: Mapping[int, Iterable[ComparedCost]], path: Path) -> None:
    """Write the costs to the CSV file, with a line for each change of each group."""
    header = ["commit_ms", "group", "protocol", "change", "inside", "each_partition_inside", "caught_up_late_ms"]
    header += [
        f"{name}_{part}" for name in ("messages", "delay_ms", "catch_up_ms") for part in ("true", "lower", "upper")
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        for commit_ms, costs in sorted(by_interval.items()):
            for item in costs:
                own = (item.group, item.protocol, item.kind, item.inside, item.inside_per_partition, item.late_ms)
                figures = (cell for figure in item.figures.values() for cell in _cells(figure))
                lines.writerow([commit_ms, *("" if cell is None else cell for cell in (*own, *figures))])


def _cells(figure: Figure) -> tuple[int | None, ...]:
    return figure.true, *figure.bounds
