"""A failed query in one line."""

from __future__ import annotations

import pytest

from streaming.spark.failures import cluster_is_away, reason


def test_only_brokers_that_do_not_answer_are_waited_for() -> None:
    assert cluster_is_away("Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out")
    assert not cluster_is_away("org.apache.kafka.common.errors.TopicAuthorizationException: no")


def test_of_a_failure_the_line_that_helps_is_shown() -> None:
    worker = """[STREAM_FAILED] Query terminated
Traceback (most recent call last):
  File "worker.py", line 1, in main
streaming.monitor.blob.StateFromTheFuture: state: version 2, this release reads up to 1; run the release
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
"""
    assert reason(RuntimeError(worker)) == "state: version 2, this release reads up to 1; run the release"
    jvm = "x\nCaused by: a.B: first\n\tat a.B\nCaused by: c.D: why\n\tat c.D"
    assert reason(RuntimeError(jvm)) == "Caused by: c.D: why"
    assert reason(RuntimeError("")) == "RuntimeError"


@pytest.mark.parametrize("kind", ["errors.InvalidTimestampException", "InvalidRecordException"])
def test_a_time_that_kafka_refuses_is_a_matter_of_clocks(kind: str) -> None:
    told = f"Caused by: org.apache.kafka.common.{kind}: Timestamp 5 of message with offset 0 is out of range"
    assert reason(RuntimeError(f"x\n{told}\n")) == f"{told}; is this host's clock right, and the brokers'?"
