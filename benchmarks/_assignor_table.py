"""Builds the Markdown tables of ``bench-assignors``."""

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks._assignor_shapes import GroupShape, scaling_group_shapes
from benchmarks._document import BENCHMARKS_PAGE, describe_machine, table

CALL_BUDGET_SECONDS = 1.0
JVM_LIMIT_SECONDS = 30
PEER_LIMIT_SECONDS = 10
PEER_MAX_MEMBERS = 1000  # members: kafka-python takes minutes a row beyond this

#: By protocol: the section of the document, and its title.
SECTIONS = {
    "classic": ("assignors", "## Assignors"),
    "consumer": ("assignors-consumer", "## Assignors of the consumer protocol"),
    "zookeeper": ("assignors-zookeeper", "## Assignors of the old consumer"),
}

#: Milliseconds of this project (``ours``, and ``python`` without native code), of ``jvm`` and of ``peer``; None without
#: a result. ``over``: time after which the JVM was stopped.
Row = dict[str, Any]


def time_cell(milliseconds: float | None) -> str:
    """Return a time (ms) as text for a cell of a table."""
    return "–" if milliseconds is None else f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:.0f}"


def ratio(ours: float, theirs: float | None) -> str:
    """Return this project's time divided by that of another implementation, as text; empty without that time."""
    return "" if theirs is None else f"{ours / theirs:.2f}"


def method_text(seed: int, protocol: str, *, processor: bool) -> str:
    """Return the text of the benchmarks page that describes how the assignors were measured."""
    cpu_text = " of processor time (the JVM's of its assigning thread, without its collector)" if processor else ""
    how = (
        f"{describe_machine()}, seed {seed}; fastest of the runs in {CALL_BUDGET_SECONDS:g} s, in ms{cpu_text}; "
        f"JVM: the classes of Kafka {'1.1.1' if protocol == 'zookeeper' else '4.3.1'}, warmed up in the same budget, "
        "serial collector. Unequal: five disjoint buckets of topics. "
    )
    if protocol == "classic":
        how += (
            "Ours: native code where all subscribe alike (range: where nobody has a rack), else Python. "
            f"The JVM is stopped after {JVM_LIMIT_SECONDS} s. kafka-python: no answer within "
            f"{PEER_LIMIT_SECONDS} s, or an exception: –; it is asked up to {PEER_MAX_MEMBERS} members, without "
            "racks. +1 first: the newcomer subscribes to the first bucket, the JVM's slowest case."
        )
    elif protocol == "consumer":
        how += (
            "Native: ours where `kernel/` is built; Python: ours without. JVM: the assignor alone, from the maps "
            "that a coordinator keeps; builder: TargetAssignmentBuilder with the assignor in it, which resolves "
            "names and orders members as ours does, and writes the records of what changed."
        )
    else:
        how += (
            "One thread a topic and consumer. JVM: the assignor alone, as often as it takes until all topics "
            "are answered for, from what it has read from ZooKeeper. These look at nothing that is owned: "
            "+1 is one consumer more."
        )
    how += " Memory that was used stays with both: the JVM's heap, and what Python frees."
    return how


def markdown_heading(protocol: str) -> str:
    """Return the heading of a protocol's Markdown table: the line of column names and the line below it."""
    columns = [*SHAPE_COLUMNS, *TIME_COLUMNS[protocol]]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def summary_text(rows: dict[str, Row]) -> str:
    """Return sentences that compare the assignors' times with the JVM's: native code, and Python if it was measured."""
    sentences = [_summary("Ours/JVM", rows, "ours")]
    if any("python" in row for row in rows.values()):
        sentences = [_summary("Native/JVM", rows, "ours"), _summary("Python/JVM", rows, "python")]
    return " ".join(filter(None, sentences))


def _summary(title: str, rows: dict[str, Row], implementation: str) -> str:
    ratios = {name: row[implementation] / row["jvm"] for name, row in rows.items() if row["jvm"] is not None}
    if not ratios:
        return ""
    worst_shape = max(ratios, key=ratios.__getitem__)
    slower_count = sum(ratio > 1 for ratio in ratios.values())
    missing = len(rows) - len(ratios)
    median = sorted(ratios.values())[len(ratios) // 2]
    without = f" The JVM had no result in time in {missing}." if missing else ""
    return (
        f"{title} in {len(ratios)} rows: median {median:.2f}, worst {ratios[worst_shape]:.2f} "
        f"({worst_shape.replace(' | ', ', ')}), slower than the JVM in {slower_count}.{without}"
    )


GROWTH_COLUMNS = ["assignor", "subscriptions", "members × ratio", "ours, ms", "× the row before", "P log M grows by"]


def growth_factors(rows: dict[str, Row]) -> list[list[str]]:
    """Return a table of the growth at each doubling of members: of the time, and of partitions × log members."""
    cells = []
    previous: tuple[GroupShape, float] | None = None
    for shape in scaling_group_shapes():
        ours = rows[str(shape)]["ours"]
        times = growth_limit = ""
        if previous is not None and previous[0].members * 2 == shape.members:
            times = f"{ours / previous[1]:.2f}"
            growth_limit = f"{2 * math.log(shape.members) / math.log(previous[0].members):.2f}"
        kind = "equal" if shape.buckets == 1 else "unequal"
        cells.append([shape.assignor, kind, f"{shape.members}×{shape.ratio}", time_cell(ours), times, growth_limit])
        previous = shape, ours
    return cells


def growth_table(rows: list[list[str]]) -> str:
    """Return a table of the largest growth of time at a doubling of members, per assignor and subscription pattern."""
    kinds: dict[tuple[str, str], list[list[str]]] = {}
    for cells in rows:
        kinds.setdefault((cells[0], cells[1]), []).append(cells)
    lines = []
    for kind, kind_cells in kinds.items():
        largest_growth_row = max(kind_cells, key=lambda cells: float(cells[4] or 0))
        lines.append([*kind, kind_cells[-1][3], largest_growth_row[4], largest_growth_row[5]])
    return table(["assignor", "subscriptions", "largest group, ms", "most, × a doubling", "P log M grows by"], lines)


#: Columns of a CSV file: the first six are the shape's name.
SHAPE_COLUMNS = ["assignor", "members × ratio", "topics", "subscriptions", "change", "racks"]
TIME_COLUMNS = {
    "classic": ["ours", "JVM", "ours/JVM", "kafka-python", "ours/kafka-python"],
    "consumer": ["native", "Python", "JVM", "native/JVM", "Python/JVM", "builder", "native/builder"],
    "zookeeper": ["ours", "JVM", "ours/JVM"],
}


def csv_path(name: str) -> Path:
    """Return the path of the CSV file, beside the page, that contains every row of a section."""
    return BENCHMARKS_PAGE.with_name(f"benchmarks-{name}.csv")


def read_rows(path: Path) -> dict[str, list[str]]:
    """Return the rows of a table's CSV file as cells, by the name of the measured group."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {" | ".join(cells[:6]): cells for cells in list(csv.reader(file))[1:]}


def write_rows(path: Path, header: list[str], rows: Iterable[list[str]]) -> None:
    """Write the header and rows of a table into a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def parse_times(cells: list[str], protocol: str) -> Row:
    """Return the measured times in a row of the table, by column; None for a time that is missing or too long."""
    names = ["ours", "python", "jvm"] if protocol == "consumer" else ["ours", "jvm"]
    return {
        name: None if time_cell == "–" or time_cell.startswith(">") else float(time_cell)
        for name, time_cell in zip(names, cells[6:], strict=False)
    }


def overview_table(rows: dict[str, list[str]], protocol: str) -> str:
    """Return a table with a row per assignor and subscription pattern: ratios to the JVM, and the largest group."""
    kinds: dict[tuple[str, str], list[list[str]]] = {}
    for cells in rows.values():
        kinds.setdefault((cells[0], cells[3]), []).append(cells)
    lines = []
    for kind, kind_cells in kinds.items():
        times = [parse_times(cells, protocol) for cells in kind_cells]
        ratios = sorted(row["ours"] / row["jvm"] for row in times if row["jvm"] is not None)
        slowest = max(times, key=lambda row: float(row["ours"]))
        slowest_shape = kind_cells[times.index(slowest)][1]
        shown = [f"{ratio:.2f}" for ratio in (ratios[len(ratios) // 2], ratios[-1])] if ratios else ["–", "–"]
        lines.append([*kind, str(len(kind_cells)), *shown, f"{time_cell(slowest['ours'])} ({slowest_shape})"])
    title = ["assignor", "subscriptions", "rows", "ours/JVM, median", "ours/JVM, worst", "our slowest, ms"]
    return table(title, lines)


def csv_cells(name: str, row: Row, protocol: str) -> list[str]:
    """Return the CSV cells of one measured case: the parts of its name, its times and their ratios."""
    ours, jvm, peer = row["ours"], row["jvm"], row["peer"]
    if protocol == "consumer":
        python = row["python"]
        times = [time_cell(ours), time_cell(python), time_cell(jvm), ratio(ours, jvm), ratio(python, jvm)]
        return [*name.split(" | "), *times, time_cell(peer), ratio(ours, peer)]
    jvm_stopped_after_ms = row.get("over")  # the JVM was stopped after this many ms
    theirs = [time_cell(jvm), ratio(ours, jvm)]
    if jvm_stopped_after_ms is not None:
        theirs = [f">{jvm_stopped_after_ms}", f"<{math.ceil(100 * ours / jvm_stopped_after_ms) / 100:.2f}"]
    peer_cells = [time_cell(peer), ratio(ours, peer)] if protocol == "classic" else []
    return [*name.split(" | "), time_cell(ours), *theirs, *peer_cells]


def table_line(name: str, row: Row, protocol: str) -> str:
    """Return the measurements of one group as a line of a Markdown table."""
    return f"| {' | '.join(csv_cells(name, row, protocol))} |"
