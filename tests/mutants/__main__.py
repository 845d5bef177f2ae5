"""Do the fast tests fail when the code is wrong? ``make mutants SEED=1 SAMPLE=40 ROOM=collect`` tries it.

Of each room the seed draws so many places, one mutation each: Cosmic Ray's operators and those of ``operators.py``.
The tests of the fast tiers that run the mutated statement are run against it, in a copy of the tree, those beside
the module first; the first that fails kills the mutant.

Left out, as no run can tell: annotations (mypy's), arguments of ``@dataclass``, identity in place of equality.
What a person has judged stands in ``judged.toml``: ``equivalent`` (nobody could tell) is counted apart, ``left``
gives a survivor its reason. ``--again`` tries what survived once more: what a test kills that was written since is
counted apart from what was killed when it was drawn. The table goes to docs/development/mutants.md (``--write``).
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.mutants.covered import Covered
from tests.mutants.drawing import ROOT, Mutant, drawn, found_again
from tests.mutants.running import KEPT, copied_tree, killed, say

PAGE = ROOT / "docs" / "development" / "mutants.md"
JUDGED = Path(__file__).with_name("judged.toml")
#: Room → its share of kills asked for, of the mutants that change anything.
ROOMS = {
    **dict.fromkeys(("monitor", "collect", "spark", "protocols", "assignors"), 95),
    **dict.fromkeys(
        ("kafka", "cli", "simulate", "answers", "serve", "wire", "settings", "process", "checks"), 85
    ),
}


@dataclass(frozen=True)
class Result:
    """What came of a mutant: killed, survived, equivalent; since: killed, once there was a test; and why."""

    mutant: Mutant
    outcome: str
    why: str = ""


def judged() -> dict[tuple[str, str, str], tuple[str, str]]:
    """(path, was, became) → (verdict, why), as persons have said."""
    found = tomllib.loads(JUDGED.read_text(encoding="utf-8")) if JUDGED.exists() else {}
    return {
        (one["path"], one["was"], one["became"]): (verdict, one["why"])
        for verdict in ("equivalent", "left")
        for one in found.get(verdict, ())
    }


class Trial:
    """Runs tests against mutants in a copy of the tree, but for those that a person has judged."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._covered = Covered(tree)
        self._judged = judged()

    def drawn(self, room: str, seed: str, sample: int) -> list[Result]:
        """Every drawn mutant of a room with what came of it."""
        found: list[Result] = []
        for number, mutant in enumerate(drawn(room, seed, sample, self._tree), 1):
            found.append(self._result(mutant, "killed"))
            if found[-1].outcome == "survived":
                say(
                    f"{mutant.path}:{mutant.line} {mutant.operator}\n    - {mutant.was}\n    + {mutant.became}"
                )
            elif number % 20 == 0:
                say(f"{room}: {number} tried")
        return found

    def again(self, one: Result) -> Result:
        """A survivor with what becomes of it now; all others as they are."""
        if one.outcome != "survived":
            return one
        mutant = found_again(one.mutant, self._tree)
        if mutant is None:
            return replace(one, why="its lines have been written anew")
        return self._result(mutant, "since")

    def _result(self, mutant: Mutant, dead: str) -> Result:
        verdict, why = self._judged.get((mutant.path, mutant.was, mutant.became), ("", ""))
        if verdict == "equivalent":
            return Result(mutant, verdict, why)
        tests = self._covered.of(mutant, self._tree)
        return Result(
            mutant, dead if killed(self._tree, mutant, tests, self._covered.took) else "survived", why
        )


def share(results: Sequence[Result], *outcomes: str) -> str:
    """Of those that change anything, how many came to this, in per cent."""
    changing = [one for one in results if one.outcome != "equivalent"]
    dead = sum(one.outcome in outcomes for one in changing)
    return f"{100 * dead / len(changing):.0f}" if changing else "–"


def table(rooms: Mapping[str, tuple[str, list[Result]]]) -> str:
    """The rooms and their survivors as Markdown."""
    lines = [
        "| room | seed | tried | equivalent | killed | of those that change anything | with tests since | asked |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for room, (seed, results) in rooms.items():
        equivalent, dead = (sum(one.outcome == what for one in results) for what in ("equivalent", "killed"))
        shares = f"{share(results, 'killed')} % | {share(results, 'killed', 'since')} %"
        figures = f"{len(results)} | {equivalent} | {dead} | {shares} | {ROOMS[room]} %"
        lines.append(f"| `{room}` | {seed} | {figures} |")
    lines += ["", "| survivor | was | became | why it stays |", "|---|---|---|---|"]
    for one in (one for _, results in rooms.values() for one in results if one.outcome == "survived"):
        mutant, why = one.mutant, one.why or "not judged yet"
        lines.append(
            f"| {mutant.path}:{mutant.line} | {_code(mutant.was)} | {_code(mutant.became)} | {why} |"
        )
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    shown = text.replace("|", "\\|").replace("`", "'")
    return f"`{shown}`" if shown else "(nothing)"


def write_page(rooms: Mapping[str, tuple[str, list[Result]]]) -> None:
    """The page's table anew."""
    page = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- table: make mutants -->\n", "<!-- /table -->"
    head, _, rest = page.partition(begin)
    PAGE.write_text(head + begin + table(rooms) + end + rest.partition(end)[2], encoding="utf-8")


def keep(room: str, seed: str, results: Sequence[Result]) -> None:
    """Take note of a room's run, for the page and for ``--again``."""
    (KEPT / f"{room}.json").write_text(
        json.dumps({"seed": seed, "results": [asdict(one) for one in results]})
    )


def kept(room: str) -> tuple[str, list[Result]]:
    """The seed and the results of a room's last run."""
    found = json.loads((KEPT / f"{room}.json").read_text())
    return found["seed"], [Result(Mutant(**one.pop("mutant")), **one) for one in found["results"]]


def main() -> None:
    """Try the rooms asked for; what each room gave last is kept in ``.mutants`` and goes to the page together."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--sample", type=int, default=40, help="mutants a room")
    parser.add_argument("--room", action="append", choices=ROOMS, help="may be given again; all")
    parser.add_argument("--again", action="store_true", help="only what survived the last run")
    parser.add_argument("--write", action="store_true", help="write docs/development/mutants.md")
    options = parser.parse_args()
    with copied_tree() as tree:
        trial = Trial(tree)
        for room in options.room or ROOMS:
            if options.again:
                seed, before = kept(room)
                results = [trial.again(one) for one in before]
            else:
                seed, results = options.seed, trial.drawn(room, options.seed, options.sample)
            keep(room, seed, results)
            dead = share(results, "killed", "since")
            say(f"{room}: {dead} % of {sum(one.outcome != 'equivalent' for one in results)} killed")
    if options.write:
        write_page({room: kept(room) for room in ROOMS if (KEPT / f"{room}.json").exists()})


if __name__ == "__main__":
    main()
