"""Writes the documentation's table of faults and outcomes from the results of a complete run of the fault tests."""

import fcntl
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks._document import TRUST_PAGE, describe_machine, table, write_section
from tests.faults.case import Outcome

_HEADER = ("part", "fault", "reported", "within s", "took s", "all there again after s", "lost", "doubled")


class _Share(NamedTuple):
    """The results of fault tests in one process, and the time at which that process began (s since the epoch)."""

    began: float
    outcomes: dict[str, list[Outcome]]


def add(folder: Path, began: float, outcomes: Mapping[str, list[Outcome]], cases: Iterable[str]) -> None:
    """Store the results of one test process; the process that completes the run writes the table.

    Args:
        folder: folder that all processes of the run share.
        began: start time of this process (seconds since the epoch).
        outcomes: outcomes by case.
        cases: all cases of a complete run.
    """
    with (folder / "outcomes").open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(msgspec.json.encode(_Share(began, dict(outcomes))) + b"\n")
        file.seek(0)
        shares = [msgspec.json.decode(line, type=_Share) for line in file]
    outcomes_by_case = {case: rows for share in shares for case, rows in share.outcomes.items()}
    if outcomes_by_case.keys() == {*cases}:
        seconds = time.time() - min(share.began for share in shares)
        _write((row for rows in outcomes_by_case.values() for row in rows), len(outcomes_by_case), seconds, len(shares))


def _write(outcomes: Iterable[Outcome], cases: int, seconds: float, monitors: int) -> None:
    run = f"one run of {cases} cases, on {monitors} monitors side by side, in {seconds / 60:.0f} minutes"
    note = f"`make test-faults`, {time.strftime('%Y-%m-%d')}, {run}: {describe_machine()}."
    write_section("faults", f"{note}\n\n{table(_HEADER, sorted(map(_outcome_row, outcomes)))}", TRUST_PAGE)


def _outcome_row(outcome: Outcome) -> tuple[str, ...]:
    seconds = ("–", "–") if outcome.took is None else (f"{outcome.within:.0f}", f"{outcome.took:.1f}")
    report = re.sub(r"\bfaults-[0-9a-f]{8}\.", "", outcome.report)  # without the prefix of this run's topics
    return (
        *(outcome.component, outcome.fault, report, *seconds),
        *(f"{outcome.back:.0f}", str(outcome.lost), str(outcome.doubled_diffs)),
    )
