"""What each kind of episode is called from which evidence: the table in docs/explanation/episodes.md."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, get_args

from benchmarks._document import machine, put
from streaming.wire.episodes import Episode, EpisodeKind
from tests.integration.streaming.episodes.life import Life, Step
from tests.integration.streaming.episodes.stage import VIEWS

_DOCUMENT: Final = Path(__file__).parents[4] / "docs" / "explanation" / "episodes.md"


def write(lives: Iterable[Life], name: str = "kinds", document: Path = _DOCUMENT) -> None:
    """Put the table of what these lives' steps were called into the document."""
    lived = [*lives]
    steps = [step for life in lived for step in life.steps]
    groups = f"{len(steps)} episodes of {len(lived)} groups of real members, one run"
    note = (
        f"`WRITE_EPISODES=1 pytest tests/integration/streaming/episodes`, {time.strftime('%Y-%m-%d')}, {groups}: "
        f"{machine()}."
    )
    put(name, f"{note}\n\n{table(steps)}", document)


def table(steps: Iterable[Step]) -> str:
    """A row a kind, a column a view: how often it was called what."""
    called: dict[str, dict[str, Counter[str]]] = {}
    for step in steps:
        row = called.setdefault(step.kind, {view: Counter() for view in VIEWS})
        for view, told in step.told.items():
            row[view].update(answer(one, step.kind) for one in told)
    kinds = [kind for kind in get_args(EpisodeKind) if kind in called]
    rows = [(f"`{kind}`", *(cell(called[kind][view]) for view in VIEWS)) for kind in kinds]
    lines = [("what happened", *VIEWS), ("---",) * (1 + len(VIEWS)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def answer(episode: Episode, kind: str) -> str:
    """What an episode is called: ``yes``, its kind where it is another one, ``?`` behind what is not sure."""
    said = "yes" if episode.kind == kind else episode.kind
    return said if episode.sure or said == "unknown" else f"{said}?"


def cell(answers: Counter[str]) -> str:
    """The answers, the usual one first; how often only where there are several."""
    if not answers:
        return "–"
    if len(answers) == 1:
        return next(iter(answers))
    return ", ".join(f"{said} ({times})" for said, times in answers.most_common())
