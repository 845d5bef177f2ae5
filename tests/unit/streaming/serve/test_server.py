from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.serve.server import AddressUnusable, ServeOptions, listen
from tests.support.feed import DIFFS, MemorySource, records
from tests.support.feed_server import asking, running
from tests.support.histories import Group
from tests.support.wait import eventually


def test_what_arrives_is_served(options: ServeOptions) -> None:
    with running(options) as feed:
        feed.source.put(*records(Group("g", {"t": 6}, 1).diffs(7)))
        eventually(lambda: feed.get("/ready") == {"ready": True, "lag": 0, "seq": 7})
        assert len(feed.get("/api/rounds")["rounds"]) == 7


def test_a_restart_reads_on_and_drops_repeats(options: ServeOptions) -> None:
    made = records(Group("g", {"t": 6}, 1).diffs(9))
    source = MemorySource()
    source.put(*made[:5])
    with running(options, source) as feed:
        eventually(lambda: feed.get("/ready")["seq"] == 5)
    source.put(*made[5:])
    with running(options, source) as feed:
        eventually(lambda: feed.get("/ready")["seq"] == 9)
        assert source.positions == {(DIFFS, 0): 5}


def test_a_port_in_use_is_one_line() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(AddressUnusable, match="Address already in use"):
        listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_with_zero(tmp_path: Path, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.memory_server",
        "--database",
        str(tmp_path / "h.sqlite"),
        "--groups",
        "2",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ.copy()
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rsplit(b":", 1)[1])
        with asking(port, "/api/stream") as client:
            assert client.recv(12) == b"HTTP/1.1 200"
            process.send_signal(number)
            while client.recv(1 << 20):
                pass
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    assert b"Traceback" not in errors
