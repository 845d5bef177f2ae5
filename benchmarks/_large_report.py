"""Builds the tables of ``make bench-large``."""

import argparse
import statistics
from typing import Any

from benchmarks._document import table

_COMPONENTS = ("collect", "stream", "serve")


def group_table(results: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """Return the Markdown table of costs by the size of the group."""
    heading = ["members", "view", "record to feed, ms", "CPU a write, ms", "membership a write", "diffs a round"]
    heading += ["memory, MB", "group's API", "timeline", "page: open, ms", "a round, ms", "elements"]
    rows = [_large_group_row(result) for result in results]
    description = (
        f"One group of each size, 10 partitions a member, {options.topics} topics, {options.longest} MiB the "
        f"longest record of the topics: one member restarts. Of the coordinator's writes the first "
        f"{options.paced} wait for the one before to be on the feed, the others come at once; of those that only "
        f"go to the new epoch, "
        f"{options.others} do in each of the two. CPU and memory: collect / stream / serve."
    )
    return f"### One group\n\n{description}\n\n{table(heading, rows)}"


def _large_group_row(result: dict[str, Any]) -> list[str]:
    if result["first"] is None:
        return [f"{result['members']:,}", result["why"], *["–"] * 10]
    membership, rounds = _topic(result["bytes"], "membership"), _topic(result["bytes"], "diffs")
    page = result.get("page", {})
    return [
        f"{result['members']:,}",
        _size_text(_topic(result["first bytes"], "membership")[2]),
        f"{statistics.median(result['delays']):,.0f}",
        " / ".join(f"{result['cpu'][name] / result['steps'] * 1000:,.0f}" for name in _COMPONENTS),
        _size_text(membership[1] / result["steps"]),
        _size_text(rounds[1] / max(1, rounds[0])),
        " / ".join(f"{result['memory'][name]:,.0f}" for name in _COMPONENTS),
        *(
            f"{_size_text(size)}, {ms:,.0f} ms"
            for _, size, ms in (result["api"][""], result["api"]["/timeline?limit=300"])
        ),
        *(f"{page[name]:,.0f}" if page else "–" for name in ("open", "a round", "elements then")),
    ]


def rolling_table(results: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """Return the benchmark's Markdown table for many groups in which one member restarts at the same time."""
    heading = ["groups", "events", "diffs", "until on the page", "CPU, s", "events per CPU second", "memory, MB"]
    heading += ["history", "feed", "slowest client behind", "until it has all", "came back", "cut off"]
    rows = [_rolling_row(result) for result in results]
    description = (
        f"In each group of 20 one member restarts, all at once, while {options.clients} clients follow the feed. "
        "CPU and memory: collect / stream / serve; events per CPU second of collect and of stream."
    )
    return f"### Many groups at once\n\n{description}\n\n{table(heading, rows)}"


def _rolling_row(result: dict[str, Any]) -> list[str]:
    events, rounds = _topic(result["bytes"], "membership"), _topic(result["bytes"], "diffs")
    behind, seconds = result["behind"]
    return [
        f"{result['groups']:,}",
        f"{events[0]:,} ({_size_text(events[1])})",
        f"{rounds[0]:,} ({_size_text(rounds[1])})",
        f"{result['seconds']:,.0f} s",
        " / ".join(f"{result['cpu'][name]:,.0f}" for name in _COMPONENTS),
        " / ".join(f"{events[0] / result['cpu'][name]:,.0f}" for name in _COMPONENTS[:2]),
        " / ".join(f"{result['memory'][name]:,.0f}" for name in _COMPONENTS),
        _size_text(result["history"]),
        _size_text(result["last"]["bytes"]),
        f"{behind:,} rounds, {seconds:,.0f} s",
        f"{result['until all clients']:,.0f} s",
        f"{result['last']['resets']:,}",
        f"{result['cut off']:,.0f}",
    ]


def _topic(topics: dict[str, Any], name: str) -> Any:
    return next(counts for topic, counts in topics.items() if topic.endswith(f".{name}"))


def _size_text(count: float) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
