import json
import logging
import sys
from collections.abc import Iterator

import pytest

from assignors.errors import BadInput
from streaming.process.service import JsonFormatter, configure_logging


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
