"""Runs clients of the feed in a process: ``python -m tests.soak.crowd PORT CLIENTS``.

Prints one JSON line per second until standard input ends, and then one JSON line with all ids that the clients
received.
"""

import asyncio
import json
import sys
import threading
import time
from typing import Any

from tests.support.load import FeedClient


class _Clients:
    """All feed clients of this process; each distinct received id is stored once, as a number."""

    def __init__(self, port: int, count: int) -> None:
        self._numbers: dict[bytes, int] = {}
        self._received_ids = [bytearray() for _ in range(count)]
        self._newest = 0
        self._max_delay = 0.0
        self.distinct = [0] * count
        self.repeated_count = 0
        self.clients = [FeedClient(port, self._make_receiver(number)) for number in range(count)]
        self.ending = False

    def _make_receiver(self, client: int) -> Any:
        received = self._received_ids[client]

        def take(ce_id: bytes, sent: int, now: float) -> None:
            number = self._numbers.setdefault(ce_id, len(self._numbers))
            if number >= len(received):
                received.extend(bytes(number + 1000 - len(received)))
            if received[number]:
                self.repeated_count += 1
                return
            received[number] = 1
            self.distinct[client] += 1
            self._newest = max(self._newest, sent)
            self._max_delay = max(self._max_delay, now - sent)

        return take

    def report(self) -> dict[str, Any]:
        """Return the counts of received rounds, and the longest delay since the last report (ms)."""
        max_delay, self._max_delay = self._max_delay, 0.0
        return {
            "at": time.time(),
            "fewest": min(self.distinct),
            "ids": len(self._numbers),
            "twice": self.repeated_count,
            "newest": self._newest,
            "worst": max_delay,
            "resets": sum(client.resets for client in self.clients),
            "connections": sum(client.connections for client in self.clients),
        }

    def ids(self) -> list[str]:
        """Return every id that at least one feed client received."""
        return [number.decode() for number in self._numbers]


async def _run(port: int, count: int) -> None:
    crowd = _Clients(port, count)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_end, daemon=True).start()
    tasks = [asyncio.create_task(client.follow(lambda: False)) for client in crowd.clients]
    while not ended.is_set():
        _print_json(crowd.report())
        try:
            await asyncio.wait_for(ended.wait(), 1)
        except TimeoutError:
            continue
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    _print_json(crowd.report() | {"all": crowd.ids()})


def _print_json(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_run(*(int(argument) for argument in sys.argv[1:])))
