"""The checkpoint's metadata (``rebalance-monitor.json``) and its lock, checked before every start.

Spark does not validate checkpoints. Offsets of another topic, or of a topic that was deleted and made again under
the same name, skip records in silence; another number of buckets looks for groups where they are not. The metadata
names the cluster, the topic (by its id), the number of buckets and the partition counts that the checkpoint
belongs to.

A checkpoint in a folder is locked before anything in it is changed. One behind a URL (``s3a://…``) has no lock:
there :mod:`streaming.spark.start` listens for another stream first, and Spark writes and reads the metadata.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Literal, Protocol

import msgspec
from msgspec import field, structs

from assignors.errors import BadInput, OutsideFailure
from streaming.monitor import bucket_state
from streaming.records.codec import UNREADABLE
from streaming.records.events import Count
from streaming.spark import state_store
from streaming.spark.failures import RESTORE, CheckpointInUse, damaged, errors, in_use, unusable
from streaming.spark.state_store import StateStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

#: What to do when records are gone: stop, go on with what is there, or begin anew.
OnDataLoss = Literal["stop", "continue", "restart"]
NAME = "rebalance-monitor.json"


class CheckpointOfAnotherJob(BadInput):
    """The checkpoint belongs to another topic, cluster, release or number of buckets."""


class TopicRecreated(OutsideFailure):
    """The membership topic was deleted and made again."""


#: Buckets of a new checkpoint, unless configured.
BUCKETS = 16
#: The most: each has a row in every tick.
MOST_BUCKETS: Final = 2**20
_LOCK = ".lock"
#: The layout around the blobs.
_VERSION = 1


class Card(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a checkpoint.

    Attributes:
        cluster_id: of the Kafka cluster.
        topic: name of the membership topic.
        topic_id: its id, as Kafka prints it.
        buckets: of the state; 0 for as many as the checkpoint has.
        version: of the layout around the blobs.
        partitions: how many partitions of the membership topic are read.
        outputs: partitions by output topic, when the checkpoint was made: records of a key stay in their partition
            when the topic gets more.
        state: version of the blobs.
        state_store: where Spark keeps them; None for the checkpoint's own.
    """

    cluster_id: str
    topic: str
    topic_id: str
    buckets: Annotated[int, msgspec.Meta(ge=0, le=MOST_BUCKETS)]
    version: int = _VERSION
    partitions: Count = 0
    outputs: dict[str, Count] = field(default_factory=dict)
    state: int = bucket_state.VERSION
    state_store: StateStore | None = state_store.DEFAULT


class CardStore(Protocol):
    """Reads and writes a checkpoint's metadata."""

    def read(self) -> Card | None:
        """Return the metadata; None for a checkpoint that is not there yet."""

    def write(self, card: Card) -> None:
        """Write it, whole or not at all."""

    def set_aside(self) -> None:
        """Move the checkpoint away, and begin a new one in its place."""

    def check(self) -> None:
        """Check that it is still there."""


class Folder:
    """A checkpoint in a folder, locked for this process (:func:`held`)."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        self._path = Path(checkpoint)
        self._lock: IO[str] | None = None

    def lock(self) -> None:
        """Lock the folder; it is made when missing.

        Raises:
            CheckpointInUse: another process has it.
            CheckpointUnusable: it can't be written.
        """
        try:
            settle(self._path)
            self._path.mkdir(parents=True, exist_ok=True)
            lock = (self._path / _LOCK).open("a")
        except OSError as error:
            raise unusable(self._checkpoint, error) from error
        self._lock = lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise CheckpointInUse(in_use(self._checkpoint)) from None
        except OSError as error:  # some network file systems have no locks
            _log.warning(
                "--checkpoint %s: its file system has no locks (%s): make sure that no second job uses it",
                self._checkpoint,
                error.strerror,
            )

    def unlock(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check(self) -> None:
        """Check that the folder is still the one that is locked.

        Raises:
            CheckpointDamaged: it is gone or another. Spark would go on in silence, and write an unusable one.
        """
        if self._lock is None:
            return
        try:
            same = os.path.samestat((self._path / _LOCK).stat(), os.fstat(self._lock.fileno()))
        except (FileNotFoundError, NotADirectoryError):
            same = False
        except OSError:  # Spark's own errors tell more of a disk that fails
            return
        if not same:
            raise damaged(self._checkpoint, "it was removed or replaced while in use")

    def read(self) -> Card | None:
        """Return the metadata."""
        try:
            return read(self._path)
        except OSError as error:
            raise unusable(self._checkpoint, error) from error

    def write(self, card: Card) -> None:
        """Write the metadata."""
        try:
            write(self._path, card)
        except OSError as error:
            raise unusable(self._checkpoint, error) from error

    def set_aside(self) -> None:
        """Rename the folder, and lock a new one in its place."""
        try:
            aside = set_aside(self._path)
        except OSError as error:
            raise unusable(self._checkpoint, error) from error
        _log.warning("the checkpoint was set aside as %s: the topic is read from its beginning", aside)
        self.unlock()
        self.lock()


def require_unused(checkpoint: str) -> None:
    """Return when no other process has a checkpoint; one behind a URL is not looked at.

    Raises:
        CheckpointInUse: another process has it.
        CheckpointUnusable: it can't be written.
    """
    if "://" not in checkpoint and Path(checkpoint).is_dir():
        folder = Folder(checkpoint)
        folder.lock()
        folder.unlock()


class Remote:
    """A checkpoint behind a URL: Spark reads and writes the metadata, as it does the rest."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        self._checkpoint = checkpoint
        self._spark = spark
        self._location = f"{checkpoint.rstrip('/')}/{NAME}"

    def read(self) -> Card | None:
        """Return the metadata."""
        from pyspark.errors import AnalysisException

        try:
            rows = self._spark.read.text(self._location).collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None
        except errors() as error:
            raise damaged(self._checkpoint, f"{self._location} can't be read") from error
        try:
            return msgspec.json.decode("".join(row.value for row in rows), type=Card)
        except UNREADABLE as error:
            raise damaged(self._checkpoint, f"{self._location} is damaged") from error

    def write(self, card: Card) -> None:
        """Write the metadata."""
        from pyspark.sql import functions as f

        text = msgspec.json.encode(card).decode()
        (
            self._spark.range(1, numPartitions=1)
            .select(f.lit(text).alias("value"))
            .write.mode("overwrite")
            .text(self._location)
        )

    def check(self) -> None:
        """Check nothing: Spark itself notices another job that writes its logs."""

    def set_aside(self) -> None:
        """Refuse: an object store has no rename."""
        raise CheckpointOfAnotherJob(
            f"--checkpoint {self._checkpoint}: can't be set aside behind a URL; name another folder, which reads "
            "the topic from its beginning"
        )


@contextmanager
def held(checkpoint: str) -> Iterator[Folder]:
    """Lock a checkpoint in a folder for this process.

    Raises:
        CheckpointInUse: another process has it.
        CheckpointUnusable: its folder can't be written.
    """
    folder = Folder(checkpoint)
    folder.lock()
    try:
        yield folder
    finally:
        folder.unlock()


def is_remote(checkpoint: str) -> bool:
    """Return whether a checkpoint is behind a URL."""
    return "://" in checkpoint


def claim(checkpoint: str, store: CardStore, card: Card, on_data_loss: OnDataLoss) -> Card:
    """Make the checkpoint this job's, or refuse. The caller holds it.

    Returns:
        The metadata that it has now: with the partitions that were read and written so far.

    Raises:
        CheckpointOfAnotherJob: it is another job's.
        TopicRecreated: it is ours, but the topic is a new one and ``on_data_loss`` is ``stop``.
        CheckpointDamaged, CheckpointUnusable: it can't be used.
    """
    known = store.read()
    card = _completed(card, known)
    if known is not None and known != card:
        _compare(checkpoint, known, card)
        if known.topic_id != card.topic_id:
            if on_data_loss == "stop":
                raise TopicRecreated(recreated(checkpoint, card.topic))
            if on_data_loss == "restart":
                store.set_aside()
    if known != card:
        store.write(card)
    return card


def _completed(card: Card, known: Card | None) -> Card:
    """Return the metadata with what it leaves to the checkpoint."""
    if known is None:
        return structs.replace(
            card, buckets=card.buckets or BUCKETS, state_store=card.state_store or state_store.DEFAULT
        )
    card = structs.replace(
        card,
        buckets=card.buckets or known.buckets,
        state_store=card.state_store or known.state_store or state_store.DEFAULT,
        outputs=_kept(known.outputs, card.outputs),
    )
    if known.topic_id != card.topic_id:
        return card
    return structs.replace(card, partitions=min(known.partitions or card.partitions, card.partitions))


def _kept(known: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the partitions to write to: a topic that grew has those it had, one that was made again all."""
    return {topic: min(known.get(topic, count), count) for topic, count in now.items()}


def staged(folder: Path) -> Path:
    """Return the folder in which the new checkpoint is made; it is complete when it has its metadata."""
    return folder.with_name(f".{folder.name}.resizing")


def settle(folder: Path) -> None:
    """Finish a :func:`switch` that was interrupted between its two steps."""
    if not folder.exists() and (staged(folder) / NAME).exists():
        staged(folder).rename(folder)


def switch(folder: Path) -> Path:
    """Put what is staged in the checkpoint's place; where the old one is now."""
    aside = set_aside(folder)
    settle(folder)
    return aside


def set_aside(folder: Path) -> Path:
    """Move a checkpoint out of the way, and return where it is now."""
    name = f"{folder.name}.{time.strftime('%Y%m%dT%H%M%S')}"
    names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))
    return folder.rename(next(place for place in map(folder.with_name, names) if not place.exists()))


def recreated(checkpoint: str, topic: str) -> str:
    """The message that names the choice."""
    return (
        f"topic {topic} was deleted and made again since --checkpoint {checkpoint} was written. Choose: "
        "--on-data-loss restart sets the checkpoint aside and reads the new topic from its beginning, without the "
        "groups' state; --on-data-loss continue keeps offsets and state, and records of the new topic below those "
        "offsets are never read"
    )


def write(folder: Path, card: Card) -> None:
    """Put the card into a folder, whole or not at all."""
    part = folder / f".{NAME}.part"
    part.write_bytes(msgspec.json.encode(card))
    part.replace(folder / NAME)


def read(folder: Path) -> Card | None:
    """The card of a checkpoint; None for an empty folder.

    Raises:
        CheckpointOfAnotherJob: a Spark checkpoint without one.
        CheckpointDamaged: it can't be read.
    """
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Card)
    except FileNotFoundError:
        if (folder / "offsets").is_dir():
            raise CheckpointOfAnotherJob(
                f"--checkpoint {folder}: holds a Spark checkpoint without {NAME}. If it is another program's, name "
                f"another folder; if it is ours, that file was lost. {RESTORE}"
            ) from None
        return None
    except UNREADABLE as error:
        raise damaged(str(folder), f"{folder / NAME} is damaged") from error


def readable(checkpoint: str, known: Card) -> Card:
    """Return the metadata as this release writes it.

    Raises:
        CheckpointOfAnotherJob: another release wrote it.
    """
    card = structs.replace(known, version=_VERSION, state=bucket_state.VERSION)
    _compare(checkpoint, known, card)
    return card


def _compare(checkpoint: str, known: Card, card: Card) -> None:
    where = f"--checkpoint {checkpoint}"
    if known.topic != card.topic:
        raise CheckpointOfAnotherJob(
            f"{where}: belongs to topic {known.topic}, not {card.topic}; name another folder"
        )
    if known.cluster_id != card.cluster_id:
        raise CheckpointOfAnotherJob(
            f"{where}: belongs to cluster {known.cluster_id}, not {card.cluster_id}; name another folder"
        )
    if (known.version, known.state) != (card.version, card.state):
        raise CheckpointOfAnotherJob(
            f"{where}: another release wrote it (layout {known.version}, state {known.state}; this one's are "
            f"{card.version} and {card.state}); run that release, or name another folder: the same diffs come out "
            "of the membership topic, with the same ids"
        )
    if known.buckets != card.buckets:
        raise CheckpointOfAnotherJob(
            f"{where}: was made with --buckets {known.buckets}; leave --buckets out, or give it other numbers with "
            "`stream resize` first"
        )
    if known.state_store not in (None, card.state_store):
        raise CheckpointOfAnotherJob(
            f"{where}: keeps its state in --state-store {known.state_store}; leave --state-store out (setting "
            f"stream.state_store), or first move it: `stream resize --state-store {card.state_store}`"
        )
