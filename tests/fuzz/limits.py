"""Limits of processor time and memory for fuzzing one input."""

import resource
import signal
import time
from collections.abc import Callable
from types import FrameType

from tests.fuzz.case import Case

#: Limits for one input of some kilobytes: processor seconds, and bytes by which the process may grow.
MAX_CPU_SECONDS = 5.0
MAX_GROWTH_BYTES = 400 * 2**20
#: Memory limit of every process of the harness.
_ALL_BYTES = 4 * 2**30


class InputTooSlow(Exception):  # noqa: N818 - it is a finding, no error of ours
    """Raised when an input takes too much processor time."""


class TooLarge(Exception):  # noqa: N818 - same
    """Raised when an input takes too much memory."""


def _raise_memory_error(_signal: int, _frame: FrameType | None) -> None:
    raise InputTooSlow(f"more than {MAX_CPU_SECONDS} s of the processor")


def limited(check: Callable[[Case], None], case: Case) -> None:
    """Run a fuzz check of a case within limits of time and memory; call this function only in the main thread.

    Raises:
        InputTooSlow, TooLarge: the check exceeds a limit.
    """
    began, peak = time.process_time(), _peak_memory_bytes()
    before = signal.signal(signal.SIGVTALRM, _raise_memory_error)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS)
    try:
        check(case)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    if time.process_time() - began > MAX_CPU_SECONDS:
        raise InputTooSlow(f"{time.process_time() - began:.1f} s of the processor")
    if _peak_memory_bytes() - peak > MAX_GROWTH_BYTES:
        raise TooLarge(f"{(_peak_memory_bytes() - peak) >> 20} MiB of memory")


def _peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (_ALL_BYTES, _ALL_BYTES))
