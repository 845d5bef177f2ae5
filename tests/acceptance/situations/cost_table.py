"""Writes the tables of costs into docs/explanation/episodes.md, and all data into a CSV file beside it."""

import csv
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from benchmarks._document import TRUST_PAGE, describe_machine, table, write_section
from tests.acceptance.situations.cost_comparison import ComparedCost, MeasuredFigure, Summary, summary

_DOCUMENT: Final = TRUST_PAGE.with_name("episodes.md")
_COSTS_FILE: Final = TRUST_PAGE.with_name("costs.csv")
_PROTOCOL_NAMES: Final = {"static": "eager, static", "consumer": "KIP-848", "connect": "Connect sink"}


def write(costs_by_interval: Mapping[int, list[ComparedCost]]) -> None:
    """Write a table of true and reported costs for each commit interval (ms), and all costs into the CSV file."""
    every = [item for interval_costs in costs_by_interval.values() for item in interval_costs]
    inside = sum(item.inside for item in every)
    costs_inside_per_partition = sum(item.is_each_inside for item in every)
    parts = [
        f"`make test-costs`, {time.strftime('%Y-%m-%d')}, {len(every)} rebalances, one run: {describe_machine()}.",
        f"Each figure of the group is inside its bounds in {inside}, each partition's in {costs_inside_per_partition}.",
    ]
    for commit_ms, costs in sorted(costs_by_interval.items()):
        parts += [f"Commits every {commit_ms / 1000:g} s:", rows(costs)]
    write_section("costs", "\n\n".join(parts), _DOCUMENT)
    complete(costs_by_interval, _COSTS_FILE)


def rows(costs: Iterable[ComparedCost]) -> str:
    """Return a Markdown table of reported and measured costs: a row for each protocol, then a row for all."""
    costs_by_protocol: dict[str, list[ComparedCost]] = {}
    for item in costs:
        costs_by_protocol.setdefault(_PROTOCOL_NAMES.get(item.protocol, item.protocol), []).append(item)
    costs_by_protocol["all"] = [item for protocol_costs in costs_by_protocol.values() for item in protocol_costs]
    header = (
        *("protocol", "rebalances", "messages inside", "delay inside", "catch-up inside", "each partition inside"),
        *("with upper bounds", "messages", "upper bound / messages", "closest possible", "worst delay"),
        *("width of its bounds", "closest possible"),
        *("upper bound / messages, steady partition", "upper bound − worst delay, steady partition"),
    )
    return table(header, [_table_row(name, summary(costs)) for name, costs in costs_by_protocol.items()])


def _table_row(name: str, numbers: Summary) -> list[str]:
    return [
        name,
        str(numbers.changes),
        *(str(count) for count in numbers.counts_by_figure.values()),
        str(numbers.inside_per_partition),
        str(numbers.bounded_count),
        "–" if numbers.messages is None else f"{numbers.messages:.0f}",
        _format_ratio(numbers.ratio),
        _format_ratio(numbers.best_ratio),
        _seconds(numbers.delay),
        _seconds(numbers.width),
        _seconds(numbers.best_width),
        _format_ratio(numbers.steady_delay_ratio),
        _seconds(numbers.steady_excess_delay_ms),
    ]


def _format_ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _seconds(ms: float | None) -> str:
    return "–" if ms is None else f"{ms / 1000:.1f} s"


def complete(costs_by_interval: Mapping[int, Iterable[ComparedCost]], path: Path) -> None:
    """Write the costs to the CSV file, with a line for each change of each group."""
    header = ["commit_ms", "group", "protocol", "change", "inside", "each_partition_inside", "caught_up_late_ms"]
    header += [
        f"{name}_{part}" for name in ("messages", "delay_ms", "catch_up_ms") for part in ("true", "lower", "upper")
    ]
    header += [f"{name}_closest_{part}" for name in ("messages", "delay_ms") for part in ("lower", "upper")]
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        for commit_ms, costs in sorted(costs_by_interval.items()):
            for item in costs:
                own = (
                    item.group,
                    item.protocol,
                    item.kind,
                    item.inside,
                    item.is_each_inside,
                    item.consumption_delay_ms,
                )
                figures = (cell for figure in item.figures.values() for cell in _cells(figure))
                cells = (*own, *figures, *item.min_delayed, *item.best_worst_delay)
                lines.writerow([commit_ms, *("" if cell is None else cell for cell in cells)])


def _cells(figure: MeasuredFigure) -> tuple[int | None, ...]:
    return figure.true_value, *figure.bounds
