"""A fault test: inject one fault, wait for its report, undo the fault, and check the data afterwards."""

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.faults.site import Report, TestedMonitor

#: A context manager that injects a fault, yields the expected report, and undoes the fault at the end.
FaultInjection = Callable[[TestedMonitor], AbstractContextManager[list[Report]]]


@dataclass(frozen=True)
class Case:
    """One fault of one component.

    Attributes:
        where: the affected component.
        fault: the fault's name in the table.
        inject_fault: context manager that injects the fault, yields the expected report and undoes the fault.
        active: whether groups can change while the fault lasts.
    """

    where: str
    fault: str
    inject_fault: FaultInjection
    active: bool = True

    def expected_fault(self, report: Report) -> str:
        """Return the fault's name for the row of the reporting component in the table of faults."""
        if report.fault:
            return report.fault
        return self.fault if report.component == self.where else f"the {self.where}: {self.fault}"

    def __str__(self) -> str:
        words = re.findall(r"\w+", self.fault)
        return "-".join((self.where, *words))


@dataclass(frozen=True)
class Outcome:
    """Result of one fault for one component. Times are in seconds; ``took`` is None if no report is expected."""

    component: str
    fault: str
    report: str
    within: float
    took: float | None
    back: float
    lost: int
    doubled_diffs: int


def run(tested_monitor: TestedMonitor, case: Case) -> list[Outcome]:
    """Inject the fault, wait for the report, undo the fault, and wait until all diffs are complete."""
    tested_monitor.start_stopped_components()
    tested_monitor.settle()
    with case.inject_fault(tested_monitor) as reports:
        took = tested_monitor.await_all(reports)
        if case.active:
            tested_monitor.change()
    fault_end = time.monotonic()
    tested_monitor.settle()
    back = time.monotonic() - fault_end
    for part in tested_monitor.parts.values():
        part.check()
    lost, doubled_diffs = tested_monitor.count_lost_and_repeated()
    return [
        Outcome(
            report.component,
            case.expected_fault(report),
            report.words,
            report.within,
            seconds,
            back,
            lost,
            doubled_diffs,
        )
        for report, seconds in zip(reports, took, strict=True)
    ]
