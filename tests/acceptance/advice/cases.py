"""For each rule of advice: a real group with the rule's fault, its twin without it, and the expected evidence."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks._document import BENCHMARKS_PAGE
from streaming.advice.history import DAY_MS
from streaming.advice.model import Advice
from streaming.advice.rules import advise
from tests.acceptance.advice.advised_group import AdvisedGroup
from tests.acceptance.situations.operations import pods

#: The results of one run, beside the page about the rules.
TABLE: Final = BENCHMARKS_PAGE.with_name("reference") / "advice-groups.csv"


@dataclass(frozen=True)
class Case:
    """The expected advice of a rule: none about the group ``twin``, and this evidence about the group ``faulty``.

    ``kinds``: the evidence names the faulty group's episodes of these kinds; None: not compared. ``figures``: figures
    that the evidence has at least. ``delay_ms``: time from the last change of the group to the advice.
    """

    rule: str
    faulty: str
    twin: str
    kinds: tuple[str, ...] | None = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    delay_ms: int = 0

    @property
    def name(self) -> str:
        return f"{self.rule}, {self.faulty}"


_RESTARTS: Final = ("rolling-restart",)
CASES: Final = (
    Case("duplicate-instance-id", "shared instance id", "static", ("duplicate-instance-id",)),
    Case("poll-interval", "exceeded poll interval", "busy member", ("poll-timeout",), {"maxPollIntervalMs": 6000}),
    Case("rebalance-timeout", "slow member", "busy member", ("scale-out",)),
    Case("missing-leave", "killed pods", "closed pods", ("crash",), {"restarts": 3}),
    Case("missing-leave", "streams classic", "streams kip-1071", _RESTARTS, {"restarts": 2}),
    Case("session-timeout-short", "static, away too long", "static", ("crash",), {"sessionTimeoutMs": 6000}),
    Case("session-timeout-short", "two long pauses", "confluent eager", ("crash",), {"sessionTimeoutMs": 6000}),
    Case("cooperative-assignor", "eager", "cooperative", _RESTARTS),
    Case("consumer-protocol", "eager", "kip-848", _RESTARTS),
    Case("consumer-protocol", "cooperative", "kip-848", _RESTARTS),
    Case("half-migration", "half migrated", "migrated", delay_ms=2 * DAY_MS),
    Case("static-membership", "eager", "static", _RESTARTS, {"restarts": 16, "sessionTimeoutMs": 6000}),
    Case("static-membership", "kip-848", "static kip-848", _RESTARTS, {"restarts": 16}),
    Case(
        "static-ids-change",
        "instance ids of pods",
        "static",
        ("fleet-replaced",),
        {"departed": sorted(pods(0)), "joined": sorted(pods(1))},
    ),
    Case("static-slot-held", "static scale-in", "static scale-in with LeaveGroup", ("crash",), {"instanceIds": ["c"]}),
    Case("rolling-batches", "eager", "eager, four at once", _RESTARTS, {"members": 8}),
    Case("mixed-subscriptions", "two subscriptions", "eager", figures={"subscriptions": 2}),
    Case("metadata-rebalances", "topic grows three times", "topic grows once", ("partition-growth",)),
    Case(
        "idle-members",
        "four members, two partitions",
        "four members, eight partitions",
        figures={"members": 4, "partitions": 2, "idle": 2},
    ),
    Case(
        "uneven-partitions",
        "four members, six partitions",
        "four members, eight partitions",
        figures={"members": 4, "partitions": 6, "most": 2, "least": 1},
    ),
    Case(
        "range-skew",
        "range over three topics",
        "cooperative over three topics",
        figures={"topics": 3, "most": 9, "least": 6},
    ),
    Case("known-fault", "aiokafka, two partitions", "aiokafka, three partitions", None),
    Case("initial-delay", "staggered starts", "joint starts", ("first-start",), {"rebalances": 8}),
    Case("probing-rebalances", "streams without standby", "streams within its lag", None),
    Case("scheduled-delay", "connect, long delay", "connect, short delay", ("restart",), {"restarts": 1}),
)


def find_advice(played: AdvisedGroup, rule: str, delay_ms: int = 0) -> Advice | None:
    """Return the advice of a rule for a real group; None if the rule does not fire."""
    history = replace(played.history, now_ms=played.history.now_ms + delay_ms)
    return next((advice for advice in advise(history) if advice.rule == rule), None)


def wrong_evidence(case: Case, played: AdvisedGroup, advice: Advice) -> list[str]:
    """Return a line for each difference between the expected evidence and that of the advice."""
    figures = {name: figure for item in advice.evidence for name, figure in item.figures.items()}
    lines = [
        f"{name} is {figures.get(name)}, not {figure}"
        for name, figure in case.figures.items()
        if figures.get(name) != figure
    ]
    wanted = advice.episodes if case.kinds is None else played.episodes(*case.kinds)
    return lines if advice.episodes == wanted else [*lines, f"episodes are {advice.episodes}, not {wanted}"]


def write_table(rows: Iterable[tuple[Case, Advice | None, Advice | None]]) -> None:
    """Write a line per rule: its advice about the faulty group, and whether it gave none about the twin."""
    lines = []
    for case, advice, twin_advice in rows:
        verdict = ("silent", "") if advice is None else (advice.severity, "; ".join(e.text for e in advice.evidence))
        lines.append([case.rule, case.faulty, *verdict, case.twin, "yes" if twin_advice is None else "no"])
    write_csv(TABLE, ("rule", "group with the fault", "severity", "evidence", "twin", "twin is silent"), lines, key=2)


def write_csv(path: Path, header: Sequence[str], lines: Iterable[list[str]], key: int) -> None:
    """Write a table as CSV; lines of an earlier file stay unless a new line has the same first ``key`` cells."""
    kept: list[list[str]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = [*csv.reader(file)][1:]
    by_key = {tuple(line[:key]): line for line in [*kept, *lines]}
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *(by_key[name] for name in sorted(by_key))])
