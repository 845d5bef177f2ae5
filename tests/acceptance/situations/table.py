"""The tables of docs/explanation/episodes.md and trust.md: the kind that each view reports for every step."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, get_args

from benchmarks._document import TRUST, machine, put
from streaming.records.episodes import Episode, EpisodeKind
from tests.acceptance.situations.downtimes import Figures, of_life
from tests.acceptance.situations.life import RealGroup, Step
from tests.acceptance.situations.stage import VIEWS
from tests.acceptance.situations.verdicts import wrong, wrong_incidents

_KINDS: Final = TRUST.with_name("episodes.md")
_ALL: Final = TRUST.with_name("situations.csv")


def write(lives: Mapping[str, RealGroup]) -> None:
    """Put the reported kinds of these steps into the documents, and all data into the CSV file."""
    steps = [step for life in lives.values() for step in life.steps]
    groups = f"{len(steps)} episodes of {len(lives)} groups of real members, one run"
    note = f"`make test-situations`, {time.strftime('%Y-%m-%d')}, {groups}: {machine()}."
    put("kinds", f"{note}\n\n{kinds(steps)}", _KINDS)
    put("situations", f"{note} [Each step and view]({_ALL.name}).\n\n{summary(lives.values())}", TRUST)
    complete(lives, _ALL)


def complete(lives: Mapping[str, RealGroup], path: Path) -> None:
    """Write a line for each history, step and view."""
    header = ("situation", "happened", "view", "said", "verdict", "partitions_down", "bounds_true", "lower_of_measured")
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        for name, life in lives.items():
            for view in life.views:
                found = of_life(life, view)
                for number, step in enumerate(life.steps):
                    figures = Figures.of(one for one in found if one.act == number)
                    ratio = "" if figures.ratio is None else f"{figures.ratio:.2f}"
                    said = " + ".join(answer(one, step.kind, yes=step.kind) for one in step.told[view])
                    down = (figures.partitions, figures.inside, ratio) if step.is_measured else ("", "", "")
                    lines.writerow((name, step.kind, view, said, verdict(step, view), *down))


def verdict(step: Step, view: str) -> str:
    """Return right, unknown or wrong."""
    if wrong(step, view):
        return "wrong"
    is_unknown = step.kind != "unknown" and any(one.kind == "unknown" for one in step.told[view])
    return "unknown" if is_unknown else "right"


def summary(lives: Iterable[RealGroup]) -> str:
    """Return a row for each view."""
    rows = []
    for view in VIEWS:
        seen = [life for life in lives if view in life.views]
        verdicts = Counter(verdict(step, view) for life in seen for step in life.steps)
        alarms = sum(len(wrong_incidents(life, view)) for life in seen)
        figures = Figures.of(one for life in seen for one in of_life(life, view))
        ratio = "–" if figures.ratio is None else f"{figures.ratio:.2f}"
        counts = (str(verdicts[one]) for one in ("right", "unknown", "wrong"))
        inside = f"{figures.inside} of {figures.partitions}"
        rows.append((view, str(len(seen)), *counts, str(alarms), inside, ratio))
    header = (
        *("evidence", "groups", "episodes right", "unknown", "wrong", "wrong incidents"),
        *("downtimes inside their bounds", "lower bound / measured, median"),
    )
    return _markdown([header, ("---",) * len(header), *rows])


def kinds(steps: Iterable[Step]) -> str:
    """Return a row for each kind with a column for each view: the counts of reported kinds."""
    called: dict[str, dict[str, Counter[str]]] = {}
    for step in steps:
        row = called.setdefault(step.kind, {view: Counter() for view in VIEWS})
        for view, told in step.told.items():
            row[view].update(answer(one, step.kind) for one in told)
    found = [kind for kind in get_args(EpisodeKind) if kind in called]
    rows = [(f"`{kind}`", *(cell(called[kind][view]) for view in VIEWS)) for kind in found]
    return _markdown([("what happened", *VIEWS), ("---",) * (1 + len(VIEWS)), *rows])


def _markdown(lines: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def answer(episode: Episode, kind: str, yes: str = "yes") -> str:
    """Return the reported kind: ``yes`` if right, else the kind, with ``?`` if it is not sure."""
    said = yes if episode.kind == kind else episode.kind
    return said if episode.sure or said == "unknown" else f"{said}?"


def cell(answers: Counter[str]) -> str:
    """Return the reported kinds, the most frequent first; with counts only if there are several."""
    if not answers:
        return "–"
    if len(answers) == 1:
        return next(iter(answers))
    return ", ".join(f"{said} ({times})" for said, times in answers.most_common())
