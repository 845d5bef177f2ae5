import io
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignors.errors import BadInput, OutsideFailure
from streaming.recording.file import read_recording
from streaming.records.events import Annotation, Event
from streaming.serve import security, server
from streaming.serve.clusters import ServeOptions
from streaming.serve.server import FeedServer, address, open_socket, serve_recording
from streaming.serve.source import RecordedSource
from tests.support.feed import DIFFS, MemorySource, records
from tests.support.feed_server import RunningServer, open_request, running, served_cluster
from tests.support.histories import Group
from tests.support.wait import eventually
from tests.unit.streaming.recording.test_file import RECORDING_BYTES


def test_restart_continues_and_drops_repeated_records(options: ServeOptions) -> None:
    rounds = records(Group("g", {"t": 6}, 1).diffs(9))
    source = MemorySource()
    source.put(*rounds[:5])
    with running(options, source) as feed:
        eventually(lambda: feed.get("/ready")["seq"] == 5)
    source.put(*rounds[5:])
    with running(options, source) as feed:
        eventually(lambda: feed.get("/ready")["seq"] == 9)
        assert source.positions == {(DIFFS, 0): 5}


def ended(client: socket.socket) -> bool:
    """Return true if the server has sent the whole response or closed the connection."""
    client.settimeout(0.05)
    with suppress(TimeoutError):
        received = client.recv(1 << 20)
        return not received or received.endswith(b"0\r\n\r\n")
    return False


def test_a_feed_ends_with_the_token_that_opened_it(
    options: ServeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "_CHECK_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(server, "_WATCH_INTERVAL_SECONDS", 0.05)
    old, new, file = "an-old-token-of-16", "a-new-token-of-16", tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"{old}\n{new}\n")
    with running(replace(options, token_file=file)) as feed:
        closed, open_connection = (
            open_request(feed.port, "/api/v1/stream", f"Authorization: Bearer {token}") for token in (old, new)
        )
        with closed, open_connection:
            for client in (closed, open_connection):
                assert client.recv(12) == b"HTTP/1.1 200"
            file.write_text(f"{new}\n")
            eventually(lambda: ended(closed))
            assert not ended(open_connection)
            feed.source.put(*records(Group("g", {"t": 6}, 1).diffs(1)))
            open_connection.settimeout(10)
            received = b""
            while b"event: round" not in received:
                received += open_connection.recv(1 << 20)


def test_sigterm_drains_and_exits_with_0(tmp_path: Path) -> None:
    options = ["--database", str(tmp_path / "h.sqlite"), "--groups", "2"]
    command = [sys.executable, "-m", "tests.support.memory_server", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ.copy()) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rsplit(b":", 1)[1])
        with open_request(port, "/api/v1/stream") as client:
            assert client.recv(12) == b"HTTP/1.1 200"
            process.send_signal(signal.SIGTERM)
            while client.recv(1 << 20):
                pass
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("[::1]", "[::1]"), ("localhost", "127.0.0.1")]
)
def test_server_address_is_a_url(host: str, shown: str) -> None:
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with open_socket(host, 0) as listening_socket:
        assert address(listening_socket) == f"http://{shown}:{listening_socket.getsockname()[1]}"


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [("192.0.2.1", 0, "Cannot assign requested address"), ("127.0.0.1", 70_000, "port must be 0-65535.")],
)
def test_unusable_address_is_reported_in_one_line(host: str, port: int, message: str) -> None:
    with pytest.raises(OutsideFailure) as refused:
        open_socket(host, port)
    assert str(refused.value).startswith(f"--host {host} --port {port}: ")
    assert message in str(refused.value)
    assert str(refused.value).endswith("; --port 0 takes a free port")


def test_history_is_unlocked_when_the_port_is_in_use(options: ServeOptions) -> None:
    with open_socket("127.0.0.1", 0) as listening_socket:
        options_with_used_port = replace(options, port=listening_socket.getsockname()[1])
        with pytest.raises(OutsideFailure):
            FeedServer([served_cluster(MemorySource(), options_with_used_port)], options_with_used_port)
    with running(options) as feed:
        eventually(lambda: feed.ask("/ready")[0] == 200)


@pytest.mark.parametrize(
    ("host", "has_token", "warning_count"),
    [("127.0.0.1", False, 0), ("0.0.0.0", False, 1), ("0.0.0.0", True, 0)],  # noqa: S104 - the address of the warning
)
def test_feed_open_to_the_network_raises_a_warning(
    options: ServeOptions, caplog: pytest.LogCaptureFixture, host: str, has_token: bool, warning_count: int
) -> None:
    tokens = options.history.with_name("tokens")
    tokens.write_text("0123456789abcdef")
    tokens.chmod(0o600)
    options = replace(options, host=host, token_file=tokens if has_token else None)
    feed = FeedServer([served_cluster(MemorySource(), options)], options)
    feed.stop()
    feed.run()
    warnings = [message for message in caplog.messages if "is open to the network without a token" in message]
    assert len(warnings) == warning_count


def test_stop_before_run_releases_the_history(options: ServeOptions) -> None:
    for _ in range(2):
        feed = FeedServer([served_cluster(MemorySource(), options)], options)
        feed.stop()
        feed.run()
        feed.stop()


RECORDING = read_recording(io.BytesIO(RECORDING_BYTES), "a.rmlog")


def test_recorded_source_returns_each_output_once() -> None:
    source, topics = RecordedSource(RECORDING), dict.fromkeys(("diffs", "assignments", "episodes", "incidents"), 0)
    source.open({}, {})
    while not source.caught_up:
        assert not source.whole
        for record in source.poll(0):
            assert record.offset == topics[record.topic]
            topics[record.topic] += 1
    outputs = [output.write.topic for step in RECORDING.steps() for output in step]
    assert topics == {topic: outputs.count(topic) for topic in topics}
    assert (source.whole, source.lag) == ({"episode", "incident"}, 0)
    with pytest.raises(BadInput, match="annotation: a recording can't be changed"):
        source.publish(Event("s", "1", Annotation(timestamp=1, groups=".*", text="x")))


def test_api_serves_the_recording() -> None:
    started: list[FeedServer] = []
    thread = threading.Thread(target=serve_recording, args=(RECORDING, "127.0.0.1", 0, started.append))
    thread.start()

    def get(path: str) -> Any:
        return RunningServer(MemorySource(), started[0]).get(path)

    try:
        eventually(lambda: started)
        diffs = [output for step in RECORDING.steps() for output in step if output.write.topic == "diffs"]
        groups = {(output.write.key or b"").decode() for output in diffs}
        eventually(lambda: sum(group["rounds"] for group in get("/api/v1/groups")["groups"]) == len(diffs))
        assert {group["groupId"] for group in get("/api/v1/groups")["groups"]} == groups
        eventually(lambda: get(f"/api/v1/groups/{min(groups)}/episodes")["caughtUp"])
        assert get(f"/api/v1/groups/{min(groups)}/episodes")["episodes"]
    finally:
        started[0].stop()
        thread.join()
