"""SIGTERM and Ctrl-C ask a long-running process to end; the second one is not waited for."""

from __future__ import annotations

import os
import signal
import threading
from queue import SimpleQueue
from types import FrameType


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = threading.Event()
    # A handler runs between any two steps of the main thread, also while that holds the event's own lock on its
    # way into `stop.wait()`: setting the event there waits for ever. Only this queue may be written to at any time.
    asked: SimpleQueue[int] = SimpleQueue()
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        if seen:
            os._exit(128 + number)
        seen.append(number)
        asked.put(number)

    def pass_on() -> None:
        asked.get()
        stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stop
