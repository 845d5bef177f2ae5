"""Writes the report of a soak."""

from __future__ import annotations

import time

from benchmarks._document import describe_machine, table
from streaming.monitor.state import MAX_APPLIED
from tests.soak.account import Account
from tests.soak.figures import Slope, slope
from tests.soak.run import KEEP_MIB, REST, Soak


def report(run: Soak, account: Account, load: dict[str, float]) -> str:
    """Return the report's tables."""
    options = run.options
    lines = [
        "### Soak",
        (
            f"`make soak MINUTES={options.minutes:g}`, {time.strftime('%Y-%m-%d')}: {describe_machine()}"
            f"{', ' + options.note if options.note else ''}. {options.groups} groups, {load['rate']:.1f} "
            f"membership changes a second ({options.rate:g} asked for), {options.clients} clients of the feed."
        ),
        table(
            ["by id", "number"],
            [
                ["membership changes that the coordinator confirmed", str(int(load["changes"]))],
                ["events in the membership log", str(account.events)],
                ["diffs that follow from it", str(len(account.diffs))],
                ["records that the topic holds twice, with the same id", str(account.again)],
                ["rounds that `serve` stored", str(account.rounds)],
                [f"of these in the history at the end (`--keep-mib {KEEP_MIB}`)", str(account.kept)],
                ["checks that failed", str(len(account.wrong))],
            ],
        ),
        *(["Not as promised:\n" + "\n".join(f"- {fault}" for fault in account.wrong)] if account.wrong else []),
        "Seconds from the end of the fault (of a kill: from the new start):",
        table(
            ["fault", "a new diff at the clients", "as fast as before"],
            [[recovery.fault, *map(rounded, (recovery.new, recovery.usual))] for recovery in run.recoveries],
        ),
        (
            f"Memory (RSS) over the last {(1 - REST) * options.minutes:.0f} minutes, after all faults, by least "
            "squares over means of 30 s:"
        ),
        table(
            ["process", "MB", "MB an hour, 95 % interval"],
            [[name, f"{slope.mean:.0f}", str(slope)] for name, slope in slopes(run).items()],
        ),
        "Bytes on disk, MB, and their growth over the same time:",
        table(
            ["", "at 25 %", "at 50 %", "at 75 %", "at the end", "most", "MB an hour"],
            [
                [name, *sizes(run, name), str(slope(run.recorder.since(name, run.rest)))]
                for name in ("checkpoint", "history")
            ],
        ),
        _bound(run, account),
    ]
    return "\n\n".join(lines)


def _bound(run: Soak, account: Account) -> str:
    """Return a sentence with the checkpoint's largest possible size, computed from the state of its groups."""
    last_bytes = run.recorder.samples["checkpoint"][-1][1]
    return (
        f"The state of all groups takes {account.state / 2**20:.1f} MB at the end, compressed, "
        f"{account.state / account.groups:.0f} bytes a group. With the same members it takes at most "
        f"{account.max_state / 2**20:.1f} MB, once each group remembers {MAX_APPLIED} events, and the checkpoint "
        f"about {last_bytes * account.max_state / account.state:.0f} MB: as many files, larger in proportion."
    )


def slopes(run: Soak) -> dict[str, Slope]:
    """Return the growth of each process's memory, by process name, in the phase without injected faults."""
    return {
        name: slope(run.recorder.since(name, run.rest))
        for name in run.recorder.samples
        if name not in ("checkpoint", "history")
    }


def sizes(run: Soak, name: str) -> list[str]:
    """Return the MB on disk of the checkpoint or the history at each quarter of the run, and the maximum, as cells."""
    samples = run.recorder.samples[name]
    whole = samples[-1][0] - run.begin
    quarters = [run.begin + share * whole for share in (0.25, 0.5, 0.75, 1)]
    at = [min(samples, key=lambda sample: abs(sample[0] - quarter))[1] for quarter in quarters]
    return [f"{value:.1f}" for value in (*at, max(value for _, value in samples))]


def rounded(seconds: float | None) -> str:
    """Return the number of seconds as a cell of a table."""
    return "not before the next fault" if seconds is None else f"{seconds:.0f}"
