"""Common log layouts of brokers, and a function that reads rebalance reasons from log lines."""

import json
from collections.abc import Callable
from typing import NamedTuple

from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.collect.broker_log.log import BrokerLog

#: 2024-05-01 10:00:00.123 in UTC.
LOGGED_MS = 1_714_557_600_123


def read_lines(*lines: str) -> GroupReasons:
    """Return the rebalance reasons that the log reader finds in these lines."""
    log, reasons = BrokerLog(), GroupReasons()
    for event in [*log.read("".join(f"{line}\n" for line in lines).encode()), *log.finish()]:
        reasons.add(event)
    return reasons


class Layout(NamedTuple):
    """A log layout of a broker or log shipper; ``render`` puts a message into a line of this layout."""

    name: str
    render: Callable[[str, str], str]
    ms: int = LOGGED_MS


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=False)


_LOCAL_TIME, _UTC_TIME = "2024-05-01 10:00:00,123", "2024-05-01T10:00:00.123Z"


def _kafka(message: str, logger: str) -> str:
    return f"[{_LOCAL_TIME}] INFO {message} ({logger})"


def _short_logger_name(logger: str) -> str:
    return logger.rsplit(".", 1)[1]


def _json_layout(message: str, logger: str) -> str:
    instant_fields = {"epochSecond": LOGGED_MS // 1000, "nanoOfSecond": 123_000_000}
    return _json(
        {"instant": instant_fields, "thread": "main", "loggerName": logger, "message": message, "endOfBatch": False}
    )


def _template_layout(message: str, logger: str) -> str:
    event_fields = {"@timestamp": _UTC_TIME, "ecs.version": "1.2.0", "log.level": "INFO"}
    thread = {"process.thread.name": "group-coordinator-event-processor-1", "log.logger": logger}
    return _json({**event_fields, "message": message, **thread})


def _logfmt(message: str, logger: str) -> str:
    return f'time="{_UTC_TIME}" level=info logger={logger} msg={json.dumps(message, ensure_ascii=False)} thread=main'


def _csv_layout(message: str, logger: str) -> str:
    quoted_message = message.replace('"', '""')
    return f'2024-05-01 10:00:00.123,INFO,"{quoted_message}",{logger}'


#: Time of a log shipper, which is later than the broker's and must be ignored.
_CONTAINER_TIME = "2024-05-01T10:00:00.9Z"
_PATTERNS = (
    Layout("kafka", _kafka),
    Layout("strimzi", lambda m, c: f"{_LOCAL_TIME} INFO {m} ({c}) [data-plane-kafka-request-handler-3]"),
    Layout("strimzi 4", lambda m, c: f"{_LOCAL_TIME} INFO {m} ({c}) [group-coordinator-event-processor-0]"),
    Layout(
        "strimzi, short",
        lambda m, c: f"2024-05-01 10:00:00 INFO  [main] {_short_logger_name(c)}:66 - {m}",
        LOGGED_MS - 123,
    ),
    Layout("line numbers", lambda m, c: f"[{_LOCAL_TIME}] INFO {m} ({c}:66)"),
    Layout("file and line", lambda m, c: f"[{_LOCAL_TIME}] INFO {m} ({_short_logger_name(c)}.java:7160)"),
    Layout("method", lambda m, c: f"[{_LOCAL_TIME}] INFO {m} ({c}.prepareRebalance:66)"),
    Layout("short logger", lambda m, c: f"{_LOCAL_TIME} INFO {m} ({_short_logger_name(c)})"),
    Layout("logger first", lambda m, c: f"{_LOCAL_TIME} [executor-Rebalance] INFO {c} - {m}"),
    Layout("brackets first", lambda m, c: f"2024-05-01T10:00:00.123 INFO  [{c}] (kafka-request-handler-2) {m}"),
    Layout("thread behind", lambda m, _: f"{_LOCAL_TIME} {m} [kafka-request-handler-2]"),
    Layout("empty context behind", lambda m, c: f"{_LOCAL_TIME} INFO {m} ({c}) {{}}"),
    Layout("nothing behind", lambda m, _: f"{_LOCAL_TIME} INFO {m}"),
)
_TIMESTAMP_LAYOUTS = (
    Layout("no milliseconds", lambda m, c: f"[2024-05-01 10:00:00] INFO {m} ({c})", LOGGED_MS - 123),
    Layout("dot", lambda m, c: f"[2024-05-01 10:00:00.123] INFO {m} ({c})"),
    Layout("microseconds", lambda m, c: f"[2024-05-01 10:00:00.123456] INFO {m} ({c})"),
    Layout("Z", lambda m, c: f"{_UTC_TIME} INFO {m} ({c})"),
    Layout("offset", lambda m, c: f"2024-05-01T12:30:00,123+02:30 INFO {m} ({c})"),
    Layout("offset without a colon", lambda m, c: f"2024-05-01 03:00:00,123 -0700 INFO {m} ({c})"),
    Layout("basic", lambda m, c: f"20240501T100000,123 INFO {m} ({c})"),
    Layout("DATE", lambda m, c: f"01 May 2024 10:00:00,123 INFO {m} ({c})"),
    Layout("slashes", lambda m, c: f"2024/05/01 10:00:00.123 INFO {m} ({c})"),
    Layout("UNIX_MILLIS", lambda m, c: f"{LOGGED_MS} INFO {m} ({c})"),
    Layout("UNIX", lambda m, c: f"{LOGGED_MS // 1000} INFO {m} ({c})", LOGGED_MS - 123),
    Layout("time behind", lambda m, c: f"INFO {m} ({c}) {_LOCAL_TIME}"),
)
_CONTAINER_LOG_LAYOUTS = (
    Layout("colours", lambda m, c: f"\x1b[32m[{_LOCAL_TIME}]\x1b[0m \x1b[1;34mINFO\x1b[m {m} \x1b[2m({c})\x1b[0m"),
    Layout("compose", lambda m, c: f"kafka_1       | {_kafka(m, c)}"),
    Layout("compose, colours", lambda m, c: f"\x1b[36mkafka-1  | \x1b[0m{_kafka(m, c)}"),
    Layout("kubectl --timestamps", lambda m, c: f"2024-05-01T10:00:00.456789012Z {_kafka(m, c)}"),
    Layout("kubectl --prefix", lambda m, c: f"[pod/kafka-0/kafka] {_kafka(m, c)}"),
    Layout("stern", lambda m, c: f"kafka-0 kafka {_kafka(m, c)}"),
    Layout("journald", lambda m, c: f"May 01 12:00:00 broker-1 kafka-server-start.sh[812]: {_kafka(m, c)}"),
    Layout("CRI", lambda m, c: f"2024-05-01T12:00:00.456789012+02:00 stdout F {_kafka(m, c)}"),
    Layout("CRI's time", lambda m, c: f"2024-05-01T12:00:00.123456789+02:00 stdout F INFO {m} ({c})"),
    Layout("docker", lambda m, c: _json({"log": _kafka(m, c) + "\n", "stream": "stdout", "time": _CONTAINER_TIME})),
    Layout("windows", lambda m, c: _kafka(m, c) + "\r"),
)
_JSON_LOG_LAYOUTS = (
    Layout("JsonTemplateLayout", _template_layout),
    Layout("JsonLayout", _json_layout),
    Layout("GELF", lambda m, c: _json({"short_message": m, "timestamp": LOGGED_MS / 1000, "_logger": c})),
    Layout("logstash", lambda m, c: _json({"@version": 1, "message": m, "logger_name": c, "@timestamp": _UTC_TIME})),
    Layout("cloud logging", lambda m, c: _json({"jsonPayload": {"message": m, "logger": c}, "timestamp": _UTC_TIME})),
    Layout("JSON in docker", lambda m, c: _json({"log": _json_layout(m, c) + "\n", "time": _CONTAINER_TIME})),
    Layout("JSON in CRI", lambda m, c: f"{_CONTAINER_TIME} stdout F {_json_layout(m, c)}"),
    Layout("JSON in compose", lambda m, c: "kafka-1  | " + _json({"ts": LOGGED_MS / 1000, "msg": m, "logger": c})),
    Layout("logfmt", _logfmt),
    Layout("CSV", _csv_layout),
)
LOG_LAYOUTS = _PATTERNS + _TIMESTAMP_LAYOUTS + _CONTAINER_LOG_LAYOUTS + _JSON_LOG_LAYOUTS
