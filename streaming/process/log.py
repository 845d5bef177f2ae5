"""Log lines on standard error: text for people, one JSON object a line for collectors of logs."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal, get_args

from assignors.errors import BadInput

Format = Literal["text", "json"]

#: Attributes of every LogRecord; what a record has besides came through ``extra=``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class UnknownLogFormat(BadInput):
    """The log format is none of text, json."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, ``extra`` fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Spark's bridge logs a lost connection with its stack, some of it as root; the error itself is reported."""
    if "/py4j/" not in record.pathname:
        return True
    error = record.exc_info[1] if record.exc_info else None
    lost = isinstance(error, OSError) or type(error).__module__.startswith("py4j.")
    return record.levelno >= logging.WARNING and not lost


def configure(log_format: str = "text", *, verbose: bool = False) -> None:
    """Send log lines to standard error.

    Raises:
        UnknownLogFormat: ``log_format`` is none of text, json.
    """
    if log_format not in get_args(Format):
        raise UnknownLogFormat(f"--log-format {log_format!r}: choose text or json")
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    handler.addFilter(_not_py4j)
    if not verbose:
        # Nobody here logs as root; py4j does when a connection to the JVM ends, with a traceback.
        handler.addFilter(lambda record: record.name != "root" or record.levelno >= logging.WARNING)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
    # Spark's bridge logs each of its calls at DEBUG.
    logging.getLogger("py4j").setLevel(logging.WARNING)
