"""Options and failures of the job, without a JVM."""

from __future__ import annotations

import pytest

from streaming.spark.job import InvalidStreamOptions, StreamOptions, _reason, cluster_is_away


@pytest.mark.parametrize("options", [{"buckets": 0}, {"max_offsets_per_trigger": 0}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidStreamOptions, match="at least 1"):
        StreamOptions(checkpoint="c", **options)  # type: ignore[arg-type]


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
    assert _reason(RuntimeError(worker)) == "state: version 2, this release reads up to 1; run the release"
    jvm = "x\nCaused by: a.B: first\n\tat a.B\nCaused by: c.D: why\n\tat c.D"
    assert _reason(RuntimeError(jvm)) == "Caused by: c.D: why"
    assert _reason(RuntimeError("")) == "RuntimeError"
