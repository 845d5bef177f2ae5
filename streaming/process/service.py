"""Signals, the Prometheus port and the log of a long-running command."""

import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

from assignors.errors import BadInput, OutsideFailure
from streaming.process import escape_unprintable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def serve_metrics(registry: "CollectorRegistry", host: str, port: int | None) -> int | None:
    """Serve ``GET /metrics`` from a thread until the process ends, and return the port; None disables metrics.

    ``port`` 0 selects a free port.
    """
    if port is None:
        return None
    from prometheus_client import start_http_server

    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise OutsideFailure(f"--metrics-port {port} on {host}: {reason}; choose another") from error
    return int(server.server_port)


def stop_on_signals() -> threading.Event:
    """Return an event that is set by SIGTERM or SIGINT; a second signal ends the process at once."""
    stop = threading.Event()
    # A handler runs between any two steps of the main thread, even while `stop.wait()` holds the event's lock, so that
    # setting the event in the handler could wait forever. Only a SimpleQueue may be written to at any time.
    received_signals: SimpleQueue[int] = SimpleQueue()
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        if seen:
            os._exit(128 + number)
        seen.append(number)
        received_signals.put(number)

    def process_signals() -> None:
        received_signals.get()
        stop.set()

    threading.Thread(target=process_signals, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stop


#: Attributes of every LogRecord; all other attributes come from ``extra=``.
_STANDARD_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON: time (RFC 3339, UTC), level, logger, message, ``extra``, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        time_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{time_text}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in vars(record).items() if name not in _STANDARD_RECORD_FIELDS)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Formats a log record as one line of text, with the exception after the message and line breaks escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of text."""
        line = f"{self.formatTime(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        error = record.exc_info[1] if record.exc_info else None
        return escape_unprintable(line if error is None else f"{line}: {_error_line(error)}")


def _error_line(error: BaseException) -> str:
    """Return an exception as text such as ``ValueError: bad length (at records.py:12 read, tail.py:40 poll)``."""
    frames = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    where = f" (at {', '.join(reversed(frames))})" if frames else ""
    cause = f", caused by {_error_line(error.__cause__)}" if error.__cause__ else ""
    return f"{type(error).__name__}: {error}{where}{cause}"


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Return False for py4j's log records about a lost connection; the job reports this error itself."""
    if "/py4j/" not in record.pathname:
        return True
    error = record.exc_info[1] if record.exc_info else None
    lost = isinstance(error, OSError) or type(error).__module__.startswith("py4j.")
    return record.levelno >= logging.WARNING and not lost


def configure_logging(log_format: str = "text", *, verbose: bool = False, quiet: bool = False) -> None:
    """Send log lines to standard error; ``quiet`` suppresses them, unless ``verbose`` is set."""
    if log_format not in ("text", "json"):
        raise BadInput(f"--log-format {log_format!r}: choose text or json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(_is_not_py4j)
    level = logging.DEBUG if verbose else logging.CRITICAL if quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Py4j, Spark's bridge to the JVM, logs each call at DEBUG.
    logging.getLogger("py4j").setLevel(logging.WARNING)
