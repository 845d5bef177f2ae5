"""Host clocks that are changed while the monitor's programs run."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.site import SPARK_SECONDS, Report, TestedMonitor

_HOUR, _DAY = 3600, 24 * 3600


@contextmanager
def set_clock_an_hour_off(tested_monitor: TestedMonitor, name: str) -> Iterator[list[Report]]:
    """Set a host's clock an hour ahead and, later, an hour back."""
    host = tested_monitor.host(name)
    for seconds in (_HOUR, 0):
        host.set_clock(seconds)
        tested_monitor.settle()
    yield [tested_monitor.nothing(name)]


@contextmanager
def set_clock_a_day_ahead(tested_monitor: TestedMonitor, name: str) -> Iterator[list[Report]]:
    """Set a clock a day ahead: Kafka rejects the records until the clock is at most an hour ahead again."""
    host = tested_monitor.host(name)
    host.set_clock(_DAY)
    if name == "collect":
        report = tested_monitor.log_contains(name, "is this host's clock right", within=30.0)
    else:
        report = tested_monitor.ends(name, "is this host's clock right", within=SPARK_SECONDS)
    try:
        tested_monitor.change()
        yield [report]
    finally:
        host.set_clock(0)
    if name == "stream":
        tested_monitor.begin(name)
