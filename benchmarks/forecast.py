"""Measures ``forecast --rolling-restart`` of large groups under all protocols: ``make bench-forecast``.

Measured from the group's current state to the response, without reading the monitor's topics. Each case runs in its
own process, so that its peak memory can be measured. ``ARGS=--write`` puts the table into the docs.
"""

import argparse
import resource
import time
from itertools import pairwise
from multiprocessing import get_context
from typing import NamedTuple
from uuid import UUID

from assignors.model import Topic
from benchmarks._document import describe_machine, table, write_section
from streaming.records.diffs import MemberNames
from streaming.simulation.changes import RollingRestart, baseline_of, request_change, usual_batch_size
from streaming.simulation.forecast import forecast_change
from streaming.simulation.live_group import LiveGroup, LiveMember

TOPICS = 10
#: Members, partitions, and members that restart at once; None: the number that ``forecast`` chooses.
MEASURED_GROUPS = ((100, 1000, None), (100, 1000, 1), (1000, 10_000, None), (1000, 10_000, 1))


class ForecastTimes(NamedTuple):
    """The result of one measured forecast: seconds, maximum MB, and the number of rounds of all protocols together."""

    seconds: float
    peak: float
    rounds: int


def live_group(members: int, partitions: int) -> LiveGroup:
    """Return a group with the assignor ``range`` after a rebalance: every member owns partitions of every topic."""
    partitions_per_topic = partitions // TOPICS
    topics = {f"t{number}": Topic(f"t{number}", partitions_per_topic) for number in range(TOPICS)}
    bounds = [number * partitions_per_topic // members for number in range(members + 1)]
    return LiveGroup(
        group_id="large",
        kind="consumer",
        protocol="classic",
        assignor="range",
        number=7,
        timestamp=0,
        members=tuple(
            LiveMember(
                member_id=f"m-{number:05}-{UUID(int=number)}",
                names=MemberNames(client_id=f"m-{number:05}"),
                topics=tuple(topics),
                owned={name: list(range(first, last)) for name in topics} if last > first else {},
                generation=7,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
            )
            for number, (first, last) in enumerate(pairwise(bounds))
        ),
        topics=topics,
    )


def measure_case(members: int, partitions: int, parallel: int | None) -> ForecastTimes:
    """Run one forecast, and measure its time, memory and rounds."""
    group = live_group(members, partitions)
    begun = time.perf_counter()
    answer = forecast_change(request_change(baseline_of(group), {}, RollingRestart(parallel)), rounds=False)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return ForecastTimes(seconds, peak, sum(cost.simulation.result.round_count for cost in answer.costs))


def main() -> None:
    """Measure all cases and print the results; with ``--write``, also write them into the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for members, partitions, parallel in MEASURED_GROUPS:
        with get_context("spawn").Pool(1) as single_process:
            result = single_process.apply(measure_case, (members, partitions, parallel))
        parallel_restarts = parallel or usual_batch_size(members)
        rows.append(
            [
                f"{members} x {partitions:,}",
                str(parallel_restarts),
                f"{result.rounds:,}",
                f"{result.seconds:.1f}",
                f"{result.peak:.0f}",
            ]
        )
        print("  ".join(rows[-1]), flush=True)
    method_text = (
        f"`make bench-forecast`: `forecast --rolling-restart` of a group of `range` over {TOPICS} topics, all four "
        f"ways one after the other, without reading the monitor's topics; once each. {describe_machine()}."
    )
    heading = ["members x partitions", "restart at once", "rounds", "s", "peak MB"]
    text = "\n\n".join(["## Forecasts", method_text, table(heading, rows)])
    if options.write:
        write_section("forecast", text)


if __name__ == "__main__":
    main()
