"""Records of the membership topic that were gone before they were read: by its retention, or with a broker's disk.

Spark finds out while it runs and speaks of an option of its source. A start looks before Spark does, at what the
checkpoint says was read; one behind a URL is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from assignors.errors import OutsideFailure
from streaming.kafka.offsets import bounds
from streaming.spark import damage
from streaming.wire.codec import UNREADABLE

if TYPE_CHECKING:
    from streaming.settings.connection import KafkaSettings
    from streaming.spark.checkpoint import Card

#: What Spark says when offsets that it wants are not there (``kafka-error-conditions.json`` of its connector).
_SIGNS = re.compile(
    r"KAFKA_DATA_LOSS|Some data may have been lost|START_OFFSET_GREATER_THAN_END_OFFSET|OffsetOutOfRangeException"
)


class RecordsLost(OutsideFailure):
    """Records of the membership topic are gone that the job had not read, or stands behind."""


def look(kafka: KafkaSettings, checkpoint: str, card: Card) -> str:
    """What the topic has lost of what a start reads; an empty text where all is there.

    Args:
        kafka: the cluster.
        checkpoint: a folder whose files are whole (:func:`streaming.spark.damage.look`), or a URL.
        card: the checkpoint's.

    Raises:
        ClusterUnavailable: nobody tells where the partitions begin and end.
        CheckpointDamaged: a file is not as Spark left it.
    """
    wanted = {
        number: span for number, span in spans(checkpoint, card.topic).items() if number < card.partitions
    }
    found = bounds(kafka, [(card.topic, number) for number in wanted])
    return "; ".join(gone(wanted, {number: there for (_, number), there in found.items()}))


class Span(NamedTuple):
    """What a start reads of a partition at least, in offsets: up to ``end``, of a batch that is run again."""

    begin: int
    end: int


def spans(checkpoint: str, topic: str) -> dict[int, Span]:
    """What a start reads at least, by partition; nothing where no batch was done.

    Raises:
        CheckpointDamaged: a file is not as Spark left it.
    """
    folder = Path(checkpoint)
    if "://" in checkpoint:
        return {}
    done, begun = damage.last(folder / "commits"), damage.last(folder / "offsets")
    if done is None or begun is None:
        return {}
    files = [folder / "offsets" / str(number) for number in (done, begun)]
    try:
        begins, ends = (_places(file, topic) for file in files)
    except UNREADABLE as error:
        raise damage.damaged(checkpoint, f"{folder / 'offsets'} holds what is no offsets") from error
    # Where Spark found out itself, it has noted a batch that ends before it begins.
    return {number: Span(begin, max(begin, ends.get(number, 0))) for number, begin in begins.items()}


def _places(file: Path, topic: str) -> dict[int, int]:
    """A batch's ends: behind a version and what is noted of the batch, a line of JSON a source; ``-`` for none."""
    for line in file.read_bytes().splitlines()[2:]:
        found = {} if line == b"-" else msgspec.json.decode(line, type=dict[str, dict[int, int]])
        if topic in found:
            return found[topic]
    return {}


def gone(wanted: Mapping[int, Span], there: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    """What is not there of what a start reads, a phrase a partition.

    Args:
        wanted: partition → what is read.
        there: partition → earliest and next offset.
    """
    for number, (begin, end) in sorted(wanted.items()):
        low, high = there[number]
        if begin < low:
            yield f"partition {number} begins at {low}, and is read from {begin} on"
        elif high < end:
            yield f"partition {number} ends at {high}, and was read to {end}"


def told_by(text: str) -> bool:
    """Whether a query's failure says that records are gone."""
    return _SIGNS.search(text) is not None


def message(topic: str, what: str) -> str:
    """The message that names the choice."""
    return (
        f"topic {topic} has lost records, by its retention or with a broker's disk: {what}. Choose: --on-data-loss "
        "continue goes on with what is there, and what is lost is never read; --on-data-loss restart sets the "
        "checkpoint aside and reads what is there from its beginning, without the groups' state"
    )
