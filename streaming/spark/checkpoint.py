"""Whose checkpoint this is: a card beside Spark's own files, compared before every start.

Spark believes any checkpoint. Offsets of another topic, or of a topic that was deleted and made again under the
same name, skip records in silence; another number of buckets looks for groups where they are not. The card
says which cluster, topic (by its id) and number of buckets the checkpoint belongs to.

Only checkpoints in a folder have a card; one behind a URL (``s3a://…``) is taken as it is.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs

from assignors.errors import BadInput, OutsideFailure
from streaming.monitor import blob
from streaming.spark.damage import damaged, refused
from streaming.wire.codec import UNREADABLE

#: What to do when records are gone: stop, go on with what is there, or begin anew.
OnDataLoss = Literal["stop", "continue", "restart"]
NAME = "rebalance-monitor.json"


class CheckpointOfAnotherJob(BadInput):
    """The checkpoint belongs to another topic, cluster or number of buckets."""


class TopicRecreated(OutsideFailure):
    """The membership topic was deleted and made again."""


#: The layout around the blobs: version 2 numbers the buckets by their hash and keeps no timeouts of Spark's.
_VERSION = 2


class Card(msgspec.Struct, frozen=True, rename="camel"):
    """What a checkpoint belongs to.

    ``topic_id`` as Kafka prints it; ``partitions``: how many of them are read; ``state``: the newest version of the
    blobs in it, or of those that will be.
    """

    cluster_id: str
    topic: str
    topic_id: str
    buckets: int
    version: int = _VERSION
    partitions: int = 0
    state: int = blob.VERSION


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
        folder.mkdir(parents=True, exist_ok=True)
        known = _read(folder)
        if known is not None and known.topic_id == card.topic_id:
            card = structs.replace(card, partitions=min(known.partitions or card.partitions, card.partitions))
        if known is not None and known != card:
            _compare(checkpoint, known, card)
            if known.topic_id != card.topic_id:
                if on_data_loss == "stop":
                    raise TopicRecreated(recreated(checkpoint, card.topic))
                if on_data_loss == "restart":
                    folder.rename(folder.with_name(f"{folder.name}.{time.strftime('%Y%m%dT%H%M%S')}"))
                    folder.mkdir(parents=True)
        _write(folder, card)
    except OSError as error:
        raise refused(checkpoint, str(error.filename or checkpoint), error.errno or 0) from error
    return card


def grow(checkpoint: str, card: Card) -> None:
    """Note that ``card.partitions`` partitions are read from now on."""
    if "://" in checkpoint:
        return
    try:
        _write(Path(checkpoint), card)
    except OSError as error:
        raise refused(checkpoint, str(error.filename or checkpoint), error.errno or 0) from error


def recreated(checkpoint: str, topic: str) -> str:
    """The message that names the choice."""
    return (
        f"topic {topic} was deleted and made again since --checkpoint {checkpoint} was written. Choose: "
        "--on-data-loss restart sets the checkpoint aside and reads the new topic from its beginning, without the "
        "groups' state; --on-data-loss continue keeps offsets and state, and records of the new topic below those "
        "offsets are never read"
    )


def _write(folder: Path, card: Card) -> None:
    part = folder / f".{NAME}.part"
    part.write_bytes(msgspec.json.encode(card))
    part.replace(folder / NAME)


def _read(folder: Path) -> Card | None:
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Card)
    except FileNotFoundError:
        if (folder / "offsets").is_dir():
            raise CheckpointOfAnotherJob(
                f"--checkpoint {folder}: holds a Spark checkpoint that is not ours; name another folder"
            ) from None
        return None
    except UNREADABLE as error:
        raise damaged(str(folder), f"{folder / NAME} is damaged") from error


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
            f"{where}: was made with --buckets {known.buckets}; give that number, or another folder"
        )
