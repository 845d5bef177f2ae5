"""Functions that wait for a condition instead of a fixed time."""

from collections.abc import Callable
from time import monotonic, sleep

#: Timeout in seconds for operations without a time limit, on a busy machine.
TIMEOUT_SECONDS = 120.0


def eventually(condition: Callable[[], object], *, timeout: float = TIMEOUT_SECONDS, every: float = 0.02) -> object:
    """Return the first true result of ``condition()``; raise AssertionError after ``timeout`` seconds."""
    by = monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        assert monotonic() < by, f"not within {timeout:g} s; last result {result!r}"
        sleep(every)


def await_unchanged_value(value: Callable[[], object], seconds: float) -> object:
    """Wait until a value has not changed for this many seconds, and return it."""
    by = monotonic() + TIMEOUT_SECONDS
    last, since = value(), monotonic()
    while monotonic() - since < seconds:
        assert monotonic() < by, f"still changing after {TIMEOUT_SECONDS:g} s; last value {last!r}"
        sleep(0.02)
        if (current := value()) != last:
            last, since = current, monotonic()
    return last
