"""Runs work of a test in a background thread until the ``with`` block ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.support.wait import TIMEOUT_SECONDS


@contextmanager
def run_in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``work(stop)`` in a thread; the end of the block sets the event ``stop``, and ``work`` then has to return."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def produce_in_background(
    servers: str, write: Callable[[Producer, threading.Event], None], **properties: object
) -> Iterator[None]:
    """Run ``write(producer)`` in a thread until the block ends; by then the producer has delivered all records."""
    producer = Producer({"bootstrap.servers": servers} | properties)
    try:
        with run_in_background(lambda stop: write(producer, stop)):
            yield
    finally:
        producer.flush(TIMEOUT_SECONDS)
