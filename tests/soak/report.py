"""Writes the report of a soak."""

import time

from benchmarks._document import describe_machine, table
from streaming.monitor.state import MAX_FINGERPRINTS
from tests.soak.account import SoakResult
from tests.soak.figures import GrowthRate, growth_rate
from tests.soak.run import MEASURED_SHARE, RETENTION_MIB, Soak


def report(run: Soak, results: SoakResult, load: dict[str, float]) -> str:
    """Return the tables of the soak test's report."""
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
                ["events in the membership log", str(results.events)],
                ["diffs that follow from it", str(len(results.diffs))],
                ["records that the topic holds twice, with the same id", str(results.again)],
                ["rounds that `serve` stored", str(results.rounds)],
                [f"of these in the history at the end (`--keep-mib {RETENTION_MIB}`)", str(results.kept)],
                ["checks that failed", str(len(results.wrong))],
            ],
        ),
        *(["Not as promised:\n" + "\n".join(f"- {fault}" for fault in results.wrong)] if results.wrong else []),
        "Seconds from the end of the fault (of a kill: from the new start):",
        table(
            ["fault", "a new diff at the clients", "as fast as before"],
            [[recovery.fault, *map(seconds_cell, (recovery.new, recovery.usual))] for recovery in run.recoveries],
        ),
        (
            f"Memory (RSS) over the last {(1 - MEASURED_SHARE) * options.minutes:.0f} minutes, after all faults, by "
            "least squares over means of 30 s:"
        ),
        table(
            ["process", "MB", "MB an hour, 95 % interval"],
            [[name, f"{growth_rate.average:.0f}", str(growth_rate)] for name, growth_rate in growth_rates(run).items()],
        ),
        "Bytes on disk, MB, and their growth over the same time:",
        table(
            ["", "at 25 %", "at 50 %", "at 75 %", "at the end", "most", "MB an hour"],
            [
                [name, *sizes(run, name), str(growth_rate(run.recorder.since(name, run.rest)))]
                for name in ("checkpoint", "history")
            ],
        ),
        _state_limit_sentence(run, results),
    ]
    return "\n\n".join(lines)


def _state_limit_sentence(run: Soak, results: SoakResult) -> str:
    """Return a sentence with the checkpoint's largest possible size, computed from the state of its groups."""
    last_bytes = run.recorder.samples["checkpoint"][-1][1]
    return (
        f"The state of all groups takes {results.state / 2**20:.1f} MB at the end, compressed, "
        f"{results.state / results.groups:.0f} bytes a group. With the same members it takes at most "
        f"{results.max_state / 2**20:.1f} MB, once each group remembers {MAX_FINGERPRINTS} events, and the checkpoint "
        f"about {last_bytes * results.max_state / results.state:.0f} MB: as many files, larger in proportion."
    )


def growth_rates(run: Soak) -> dict[str, GrowthRate]:
    """Return the growth of each process's memory, by process name, in the phase without injected faults."""
    return {
        name: growth_rate(run.recorder.since(name, run.rest))
        for name in run.recorder.samples
        if name not in ("checkpoint", "history")
    }


def sizes(run: Soak, name: str) -> list[str]:
    """Return the MB on disk of the checkpoint or the history at each quarter of the run, and the maximum, as cells."""
    samples = run.recorder.samples[name]
    whole = samples[-1][0] - run.begin
    sample_times = [run.begin + share * whole for share in (0.25, 0.5, 0.75, 1)]
    at = [min(samples, key=lambda sample: abs(sample[0] - sample_time))[1] for sample_time in sample_times]
    return [f"{value:.1f}" for value in (*at, max(value for _, value in samples))]


def seconds_cell(seconds: float | None) -> str:
    """Return the number of seconds as a cell of a table."""
    return "not before the next fault" if seconds is None else f"{seconds:.0f}"
