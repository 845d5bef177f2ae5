"""Whose checkpoint this is: a card beside Spark's own files, compared before every start.

Spark believes any checkpoint. Offsets of another topic, or of a topic that was deleted and made again under the
same name, skip records in silence; another number of buckets looks for groups where they are not. The card
says which cluster, topic (by its id) and number of buckets the checkpoint belongs to.

Only checkpoints in a folder have a card; one behind a URL (``s3a://…``) is taken as it is.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import structs

from assignors.errors import BadInput, OutsideFailure
from streaming.monitor import blob
from streaming.spark import state_store
from streaming.spark.damage import RESTORE, damaged, unusable
from streaming.spark.state_store import StateStore
from streaming.wire.codec import UNREADABLE
from streaming.wire.events import Count

_log = logging.getLogger(__name__)

#: What to do when records are gone: stop, go on with what is there, or begin anew.
OnDataLoss = Literal["stop", "continue", "restart"]
NAME = "rebalance-monitor.json"


class CheckpointOfAnotherJob(BadInput):
    """The checkpoint belongs to another topic, cluster or number of buckets."""


class CheckpointInUse(OutsideFailure):
    """A job works with the checkpoint."""


class TopicRecreated(OutsideFailure):
    """The membership topic was deleted and made again."""


#: How many buckets a new checkpoint has when nobody says.
BUCKETS = 16
#: The most: each has a row in every tick.
MOST_BUCKETS: Final = 2**20
_LOCK = ".lock"
#: The layout around the blobs: version 2 numbers the buckets by their hash and keeps no timeouts of Spark's.
_VERSION = 2


class Card(msgspec.Struct, frozen=True, rename="camel"):
    """What a checkpoint belongs to.

    ``topic_id`` as Kafka prints it; ``buckets`` 0: as many as the checkpoint has; ``partitions``: how many of them
    are read; ``state``: the newest version of the blobs in it, or of those that will be; ``state_store``: where
    Spark keeps them, None as the checkpoint does.
    """

    cluster_id: str
    topic: str
    topic_id: str
    buckets: Annotated[int, msgspec.Meta(ge=0, le=MOST_BUCKETS)]
    version: int = _VERSION
    partitions: Count = 0
    state: int = blob.VERSION
    state_store: StateStore | None = state_store.DEFAULT


def claim(checkpoint: str, card: Card, on_data_loss: OnDataLoss) -> Card:
    """Make the checkpoint this job's, or refuse.

    Returns:
        The card it has now: of a topic that grew since, with the partitions that were read so far.

    Raises:
        CheckpointOfAnotherJob: it is another job's.
        TopicRecreated: it is ours, but the topic is a new one and ``on_data_loss`` is ``stop``.
        CheckpointDamaged, CheckpointUnusable: its folder can't be used.
    """
    if "://" in checkpoint:
        return card
    folder = Path(checkpoint)
    try:
        settle(folder)
        folder.mkdir(parents=True, exist_ok=True)
        known = read(folder)
        card = _chosen(card, known)
        if known is not None and known.topic_id == card.topic_id:
            card = structs.replace(card, partitions=min(known.partitions or card.partitions, card.partitions))
        if known is not None and known != card:
            _compare(checkpoint, known, card)
            if known.topic_id != card.topic_id:
                if on_data_loss == "stop":
                    raise TopicRecreated(recreated(checkpoint, card.topic))
                if on_data_loss == "restart":
                    set_aside(folder)
                    folder.mkdir(parents=True)
        write(folder, card)
    except OSError as error:
        raise unusable(checkpoint, error) from error
    return card


def _chosen(card: Card, known: Card | None) -> Card:
    """The card with what it leaves to the checkpoint."""
    if known is None:
        buckets, store = BUCKETS, state_store.DEFAULT
    else:
        buckets, store = known.buckets, known.state_store or state_store.DEFAULT
    return structs.replace(card, buckets=card.buckets or buckets, state_store=card.state_store or store)


def grow(checkpoint: str, card: Card) -> None:
    """Note that ``card.partitions`` partitions are read from now on."""
    if "://" in checkpoint:
        return
    try:
        write(Path(checkpoint), card)
    except OSError as error:
        raise unusable(checkpoint, error) from error


@contextmanager
def held(checkpoint: str) -> Iterator[Callable[[], None]]:
    """Have the checkpoint for this process alone. One behind a URL is taken as it is; where the
    file system has no locks, that is logged.

    Yields:
        A look whether the folder is still the one that is held; where it is not, it raises CheckpointDamaged. Spark
        would go on in silence, and write what no start could use.

    Raises:
        CheckpointInUse: another process has it.
        CheckpointUnusable: its folder can't be written.
    """
    if "://" in checkpoint:
        yield lambda: None
        return
    path = Path(checkpoint) / _LOCK
    try:
        lock = path.open("a")
    except OSError as error:
        raise unusable(checkpoint, error) from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointInUse(
                f"--checkpoint {checkpoint}: another process works with it; stop that one first"
            ) from None
        except OSError as error:  # some network file systems have no locks
            _log.warning(
                "--checkpoint %s: its file system has no locks (%s): see to it that no second job uses it",
                checkpoint,
                error.strerror,
            )
        yield partial(_look, checkpoint, path, os.fstat(file.fileno()))


def _look(checkpoint: str, path: Path, known: os.stat_result) -> None:
    try:
        same = os.path.samestat(path.stat(), known)
    except (FileNotFoundError, NotADirectoryError):
        same = False
    except OSError:  # of a disk that fails Spark's own errors say more
        return
    if not same:
        raise damaged(checkpoint, "it was removed or replaced while in use")


def staged(folder: Path) -> Path:
    """Where what is to take a checkpoint's place is made; it is whole when it has its card."""
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
    """Move a checkpoint out of the way; where it is now."""
    aside = folder.with_name(f"{folder.name}.{time.strftime('%Y%m%dT%H%M%S')}")
    return folder.rename(aside)


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
    """The card as this release writes it.

    Raises:
        CheckpointOfAnotherJob: another release's layout, or a newer one's state.
    """
    card = structs.replace(known, version=_VERSION, state=blob.VERSION)
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
    if known.version != card.version:
        raise CheckpointOfAnotherJob(
            f"{where}: has the layout of another release ({known.version}, this one's is {card.version}); run that "
            "release, or name another folder: the diffs come out the same from the beginning of the log"
        )
    if known.state > card.state:
        raise CheckpointOfAnotherJob(
            f"{where}: a newer release has written to it (state of version {known.state}, this release reads up to "
            f"{card.state}); run that release, or start from a copy of the time before"
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
