import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, Counter

from assignors.errors import BadInput, OutsideFailure
from streaming.process.service import JsonFormatter, configure_logging, serve_metrics


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_log_record_is_one_json_object() -> None:
    record = logging.makeLogRecord(
        {
            "name": "a.b",
            "levelname": "WARNING",
            "msg": "%s → %d",
            "args": ("ä", 2),
            "group": "g",
            "created": 0.5,
            "msecs": 500,
        }
    )

    assert json.loads(JsonFormatter().format(record)) == {
        "time": "1970-01-01T00:00:00.500Z",
        "level": "warning",
        "logger": "a.b",
        "message": "ä → 2",
        "group": "g",
    }


def test_log_record_with_an_exception_is_one_json_line() -> None:
    try:
        int("no")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("invalid literal for int() with base 10: 'no'")


@pytest.mark.parametrize("kind", ["text", "json"])
def test_log_lines_are_written_to_standard_error(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(kind)
    logging.getLogger("x").info("hello")
    captured_output = capsys.readouterr()
    assert captured_output.out == ""
    assert "hello" in captured_output.err
    assert (kind == "json") == captured_output.err.startswith("{")


def test_unknown_log_format_is_refused() -> None:
    with pytest.raises(BadInput, match="--log-format 'xml': choose text or json"):
        configure_logging("xml")


@pytest.mark.parametrize(("error", "shown"), [(ConnectionResetError(104, "reset"), False), (ValueError("ours"), True)])
def test_only_lost_py4j_connections_are_not_logged(
    error: Exception, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("text")
    values = {"msg": "no answer", "name": "root", "levelno": logging.ERROR, "pathname": "/site/py4j/gateway.py"}
    logging.getLogger().handle(logging.makeLogRecord({**values, "exc_info": (type(error), error, None)}))
    assert ("no answer" in capsys.readouterr().err) == shown


def test_py4j_call_logs_are_suppressed(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("py4j").setLevel(logging.NOTSET)  # the logger's level before any configuration
    configure_logging(verbose=True)
    logging.getLogger("py4j.clientserver").debug("each call")
    logging.getLogger("streaming").debug("ours")
    errors = capsys.readouterr().err
    assert ("each call" in errors, "ours" in errors) == (False, True)


TWO_SIGNALS_PROGRAM = """
from streaming.process.service import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
stop.wait()
print("asked", flush=True)
try:
    while True:
        stop.wait()
finally:
    print("in order", flush=True)
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", TWO_SIGNALS_PROGRAM], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(first)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(second)
        assert child.stdout.read() == ""
    assert child.returncode == 128 + second


#: The signal arrives between acquiring the event's lock and waiting, as one of some hundred signals does.
EARLY_SIGNAL_PROGRAM = """
import os, signal, sys
from streaming.process.service import stop_on_signals
stop = stop_on_signals()
with stop._cond:
    os.kill(os.getpid(), int(sys.argv[1]))
stop.wait()
print("in order", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_just_before_waiting_is_received(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY_SIGNAL_PROGRAM, str(int(number))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "in order\n"), done.stderr


def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)
    return registry


def test_the_registry_is_served_at_metrics() -> None:
    port = serve_metrics(registry(), "127.0.0.1", 0)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert "things_total 3.0" in answer.read().decode()


def test_metrics_port_in_use_gives_one_error_line() -> None:
    with socket.socket() as listening_socket:
        listening_socket.bind(("127.0.0.1", 0))
        listening_socket.listen()
        port = listening_socket.getsockname()[1]
        with pytest.raises(OutsideFailure, match=f"--metrics-port {port} on 127.0.0.1: Address already in use"):
            serve_metrics(registry(), "127.0.0.1", port)
