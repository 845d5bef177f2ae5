"""Tests that a failed query ends with a message of one line."""

import errno

import pytest

from assignors.errors import OutsideFailure
from streaming.spark.failures import UNAVAILABLE_ERROR, checkpoint_failure, reason, refused, unusable_checkpoint


def test_only_unreachable_brokers_are_awaited() -> None:
    assert UNAVAILABLE_ERROR.search("Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out")
    assert not UNAVAILABLE_ERROR.search("org.apache.kafka.common.errors.TopicAuthorizationException: no")


def test_failure_message_is_the_last_cause() -> None:
    worker = """[STREAM_FAILED] Query terminated
Traceback (most recent call last):
  File "worker.py", line 1, in main
streaming.monitor.bucket_state.CorruptState: state: 00 is not this release's state format
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
"""
    assert reason(RuntimeError(worker)) == "state: 00 is not this release's state format"
    jvm = "x\nCaused by: a.B: first\n\tat a.B\nCaused by: c.D: why\n\tat c.D"
    assert reason(RuntimeError(jvm)) == "Caused by: c.D: why"
    assert reason(RuntimeError("")) == "RuntimeError"


@pytest.mark.parametrize("kind", ["errors.InvalidTimestampException", "InvalidRecordException"])
def test_spark_timestamp_error_suggests_to_check_the_clocks(kind: str) -> None:
    cause = f"Caused by: org.apache.kafka.common.{kind}: Timestamp 5 of message with offset 0 is out of range"
    assert reason(RuntimeError(f"x\n{cause}\n")) == f"{cause}; is this host's clock right, and the brokers'?"


def test_error_without_number_or_file_names_the_folder() -> None:
    assert str(unusable_checkpoint("c", OSError("odd"))) == "--checkpoint c: c: Success; correct this and start again"
    permission_error = PermissionError(errno.EACCES, "Permission denied", "c/x")
    assert str(unusable_checkpoint("c", permission_error)).startswith(
        "--checkpoint c: c/x: Permission denied; make the user"
    )


def test_system_errors_come_with_advice() -> None:
    assert str(refused("c", "c/x", errno.ENOSPC)) == (
        "--checkpoint c: c/x: No space left on device; make room on its disk and start again; nothing is lost"
    )
    assert "make the user who runs this program the owner" in str(refused("c", "c/x", errno.EACCES))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Caused by: java.io.IOException: No space left on device", "No space left on device; make room"),
        (
            "Caused by: java.io.FileNotFoundException: /c/offsets/.5.tmp (Read-only file system)",
            "/c/offsets/.5.tmp: Read-only file system; correct this",
        ),
        ("java.io.IOException: /c/state/0/1/5.delta: Input/output error", "Input/output error; correct this"),
        ("Caused by: java.io.FileNotFoundException: /c/offsets/5 (Permission denied)", "/c/offsets/5: Permission"),
        (
            "query at /c/state\norg.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/offsets/5 at 0",
            "/c/offsets/5 is damaged",
        ),
        ("java.io.EOFException: 'file:/c/state/0/1/5.delta'", "/c/state/0/1/5.delta is damaged or missing"),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] A query at /c\nCaused by: java.io.EOFException: why",
            "a file of its state is damaged or missing (Caused by: java.io.EOFException: why). Restore the folder",
        ),
    ],
)
def test_errors_about_the_checkpoint_name_file_and_remedy(text: str, message: str) -> None:
    error = str(checkpoint_failure(RuntimeError(text), "c", "/c"))
    assert error.startswith("--checkpoint c: ")
    assert message in error
    assert "\n" not in error


@pytest.mark.parametrize(
    "text",
    [
        (
            "x\nCaused by: java.lang.AssertionError: assertion failed\n\tat scala.Predef$.assert(P.scala)\n"
            "\tat org.apache.spark.sql.execution.streaming.MicroBatchExecution.populateStartOffsets(M.scala)"
        ),
        (
            "x\nCaused by: java.io.EOFException\n\tat java.base/java.io.DataInputStream.readFully(D.java)\n\tat "
            "org.apache.spark.sql.execution.streaming.state.SchemaHelper$.readSchema(S.scala)"
        ),
        "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] Checkpoint location file:/c is in an inconsistent state",
    ],
)
def test_errors_of_sparks_readers_come_with_advice(text: str) -> None:
    message = str(checkpoint_failure(RuntimeError(text), "c", "/c"))
    assert message.startswith("--checkpoint c: its files are not as Spark left them (")
    assert "move it away and start again" in message


def test_two_jobs_on_one_checkpoint_are_reported() -> None:
    text = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7."
    assert isinstance(checkpoint_failure(RuntimeError(text), "s3a://b/c", "s3a://b/c"), OutsideFailure)
    folder_error = checkpoint_failure(RuntimeError(text), "c", "/c")  # the folder is locked
    assert str(folder_error).startswith("--checkpoint c: its offsets and commits are of different batches. Restore")


@pytest.mark.parametrize(
    "text",
    [
        "Caused by: org.apache.kafka.common.errors.TimeoutException",
        "java.io.EOFException at /elsewhere/5.delta",
        "java.io.FileNotFoundException: /elsewhere/5.delta (Read-only file system)",
        "java.net.ConnectException: refused\n\tat org.apache.spark.sql.execution.streaming.HDFSMetadataLog.add(X)",
    ],
)
def test_unrelated_errors_are_not_translated(text: str) -> None:
    assert checkpoint_failure(RuntimeError(text), "c", "/c") is None
