"""Converts Spark's errors into one line with the cause and the remedy, without stack traces."""

import errno
import os
import re

from assignors.errors import OutsideFailure
from streaming.kafka.producer import CLOCK_HINT

#: This project's own errors in the stack trace of a Python worker.
_OWN_ERROR_LINE = re.compile(r"(?:assignors|streaming)\.[\w.]+: (.+)")
#: Kafka's retriable errors in the error text of a failed query: brokers did not answer, and the job waits for them.
UNAVAILABLE_ERROR = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeaderOrFollower|LeaderNotAvailable)Exception"
    r"|java\.util\.concurrent\.TimeoutException"
)
#: Errors of brokers whose clock differs from this host's.
_TIMESTAMP_REFUSED = re.compile(r"InvalidTimestampException|InvalidRecordException: Timestamp")
#: Errors about records that were lost unread (``kafka-error-conditions.json`` of Spark's connector).
RECORDS_LOST = re.compile(
    r"KAFKA_DATA_LOSS|Some data may have been lost|START_OFFSET_GREATER_THAN_END_OFFSET|OffsetOutOfRangeException"
)
#: The path of a file below a folder in Spark's error text, possibly in quotes or before punctuation.
_FILE_PATH = r"(?:/[\w.=-]+)+"
#: Errors of the operating system for a disk that can't be written; the JVM uses the same words.
_UNWRITABLE_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_DENIED_WORDS = ("Permission denied", "AccessControlException", "AccessDeniedException")
#: Spark's error about an offset log with a batch that this job did not write.
_CONCURRENT_JOBS_ERROR = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Concurrent update to the log")
_STATE_ERRORS = re.compile(r"STATE_STORE|STDS_FAILED")
_DAMAGED_STATE_ERROR = re.compile(
    r"FileNotFoundException|EOFException|Stream is corrupted|StreamCorrupted|JsonParseException|"
    r"MismatchedInputException|MappingException|[Ll]og file|UTFDataFormatException|UNSUPPORTED_LOG_VERSION|"
    r"Invalid.*version|NumberFormatException|ChecksumException"
)
#: Stack frames of Spark's readers of checkpoint files, for errors about damage that name no file.
_STATE_READER_FRAME = re.compile(
    r"sql\.execution\.streaming\.[\w.$]*"
    r"(?:MetadataLog|StreamMetadata|OffsetSeq|CommitLog|StateSchema|SchemaHelper|SchemaReader)"
)
#: Spark's checks that its logs of offsets and commits have the same batches, and that its file ``metadata`` exists.
_FILES_INCONSISTENT = re.compile(
    r"AssertionError: assertion failed[\s\S]*MicroBatchExecution|STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
)
#: Advice for a lost or damaged file.
RESTORE_ADVICE = (
    "Restore the folder from a copy; or move it away and start again: the whole membership topic is then read, and "
    "the same diffs come out, with the same ids"
)


def in_use(checkpoint: str) -> OutsideFailure:
    """Return the error for a checkpoint that another process uses."""
    return OutsideFailure(f"--checkpoint {checkpoint}: another process uses it; stop that process first")


def damaged_checkpoint(checkpoint: str, what: str) -> OutsideFailure:
    """Return the error for a damaged checkpoint; ``what``: the damaged file or another description of the damage."""
    return OutsideFailure(f"--checkpoint {checkpoint}: {what}. {RESTORE_ADVICE}")


def refused(checkpoint: str, file: str, number: int) -> OutsideFailure:
    """Return the error for an ``errno`` that the operating system reported for a file of the checkpoint."""
    advice = "correct this and start again"
    if number in (errno.ENOSPC, errno.EDQUOT):
        advice = "make room on its disk and start again; nothing is lost"
    elif number in (errno.EACCES, errno.EPERM):
        advice = "make the user who runs this program the owner of the folder and its files"
    return OutsideFailure(f"--checkpoint {checkpoint}: {file}: {os.strerror(number)}; {advice}")


def unusable_checkpoint(checkpoint: str, error: OSError) -> OutsideFailure:
    """Return the error for an OSError that Python raised for a file of the checkpoint."""
    return refused(checkpoint, str(error.filename or checkpoint), error.errno or 0)


def reason(error: Exception) -> str:
    """Return the most useful line of an error's text: the last error of the monitor itself, else the last cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own_messages = [match[1] for line in lines if (match := _OWN_ERROR_LINE.match(line))]
    causes = [line for line in lines if line.startswith("Caused by:")]
    line = ((own_messages or causes)[-1:] or lines[:1] or [type(error).__name__])[0][:500]
    return f"{line}; {CLOCK_HINT}" if _TIMESTAMP_REFUSED.search(line) else line


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the classes of the errors that PySpark raises when a call into a running JVM fails."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # py4j has no types
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def checkpoint_failure(error: Exception, checkpoint: str, location: str) -> OutsideFailure | None:
    """Return the error to report if a failure is about the checkpoint's files in ``location``; None otherwise."""
    text = str(error)
    if _CONCURRENT_JOBS_ERROR.search(text):
        # A checkpoint in a folder is locked, so no other job wrote to it.
        batch_mismatch = damaged_checkpoint(checkpoint, "its offsets and commits are of different batches")
        return in_use(checkpoint) if "://" in checkpoint else batch_mismatch
    path_pattern = re.escape(location) + _FILE_PATH
    # In an error about a checksum, the paths of other files come first.
    match = re.search(rf"(?<=Checksum error: file:){path_pattern}", text) or re.search(path_pattern, text)
    file = None if match is None else match[0]
    for number in _UNWRITABLE_DISK_ERRORS:
        if os.strerror(number) in text and (file is not None or number == errno.ENOSPC):
            return refused(checkpoint, file or checkpoint, number)
    if file is not None and any(denied_word in text for denied_word in _DENIED_WORDS):
        return refused(checkpoint, file, errno.EACCES)
    is_damaged = _DAMAGED_STATE_ERROR.search(text) is not None
    if _STATE_ERRORS.search(text) or (is_damaged and file is not None):
        what = "a file of its state" if _STATE_ERRORS.search(text) else file
        return damaged_checkpoint(checkpoint, f"{what} is damaged or missing ({reason(error)})")
    if _FILES_INCONSISTENT.search(text) or (is_damaged and _STATE_READER_FRAME.search(text)):
        return damaged_checkpoint(checkpoint, f"its files are not as Spark left them ({reason(error)})")
    return None
