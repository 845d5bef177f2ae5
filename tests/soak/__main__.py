"""Runs a monitor under load and faults for some minutes: ``make soak MINUTES=30``.

An embedded broker, `collect`, `stream`, `serve` and clients of its feed, on this machine alone. Members of thousands of
groups join and leave (:mod:`tests.soak.groups`) while each program is killed, the broker is restarted and the disk of
the history is full. At the end every diff that follows from the groups' changes has to be in the topic, in the history
and at each client, each once by its id. The exit status is 1 if this does not hold.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._document import TRUST_PAGE, write_section
from tests.soak.account import check_results
from tests.soak.report import growth_rates, report
from tests.soak.run import MEASURED_SHARE, TIMEOUT_SECONDS, show, soak
from tests.support.kafka import eventually

#: A JVM's memory is bounded by its heap, and grows up to it.
_PROCESSES_WITH_HEAPS = ("broker", "stream: JVM")
#: The memory of any other process must not grow by more than this, MB an hour.
_MAX_MB_PER_HOUR = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=50, help="membership changes a second")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--note", default="", help="what the table says of the machine")
    parser.add_argument("--document", action="store_true", help="write docs/explanation/trust.md too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: every started process ends
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, soak(options, Path(folder)) as run:
        run.print_line("starting")
        if not run.traffic.await_first_members(TIMEOUT_SECONDS):
            show("the groups have not got their first members in time")
            return 1
        run.print_line("waiting for each group's first diff")
        eventually(lambda: run.crowd.last["fewest"] >= options.groups, timeout=TIMEOUT_SECONDS, every=1)
        run.begin, before = time.monotonic(), len(run.traffic.acknowledged)
        run.inject_faults()
        run.until(MEASURED_SHARE)
        run.rest = time.monotonic()
        run.until((run.rest - run.begin) / run.seconds + 1 - MEASURED_SHARE, "at rest")
        changes = len(run.traffic.acknowledged)
        load = {"changes": changes, "rate": (changes - before) / (time.monotonic() - run.begin)}
        run.recorder.__exit__()
        run.traffic.__exit__()
        load["changes"] = len(run.traffic.acknowledged)
        result = check_results(run)
        grown = {
            name: growth_rate
            for name, growth_rate in growth_rates(run).items()
            if growth_rate.low > _MAX_MB_PER_HOUR and name not in _PROCESSES_WITH_HEAPS
        }
        result.wrong += run.wrong
        result.wrong += [f"memory of {name} grows: {growth_rate} MB an hour" for name, growth_rate in grown.items()]
        text = report(run, result, load)
        for part in (run.monitor.collect, run.monitor.stream, run.monitor.serve):
            part.check()
    show(text)
    if options.document:
        write_section("soak", text, TRUST_PAGE)
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
