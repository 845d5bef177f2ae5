"""The tables of ``bench-assignors``."""

from __future__ import annotations

import math
from typing import Any

from benchmarks._assignor_shapes import Shape, doubling
from benchmarks._document import machine, table

BUDGET_SECONDS = 1.0
JVM_LIMIT_SECONDS = 30
PEER_LIMIT_SECONDS = 10
PEER_LARGEST = 1000  # members: beyond, kafka-python takes minutes a row

#: By protocol: the section of the document, and its title.
SECTIONS = {
    "classic": ("assignors", "## Assignors"),
    "consumer": ("assignors-consumer", "## Assignors of the consumer protocol"),
    "zookeeper": ("assignors-zookeeper", "## Assignors of the old consumer"),
}

#: Milliseconds: ``ours``, ``python`` (ours without native code, where there is any), ``jvm``, ``peer``; None where
#: there was no answer. ``over``: when the JVM was stopped.
Row = dict[str, Any]


def cell(milliseconds: float | None) -> str:
    """A time as a table shows it."""
    return (
        "–"
        if milliseconds is None
        else f"{milliseconds:.3g}"
        if milliseconds < 1000
        else f"{milliseconds:.0f}"
    )


def ratio(ours: float, theirs: float | None) -> str:
    """How long we take in units of the other."""
    return "" if theirs is None else f"{ours / theirs:.2f}"


def header(seed: int, protocol: str, *, processor: bool) -> list[str]:
    """What was measured and how, and the head of the table."""
    spent = (
        " of processor time (the JVM's of its assigning thread, without its collector)" if processor else ""
    )
    how = (
        f"{machine()}, seed {seed}; fastest of as many runs as fit into {BUDGET_SECONDS:g} s, in ms{spent}; JVM: "
        f"the classes of Kafka {'1.1.1' if protocol == 'zookeeper' else '4.3.1'}, warmed up in the same budget, "
        "serial collector. Unequal: five disjoint buckets of topics. "
    )
    if protocol == "classic":
        how += (
            "Ours: native code where all subscribe alike (range: where nobody has a rack), else Python. "
            f"The JVM is stopped after {JVM_LIMIT_SECONDS} s. kafka-python: no answer within "
            f"{PEER_LIMIT_SECONDS} s, or an exception: –; it is asked up to {PEER_LARGEST} members, without "
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
    times = {
        "classic": "ours | JVM | ours/JVM | kafka-python | ours/kafka-python",
        "consumer": "native | Python | JVM | native/JVM | Python/JVM | builder | native/builder",
        "zookeeper": "ours | JVM | ours/JVM",
    }[protocol]
    return [
        how,
        "",
        f"| assignor | members × ratio | topics | subscriptions | change | racks | {times} |",
        f"|---|---|---:|---|---|---|{'---:|' * (times.count('|') + 1)}",
    ]


def summary(rows: dict[str, Row]) -> str:
    """The ratios to the JVM in a sentence, and in another those without native code."""
    sentences = [_summary("Ours/JVM", rows, "ours")]
    if any("python" in row for row in rows.values()):
        sentences = [_summary("Native/JVM", rows, "ours"), _summary("Python/JVM", rows, "python")]
    return " ".join(filter(None, sentences))


def _summary(title: str, rows: dict[str, Row], whose: str) -> str:
    ratios = {name: row[whose] / row["jvm"] for name, row in rows.items() if row["jvm"] is not None}
    if not ratios:
        return ""
    worst = max(ratios, key=ratios.__getitem__)
    slower = sum(ratio > 1 for ratio in ratios.values())
    missing = len(rows) - len(ratios)
    median = sorted(ratios.values())[len(ratios) // 2]
    without = f" The JVM had no answer in {missing}." if missing else ""
    return (
        f"{title} over {len(ratios)} rows: median {median:.2f}, above 1 in {slower}, at most {ratios[worst]:.2f} "
        f"({worst.replace(' | ', ', ')}).{without}"
    )


def growth(rows: dict[str, Row]) -> str:
    """Each doubling's time over that of the size before, beside what partitions × log members would give."""
    cells = []
    previous: tuple[Shape, float] | None = None
    for shape in doubling():
        ours = rows[str(shape)]["ours"]
        times = allowed = ""
        if previous is not None and previous[0].members * 2 == shape.members:
            times = f"{ours / previous[1]:.2f}"
            allowed = f"{2 * math.log(shape.members) / math.log(previous[0].members):.2f}"
        kind = "equal" if shape.buckets == 1 else "unequal"
        cells.append([shape.assignor, kind, f"{shape.members}×{shape.ratio}", cell(ours), times, allowed])
        previous = shape, ours
    title = [
        "assignor",
        "subscriptions",
        "members × ratio",
        "ours, ms",
        "× the row before",
        "P log M grows by",
    ]
    return table(title, cells)


#: Behind the first cell of a row that was measured otherwise than the table says.
OLDER = " °"


def merged(
    old: str, head: list[str], new: dict[str, str], order: list[str]
) -> tuple[list[str], dict[str, str]]:
    """A documented table with ``new`` rows in it, by name: its head, and its rows in ``order``.

    Rows of before whose table was headed otherwise are marked, and the old head follows the new one.
    """
    how, rows, older = "", dict[str, str](), ""
    for line in old.splitlines():
        if line.startswith("|"):
            rows[" | ".join(line.strip("| ").split(" | ")[:6]).replace(OLDER, "")] = line
        elif line.startswith(OLDER.strip()):
            older = line
        elif line and not line.startswith(("#", "Ours/", "Native/")):
            how = line
    kept = {name: rows[name] for name in order if name in rows and name not in new}
    if how != head[0]:
        older = older or f"{OLDER.strip()}: measured before, otherwise. {how}"
        kept = {
            name: line if OLDER in line else line.replace(" | ", f"{OLDER} | ", 1)
            for name, line in kept.items()
        }
    if any(OLDER in line for line in kept.values()):
        head = [head[0], "", older, *head[1:]]
    both = kept | new
    return head, {name: both[name] for name in order if name in both}


def read_line(line: str, protocol: str) -> Row:
    """What :func:`line_of` wrote, as far as the summary needs it."""
    names = ["ours", "python", "jvm"] if protocol == "consumer" else ["ours", "jvm"]
    cells = line.strip("| ").split(" | ")[6:]
    return {
        name: None if cell == "–" or cell.startswith(">") else float(cell)
        for name, cell in zip(names, cells, strict=False)
    }


def line_of(name: str, row: Row, protocol: str) -> str:
    """A row of the table."""
    ours, jvm, other = row["ours"], row["jvm"], row["peer"]
    if protocol == "consumer":
        python = row["python"]
        cells = [cell(ours), cell(python), cell(jvm), ratio(ours, jvm), ratio(python, jvm)]
        return f"| {' | '.join([name, *cells, cell(other), ratio(ours, other)])} |"
    over = row.get("over")  # the JVM was stopped: how long it would have taken is known from below
    theirs = (
        [cell(jvm), ratio(ours, jvm)]
        if over is None
        else [f">{over}", f"<{math.ceil(100 * ours / over) / 100:.2f}"]
    )
    cells = [name, cell(ours), *theirs]
    if protocol == "classic":
        cells += [cell(other), ratio(ours, other)]
    return f"| {' | '.join(cells)} |"
