"""Writes the golden file of the classic assignors from the jars: ``python -m tests.oracle.record_classic``."""

import json
from pathlib import Path

from tests.oracle.driver import Oracle
from tests.oracle.generator import Assignment, Case, RandomGroups, rounds
from tests.oracle.jars import JARSETS

GOLDEN_FILE = Path(__file__).parents[1] / "golden/assignors/classic/oracle-4.3.1.jsonl"
SEED = 20
CASES = 40
MAX_CASE_CHARACTERS = 1400  # characters of a case, so that the file stays readable


def golden_line(assignor: str, case: Case, assignment: Assignment | None) -> str:
    return json.dumps({"assignor": assignor, "case": case, "assignment": assignment}, separators=(",", ":"))


def main() -> None:
    """Write 40 small cases of each assignor, taken from random sequences, and the file's cases after these again.

    The latter are cases in which a long run of the oracle's tests once differed.
    """
    lines = [
        json.dumps({"provenance": JARSETS["current"][0], "generator": "tests.oracle.generator.Groups", "seed": SEED})
    ]
    with Oracle("current") as oracle:
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky"):
            kept: list[str] = []

            def record_batch(batch: list[Case], name: str = name, kept: list[str] = kept) -> list[Assignment | None]:
                requests = [{"family": "classic", "assignor": name, "limitMs": 5000, **case} for case in batch]
                assignments = [answer.get("assignment") for answer in oracle.ask(requests)]
                for case, answer in zip(batch, assignments, strict=True):
                    line = golden_line(name, case, answer)
                    if answer is not None and len(line) < MAX_CASE_CHARACTERS:
                        kept.append(line)
                return assignments

            rounds(RandomGroups(SEED), 400, record_batch, width=40)
            lines += kept[:: max(1, len(kept) // CASES)][:CASES]
        for line in map(json.loads, GOLDEN_FILE.read_text().splitlines()[len(lines) :]):
            request = {"family": "classic", "assignor": line["assignor"], "limitMs": 5000, **line["case"]}
            lines.append(golden_line(line["assignor"], line["case"], oracle.ask([request])[0]["assignment"]))
    GOLDEN_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
