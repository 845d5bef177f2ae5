"""Controls the process of the feed clients (:mod:`tests.soak.crowd`)."""

import json
import subprocess
import sys
import threading
from typing import Any, Self


class FeedClients(threading.Thread):
    """A context manager for the process of the feed clients; it keeps the process's last report."""

    def __init__(self, port: int, clients: int) -> None:
        super().__init__(daemon=True)
        self.reports: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.crowd", str(port), str(clients)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.reports.append(json.loads(line))

    @property
    def last(self) -> dict[str, Any]:
        return self.reports[-1] if self.reports else {"fewest": 0, "newest": 0, "worst": 0.0, "twice": 0, "ids": 0}

    def end(self) -> dict[str, Any]:
        """End the process and return its final report, which contains the ids."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait(60)
        self.join()
        return self.last

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
