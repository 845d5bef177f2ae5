"""The table of faults and outcomes in the docs: a run replaces the rows that it has."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from benchmarks._document import TRUST, machine, put, table
from tests.faults.site import Outcome

_HEADER = (
    "part",
    "fault",
    "what is told",
    "within s",
    "took s",
    "all there again after s",
    "lost",
    "doubled",
)


def write(outcomes: Iterable[Outcome]) -> None:
    """Put them into the document."""
    rows = {row[:2]: row for row in _rows(TRUST.read_text(encoding="utf-8") if TRUST.exists() else "")}
    for one in outcomes:
        cells = (f"{one.within:.0f}", f"{one.took:.1f}", f"{one.back:.0f}", str(one.lost), str(one.doubled))
        row = (one.component, one.fault, one.told, *cells)
        rows[row[:2]] = row
    note = f"`make test-faults`, {time.strftime('%Y-%m-%d')}: {machine()}."
    put("faults", f"{note}\n\n{table(_HEADER, sorted(rows.values()))}", TRUST)


def _rows(document: str) -> Iterable[tuple[str, ...]]:
    """The rows that stand in it."""
    found = re.search(r"<!-- faults: start -->(.*?)<!-- faults: end -->", document, re.DOTALL)
    for line in found[1].splitlines() if found else ():
        cells = tuple(cell.strip() for cell in line.strip("|").split(" | "))
        if len(cells) == len(_HEADER) and cells[0] not in (_HEADER[0], "---"):
            yield cells
