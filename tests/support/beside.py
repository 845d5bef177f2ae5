"""Background work of a test, on a thread of its own, until its ``with`` block ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.support.wait import PATIENCE


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """``work`` goes on until the event that it is given is set."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def writing(servers: str, write: Callable[[Producer, threading.Event], None], **properties: object) -> Iterator[None]:
    """The same with a producer, whose records have all arrived afterwards."""
    producer = Producer({"bootstrap.servers": servers} | properties)
    try:
        with beside(lambda stop: write(producer, stop)):
            yield
    finally:
        producer.flush(PATIENCE)
