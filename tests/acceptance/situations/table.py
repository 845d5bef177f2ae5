"""Writes the tables of reported episode kinds, by source of evidence, in docs/explanation/episodes.md and trust.md."""

import csv
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, get_args

from benchmarks._document import TRUST_PAGE, describe_machine, write_section
from streaming.records.episodes import Episode, EpisodeKind
from tests.acceptance.situations.downtimes import DowntimeSummary, group_downtimes
from tests.acceptance.situations.real_group import RealGroup, Step
from tests.acceptance.situations.stage import DATA_SOURCES
from tests.acceptance.situations.verdicts import report_errors, unexpected_incidents

_KINDS: Final = TRUST_PAGE.with_name("episodes.md")
_SITUATIONS_FILE: Final = TRUST_PAGE.with_name("situations.csv")


def write(groups: Mapping[str, RealGroup]) -> None:
    """Write the tables of reported episode kinds into the documentation, and a CSV file with each change of a group."""
    steps = [step for group in groups.values() for step in group.steps]
    measured_groups = f"{len(steps)} episodes of {len(groups)} groups of real members, one run"
    note = f"`make test-situations`, {time.strftime('%Y-%m-%d')}, {measured_groups}: {describe_machine()}."
    write_section("kinds", f"{note}\n\n{kinds(steps)}", _KINDS)
    write_section(
        "situations", f"{note} [Each step and view]({_SITUATIONS_FILE.name}).\n\n{summary(groups.values())}", TRUST_PAGE
    )
    complete(groups, _SITUATIONS_FILE)


def complete(groups: Mapping[str, RealGroup], path: Path) -> None:
    """Write the results to the CSV file, with a line for each group, change and source of evidence."""
    header = (
        "situation",
        "happened",
        "view",
        "reported",
        "verdict",
        "partitions_down",
        "bounds_true",
        "lower_of_measured",
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        for name, group in groups.items():
            for view in group.views:
                downtimes = group_downtimes(group, view)
                for number, step in enumerate(group.steps):
                    figures = DowntimeSummary.of(downtime for downtime in downtimes if downtime.change == number)
                    ratio = "" if figures.ratio is None else f"{figures.ratio:.2f}"
                    reported = " + ".join(
                        answer(item, step.kind, proven_text=step.kind) for item in step.episodes[view]
                    )
                    down = (figures.partitions, figures.inside, ratio) if step.is_measured else ("", "", "")
                    lines.writerow((name, step.kind, view, reported, verdict(step, view), *down))


def verdict(step: Step, view: str) -> str:
    """Return the verdict on the report about a change, by one data source: ``right``, ``unknown`` or ``wrong``."""
    if report_errors(step, view):
        return "wrong"
    is_unknown = step.kind != "unknown" and any(episode.kind == "unknown" for episode in step.episodes[view])
    return "unknown" if is_unknown else "right"


def summary(groups: Iterable[RealGroup]) -> str:
    """Return a Markdown table with a row per data source: counts of verdicts and wrong incidents, and downtimes."""
    rows = []
    for view in DATA_SOURCES:
        observed_groups = [group for group in groups if view in group.views]
        verdicts = Counter(verdict(step, view) for group in observed_groups for step in group.steps)
        wrong_incident_count = sum(len(unexpected_incidents(group, view)) for group in observed_groups)
        figures = DowntimeSummary.of(downtime for group in observed_groups for downtime in group_downtimes(group, view))
        ratio = "–" if figures.ratio is None else f"{figures.ratio:.2f}"
        counts = (str(verdicts[verdict_name]) for verdict_name in ("right", "unknown", "wrong"))
        inside = f"{figures.inside} of {figures.partitions}"
        rows.append((view, str(len(observed_groups)), *counts, str(wrong_incident_count), inside, ratio))
    header = (
        *("evidence", "groups", "episodes right", "unknown", "wrong", "wrong incidents"),
        *("downtimes inside their bounds", "lower bound / measured, median"),
    )
    return _markdown_table([header, ("---",) * len(header), *rows])


def kinds(steps: Iterable[Step]) -> str:
    """Return a Markdown table of reported kinds: a row for each expected kind, a column for each data source."""
    kinds_by_scenario: dict[str, dict[str, Counter[str]]] = {}
    for step in steps:
        row = kinds_by_scenario.setdefault(step.kind, {view: Counter() for view in DATA_SOURCES})
        for view, episodes in step.episodes.items():
            row[view].update(answer(episode, step.kind) for episode in episodes)
    shown_kinds = [kind for kind in get_args(EpisodeKind) if kind in kinds_by_scenario]
    rows = [(f"`{kind}`", *(cell(kinds_by_scenario[kind][view]) for view in DATA_SOURCES)) for kind in shown_kinds]
    return _markdown_table([("what happened", *DATA_SOURCES), ("---",) * (1 + len(DATA_SOURCES)), *rows])


def _markdown_table(lines: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def answer(episode: Episode, kind: str, proven_text: str = "yes") -> str:
    """Return a table cell: ``proven_text`` if the episode has this kind, else its kind; with ``?`` if not sure."""
    reported = proven_text if episode.kind == kind else episode.kind
    return reported if episode.sure or reported == "unknown" else f"{reported}?"


def cell(counted_kinds: Counter[str]) -> str:
    """Return a table cell with the reported kinds, most frequent first, with their counts if there are several."""
    if not counted_kinds:
        return "–"
    if len(counted_kinds) == 1:
        return next(iter(counted_kinds))
    return ", ".join(f"{kind} ({times})" for kind, times in counted_kinds.most_common())
