"""The checkpoint's metadata (``rebalance-monitor.json``), its lock, and the files that Spark writes in it.

Spark does not validate checkpoints. With offsets of another topic, or of a topic that was deleted and created again,
Spark skips records without an error; with another number of buckets it does not find the groups' state. So the metadata
names the cluster, topic, buckets and partitions. A checkpoint behind a URL (``s3a://…``) has no lock.
"""

import fcntl
import logging
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import field, structs

from assignors.errors import BadInput, OutsideFailure
from streaming.monitor import bucket_state
from streaming.records.codec import DECODE_ERRORS
from streaming.records.events import Count
from streaming.spark.failures import RESTORE_ADVICE, damaged_checkpoint, in_use, spark_errors, unusable_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
#: The reaction to lost records: stop, continue with the remaining records, or restart with a new checkpoint.
DataLossPolicy = Literal["stop", "continue", "restart"]
METADATA_FILE: Final = "rebalance-monitor.json"
#: The default and the largest number of buckets of a new checkpoint; every tick is one row per bucket.
DEFAULT_BUCKETS: Final = 16
MAX_BUCKETS: Final = 2**20
_LOCK_FILE: Final = ".lock"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
#: The type of the number of shuffle partitions: Java's ``int``.
_Partitions = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
#: A number of a batch or task in file names, at most Java's ``long``.
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
#: The version of the checkpoint's layout around the blobs.
_VERSION: Final = 1


class TopicDeleted(OutsideFailure):
    """A topic that the job reads or writes was deleted, or deleted and created again."""


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a checkpoint.

    ``buckets`` is 0 in a job that takes the number from the checkpoint. ``version`` is the version of the layout, and
    ``state`` the version of the blobs. ``partitions`` is how many of the membership topic's partitions are read.
    ``outputs`` has the partition count of each output topic when the checkpoint was created: a key's records stay in
    their partition when the topic gets more partitions.
    """

    cluster_id: str
    topic: str
    topic_id: str
    buckets: Annotated[int, msgspec.Meta(ge=0, le=MAX_BUCKETS)]
    version: int = _VERSION
    partitions: Count = 0
    outputs: dict[str, Count] = field(default_factory=dict)
    state: int = bucket_state.VERSION


class LocalCheckpoint:
    """A checkpoint in a folder, which is locked for this process during the ``with`` block."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        self._path = Path(checkpoint)
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        """Lock the checkpoint's folder, and create the folder if it is missing."""
        try:
            settle(self._path)
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock = (self._path / _LOCK_FILE).open("a")
        except OSError as error:
            raise unusable_checkpoint(self._checkpoint, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            raise in_use(self._checkpoint) from None
        except OSError as error:  # some network file systems have no locks
            text = "--checkpoint %s: its file system has no locks (%s): make sure that no second job uses it"
            _log.warning(text, self._checkpoint, error.strerror)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check(self) -> None:
        """Raise an error if the checkpoint's locked folder was removed or replaced."""
        if self._lock is None:
            return
        try:
            is_same = os.path.samestat((self._path / _LOCK_FILE).stat(), os.fstat(self._lock.fileno()))
        except (FileNotFoundError, NotADirectoryError):
            is_same = False
        except OSError:  # Spark's own error names the file of a failing disk
            return
        if not is_same:
            raise damaged_checkpoint(self._checkpoint, "it was removed or replaced while in use")

    def read(self) -> Metadata | None:
        """Return the checkpoint's metadata; None if the folder is empty or missing."""
        file = self._path / METADATA_FILE
        try:
            return msgspec.json.decode(file.read_bytes(), type=Metadata)
        except FileNotFoundError:
            if (self._path / "offsets").is_dir():
                raise BadInput(
                    f"--checkpoint {self._path}: holds a Spark checkpoint without {METADATA_FILE}. If it is another "
                    f"program's, name another folder; if this program wrote it, that file was lost. {RESTORE_ADVICE}"
                ) from None
            return None
        except OSError as error:
            raise unusable_checkpoint(self._checkpoint, error) from error
        except DECODE_ERRORS as error:
            raise damaged_checkpoint(self._checkpoint, f"{file} is damaged") from error

    def write(self, metadata: Metadata) -> None:
        """Write the checkpoint's metadata atomically."""
        part = self._path / f".{METADATA_FILE}.part"
        try:
            part.write_bytes(msgspec.json.encode(metadata))
            part.replace(self._path / METADATA_FILE)
        except OSError as error:
            raise unusable_checkpoint(self._checkpoint, error) from error

    def replace(self) -> None:
        """Rename the checkpoint's folder, and lock a new folder in its place."""
        try:
            renamed = rename_with_timestamp(self._path)
        except OSError as error:
            raise unusable_checkpoint(self._checkpoint, error) from error
        _log.warning("the checkpoint was set aside as %s: the topic is read from its beginning", renamed)
        self.__exit__()
        self.__enter__()


class RemoteCheckpoint:
    """A checkpoint behind a URL, whose metadata Spark reads and writes like its own files."""

    def __init__(self, checkpoint: str, spark: "SparkSession") -> None:
        self._checkpoint = checkpoint
        self._spark = spark
        self._location = f"{checkpoint.rstrip('/')}/{METADATA_FILE}"

    def read(self) -> Metadata | None:
        """Return the checkpoint's metadata; None if the checkpoint is new."""
        from pyspark.errors import AnalysisException

        try:
            rows = self._spark.read.text(self._location).collect()
            return msgspec.json.decode("".join(row.value for row in rows), type=Metadata)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None
        except DECODE_ERRORS + spark_errors() as error:
            raise damaged_checkpoint(self._checkpoint, f"{self._location} is damaged or can't be read") from error

    def write(self, metadata: Metadata) -> None:
        """Write the checkpoint's metadata."""
        from pyspark.sql import functions as f

        text = f.lit(msgspec.json.encode(metadata).decode()).alias("value")
        self._spark.range(1, numPartitions=1).select(text).write.mode("overwrite").text(self._location)

    def check(self) -> None:
        """Do nothing: Spark itself detects another job that writes to a checkpoint behind a URL."""

    def replace(self) -> None:
        """Raise BadInput: a checkpoint behind a URL can't be replaced, because object stores have no rename."""
        raise BadInput(
            f"--checkpoint {self._checkpoint}: a URL can't be renamed; name another folder to read the whole topic"
        )


Checkpoint = LocalCheckpoint | RemoteCheckpoint


def is_remote(checkpoint: str) -> bool:
    """True if the checkpoint is behind a URL."""
    return "://" in checkpoint


def require_unused(checkpoint: str) -> None:
    """Raise an error if another process has locked a checkpoint; a checkpoint behind a URL is not checked."""
    if not is_remote(checkpoint) and Path(checkpoint).is_dir():
        with LocalCheckpoint(checkpoint):
            return


def claim(checkpoint: str, store: Checkpoint, wanted: Metadata, on_data_loss: DataLossPolicy) -> Metadata:
    """Return the checkpoint's metadata once it belongs to this job, or raise an error; the caller holds the lock."""
    stored = store.read()
    if stored is None:
        metadata = structs.replace(wanted, buckets=wanted.buckets or DEFAULT_BUCKETS)
    else:
        # Records stay in the partitions that a topic had before it grew; a topic that was created again may have fewer.
        outputs = {name: min(stored.outputs.get(name, count), count) for name, count in wanted.outputs.items()}
        metadata = structs.replace(wanted, buckets=wanted.buckets or stored.buckets, outputs=outputs)
        if stored.topic_id == wanted.topic_id:
            partitions = min(stored.partitions or wanted.partitions, wanted.partitions)
            metadata = structs.replace(metadata, partitions=partitions)
        _require_same_metadata(checkpoint, stored, metadata)
        if stored.topic_id != metadata.topic_id:
            if on_data_loss == "stop":
                raise TopicDeleted(recreated_message(checkpoint, metadata.topic))
            if on_data_loss == "restart":
                store.replace()
    if stored != metadata:
        store.write(metadata)
    return metadata


def require_release(checkpoint: str, stored: Metadata) -> None:
    """Raise BadInput if another release of this program wrote the checkpoint."""
    if (stored.version, stored.state) != (_VERSION, bucket_state.VERSION):
        raise BadInput(
            f"--checkpoint {checkpoint}: another release wrote it (layout {stored.version}, state {stored.state}; "
            f"this release's: {_VERSION}, {bucket_state.VERSION}); run that release, or name another folder, which "
            "computes the same diffs with the same ids from the membership topic"
        )


def _require_same_metadata(checkpoint: str, stored: Metadata, wanted: Metadata) -> None:
    where = f"--checkpoint {checkpoint}"
    for what, before, now in (("topic", stored.topic, wanted.topic), ("cluster", stored.cluster_id, wanted.cluster_id)):
        if before != now:
            raise BadInput(f"{where}: was written for {what} {before}, not {now}; name another folder")
    require_release(checkpoint, stored)
    if stored.buckets != wanted.buckets:
        raise BadInput(
            f"{where}: was made with --buckets {stored.buckets}; leave --buckets out, or change the number with "
            "`stream resize` first"
        )


def recreated_message(checkpoint: str, topic: str) -> str:
    """Return the error message for a membership topic that was created again, with the ways to continue."""
    return (
        f"topic {topic} was deleted and created again since --checkpoint {checkpoint} was written. Choose: "
        "--on-data-loss restart sets the checkpoint aside and reads the new topic from its beginning, without the "
        "groups' state; --on-data-loss continue keeps offsets and state, and records of the new topic below those "
        "offsets are never read"
    )


def staging_folder(folder: Path) -> Path:
    """Return the folder in which a new checkpoint is prepared; its metadata file shows that the folder is complete."""
    return folder.with_name(f".{folder.name}.resizing")


def settle(folder: Path) -> None:
    """Finish the replacement of a checkpoint (:func:`switch`) that was interrupted between its two renames."""
    if not folder.exists() and (staging_folder(folder) / METADATA_FILE).exists():
        staging_folder(folder).rename(folder)


def replace_checkpoint(folder: Path) -> Path:
    """Replace a checkpoint by its staged version; return the path to which the old checkpoint was moved."""
    renamed = rename_with_timestamp(folder)
    settle(folder)
    return renamed


def rename_with_timestamp(folder: Path) -> Path:
    """Append a timestamp to the name of a checkpoint's folder on disk, and return the folder's new path."""
    renamed = folder.with_name(f"{folder.name}.{time.strftime('%Y%m%dT%H%M%S')}")
    while renamed.exists():
        renamed = renamed.with_name(f"{renamed.name}.again")
    return folder.rename(renamed)


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """The file of one batch in the checkpoint's folder ``offsets``.

    ``metadata``: Spark's metadata, with its properties under ``conf``. ``sources``: the batch's end in each source, one
    line of JSON per source, or ``-`` without an end. ``shuffle_partitions``: the number of tasks of the stateful stage.
    """

    version: bytes
    metadata: dict[str, Any]
    sources: list[bytes]
    shuffle_partitions: int

    @classmethod
    def read(cls, checkpoint: Path, batch: int) -> "OffsetsFile":
        """Return the content of the checkpoint's file with the offsets of a batch."""
        file = checkpoint / "offsets" / str(batch)
        try:
            version, line, *sources = file.read_bytes().splitlines()
            metadata = msgspec.json.decode(line, type=dict[str, Any])
            partitions = msgspec.convert(metadata["conf"][SHUFFLE_PARTITIONS], _Partitions, strict=False)
        except (*DECODE_ERRORS, OSError, ValueError, KeyError, TypeError) as error:
            raise damaged_checkpoint(str(checkpoint), f"{file} is damaged") from error
        return cls(version, metadata, sources, partitions)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the offsets at which the batch ends, by partition of a topic."""
        for line in self.sources:
            ends = {} if line == b"-" else msgspec.json.decode(line, type=dict[str, dict[int, int]])
            if topic in ends:
                return ends[topic]
        return {}


def last_batch(folder: Path) -> int | None:
    """Return the number of the newest batch in the folder ``offsets`` or ``commits``; None without a batch."""
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if _DIGITS.fullmatch(name)), default=None)


def state_bytes(checkpoint: Path) -> int:
    """Return the approximate size of the state on disk (bytes): the sum of each task's largest file."""
    tasks = [path for path in (checkpoint / "state" / "0").glob("*/") if _DIGITS.fullmatch(path.name) and path.is_dir()]
    return sum(max((file.stat().st_size for file in task.iterdir() if file.is_file()), default=0) for task in tasks)
